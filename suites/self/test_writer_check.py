"""The writer's check itself: what it accepts beyond one value, what it refuses, and how it says where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from harness import runner
from harness.case.cases import parse
from harness.checks.writer import inputs as writer_inputs
from harness.checks.writer import suite as writer
from harness.checks.writer import wanted as writer_wanted
from harness.judge.ledger import Ledger
from harness.judge.verdict import Grade, Status, Verdict
from harness.paths.base import Outcome
from harness.paths.flydsl import writing as in_tree
from harness.paths.oracle import writing as by_oracle
from harness.paths.requests.writing import WriteTokens
from oracles import layout, normalise
from oracles.formats import PRODUCTION
from suites.self.writer_faulty import FaultyWriter

PADDED = "writer-r6-h16-d128-pairneox-all0-p2-fspread-s1"
OPEN = "writer-r7-h16-d128-pairneox-all1-p3-fnatural-s48"
FAR = "writer-r6-h16-d128-pairneox-all0-p0-ffar-s1"
SPECIAL = "writer-r10-h16-d128-pairneox-all0-p0-fspecial-s3"
Answer = Callable[[WriteTokens], Any]


class Answering(FaultyWriter):
    """Answers by a function."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer

    def write_tokens(self, asked: WriteTokens) -> Outcome:
        made = self.answer(asked)
        return made if isinstance(made, Outcome) else Outcome(asked.outputs if made is None else made)


def judged(text: str, answer: Answer) -> Verdict:
    return runner.run(parse(text), Answering(answer), Ledger())


def spoilt(spoil: Callable[[WriteTokens], None]) -> Answer:
    """The oracle's answer, then ``spoil`` in place."""

    def answer(asked: WriteTokens) -> None:
        by_oracle.write_tokens(asked)
        spoil(asked)

    return answer


# rows without a slot of their own


def test_rows_past_the_slots_may_be_ignored() -> None:
    def ignoring(asked: WriteTokens) -> None:
        rest = torch.full((len(asked.q) - len(asked.slots),), -1)
        by_oracle.write_tokens(replace(asked, slots=torch.cat((asked.slots, rest))))

    verdict = judged(PADDED, ignoring)
    assert verdict.status is Status.AGREE and verdict.facts["more rows than slots"] == "ignored"
    verdict = judged(PADDED, by_oracle.write_tokens)
    assert verdict.status is Status.AGREE
    assert verdict.facts["more rows than slots"].startswith("refused: slots has 6 entries")


def test_a_refusal_that_wrote_something_is_a_difference() -> None:
    def late(asked: WriteTokens) -> None:
        if len(asked.slots) < len(asked.q):
            asked.k_scales[1, 0, 2, 3] ^= 1
        by_oracle.write_tokens(asked)

    verdict = judged(PADDED, late)
    assert verdict.status is Status.DIFFER and verdict.where["tensor"] == "k_scales"
    assert "asked 8 rows with 6 slots" in verdict.notes


def test_any_other_exception_is_an_error() -> None:
    def broken(asked: WriteTokens) -> None:
        raise ZeroDivisionError("lost")

    assert judged(PADDED, broken).status is Status.ERROR


# the shape of an answer


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (lambda asked: asked.outputs[:4], "wrong-arity"),
        (lambda asked: (*asked.outputs[:4], asked.k_scales.flatten()), "wrong-shape"),
        (lambda asked: (*asked.outputs[:4], None), "wrong-type"),
    ],
)
def test_an_answer_of_another_shape(value: Answer, reason: str) -> None:
    verdict = judged(PADDED, value)
    assert (verdict.status, verdict.layer, verdict.reason) == (Status.DIFFER, "shape", reason)


def test_an_answer_beside_the_callers_buffer() -> None:
    """What was asked for in place must be there."""

    def beside(asked: WriteTokens) -> Outcome:
        own = [output.clone() for output in asked.outputs]
        by_oracle.write_tokens(asked)
        made = tuple(output.clone() for output in asked.outputs)
        for output, old in zip(asked.outputs, own, strict=True):
            output.copy_(old)
        return Outcome(made)

    verdict = judged(PADDED, beside)
    assert verdict.status is Status.DIFFER and "not what is in the caller's buffer" in verdict.pattern


def test_nothing_written_is_said() -> None:
    verdict = judged(PADDED, lambda asked: None)
    assert (verdict.status, verdict.pattern) == (Status.DIFFER, "nothing was written")


# more than one right value


def open_byte(asked: WriteTokens) -> tuple[tuple[int, ...], int, set[int]]:
    """Place of the one open key byte of case `OPEN`, its nibble's shift, and its right codes."""
    kept = asked.slots >= 0
    held = writer_wanted.key_range(asked, kept)
    scales, _ = normalise.scale_range(held, PRODUCTION)
    low, high = normalise.code_range(held, scales, PRODUCTION)
    row, column = (low != high).nonzero()[0].tolist()
    slot = int(asked.slots[kept][row])
    place = (slot // 64, 0, column // 32, slot % 64, column % 32 // 2)
    return place, column % 2 * 4, {int(low[row, column]), int(high[row, column])}


@pytest.mark.parametrize("code", range(16))
def test_an_open_byte_may_have_its_right_values_and_no_other(code: int) -> None:
    """Either neighbour agrees at grade bounded; any other code differs, and says so at that grade."""
    asked = writer_inputs.build(parse(OPEN))
    place, shift, right = open_byte(asked)
    assert len(right) == 2

    def put(request: WriteTokens) -> None:
        request.k_codes[place] = int(request.k_codes[place]) & (0xF0 >> shift) | code << shift

    verdict = judged(OPEN, spoilt(put))
    assert verdict.grade is Grade.BOUNDED
    assert verdict.status is (Status.AGREE if code in right else Status.DIFFER), verdict.text()
    if code not in right:
        assert (verdict.where["tensor"], verdict.count) == ("k_codes", 1)


def test_a_byte_that_is_not_open_must_be_right() -> None:
    """A row decided either side of the open one has one right value, in the same case."""
    place, _, _ = open_byte(writer_inputs.build(parse(OPEN)))

    def put(request: WriteTokens) -> None:
        other = (*place[:4], (place[4] + 1) % 16)
        request.k_codes[other] ^= 1

    verdict = judged(OPEN, spoilt(put))
    assert verdict.status is Status.DIFFER and verdict.count == 1


# NaN and infinity


@pytest.mark.parametrize("write", (by_oracle.write_tokens, in_tree.write_tokens))
def test_a_nan_is_left_out_of_its_groups_maximum(write: Answer) -> None:
    verdict = judged(SPECIAL, write)
    assert verdict.status is Status.AGREE, verdict.text()
    assert verdict.facts["groups with a NaN"] > 0


def test_a_nan_that_spoils_its_group_is_a_difference() -> None:
    """Scale 255 where the others have one of their own."""

    def spoil(asked: WriteTokens) -> None:
        by_oracle.write_tokens(asked)
        lost = asked.q.isnan() & (asked.slots >= 0)[:, None, None]
        row, head, column = next(spot for spot in lost.nonzero().tolist() if spot[2] >= 64)
        asked.q_scales[row, 0, column // 32, head % 16, head // 16] = 255

    verdict = judged(SPECIAL, spoil)
    assert verdict.status is Status.DIFFER and verdict.where["tensor"] == "q_scales"


def test_the_neighbours_of_a_nan_must_be_right() -> None:
    """Left out of the maximum, it excuses its own code and nothing else."""

    def spoil(asked: WriteTokens) -> None:
        in_tree.write_tokens(asked)
        lost = asked.q.isnan() & (asked.slots >= 0)[:, None, None]
        group = asked.q.unflatten(2, (4, 32))
        spared = lost & ~group.isinf().any(-1).repeat_interleave(32, dim=2)
        row, head, column = next(spot for spot in spared.nonzero().tolist() if spot[2] >= 64)
        byte = (column ^ 2) // 2
        asked.q_codes[row, head, byte] ^= 0x11

    verdict = judged(SPECIAL, spoil)
    assert verdict.status is Status.DIFFER and verdict.where["tensor"] == "q_codes"


# where


def test_a_query_code_is_placed() -> None:
    def spoil(asked: WriteTokens) -> None:
        asked.q_codes[2, 5, 37] ^= 0x30

    verdict = judged(PADDED, spoilt(spoil))
    asked = writer_inputs.build(parse(PADDED))
    assert verdict.where["tensor"] == "q_codes"
    named = {
        key: verdict.where[key] for key in ("row", "head", "group", "dims", "position", "slot of the row")
    }
    assert named == {
        "row": 2,
        "head": 5,
        "group": 2,
        "dims": "74 and 75",
        "position": int(asked.positions[2]),
        "slot of the row": int(asked.slots[2]),
    }
    assert (verdict.count, verdict.grade) == (1, Grade.EXACT)


def test_a_query_scale_is_placed() -> None:
    def spoil(asked: WriteTokens) -> None:
        asked.q_scales[4, 0, 3, 9, 0] += 1

    verdict = judged(PADDED, spoilt(spoil))
    assert (verdict.where["row"], verdict.where["group"], verdict.where["head"]) == (4, 3, 9)
    assert verdict.pattern == "each 1 step too high"

    def pad(asked: WriteTokens) -> None:
        asked.q_scales[4, 0, 3, 9, 2] = 127

    verdict = judged(PADDED, spoilt(pad))
    assert verdict.where["head"] == "none, a pad tile" and "all in pad tiles" in verdict.pattern


def test_a_key_is_placed_and_its_owner_named() -> None:
    asked = writer_inputs.build(parse(PADDED))
    slot = int(asked.slots[1])

    def spoil(request: WriteTokens) -> None:
        request.k_scales[slot // 64, 0, 2, layout.bent_row(slot % 64)] -= 2

    verdict = judged(PADDED, spoilt(spoil))
    where = verdict.where
    assert (where["tensor"], where["block"], where["slot"]) == ("k_scales", slot // 64, slot % 64)
    assert (where["written by row"], where["position"]) == (1, int(asked.positions[1]))
    assert verdict.pattern == "each 2 steps too low"


def test_a_slot_that_nobody_has_must_stay() -> None:
    def spoil(request: WriteTokens) -> None:
        request.k_codes[0, 0, 1, 7, 3] ^= 0x80

    verdict = judged(PADDED, spoilt(spoil))
    assert verdict.where["written by row"] == "none, it must stay as it was"
    assert verdict.pattern == "all in slots that no row has, in the first page"


def test_far_slots_are_far_and_named_as_they_were_given() -> None:
    """Past 2^16 and 2^25, pages past byte 2^31; the place of a difference is the path's own."""
    given: list[WriteTokens] = []

    def spoil(request: WriteTokens) -> None:
        given.append(request)
        slot = int(request.slots.max())
        request.k_codes[slot // 64, 0, 1, slot % 64, 3] ^= 0x80

    verdict = judged(FAR, spoilt(spoil))
    slots = given[0].slots[given[0].slots >= 0]
    assert slots.max() * 64 >= 1 << 31 and bool(((slots >= 1 << 16) & (slots < 1 << 17)).any())
    assert given[0].k_codes.is_contiguous() and len(given[0].k_codes) > 1 << 19
    where = verdict.where
    assert verdict.status is Status.DIFFER and verdict.count == 1
    assert (where["block"], where["slot"]) == divmod(int(slots.max()), 64)

    def queries(request: WriteTokens) -> None:
        request.q_codes[0, 0, 0] ^= 1

    assert judged(FAR, spoilt(queries)).where["slot of the row"] == int(given[0].slots[0])


def test_few_codes_are_mistrusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "DENSE", ("onehot",))
    verdict = judged("writer-r3-h16-d128-pairneox-all0-p0-fonehot-s1", by_oracle.write_tokens)
    assert verdict.status is Status.MISTRUSTED and "of 16 query codes occur" in verdict.reason


def test_an_oracle_outside_its_own_ranges_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check holds the two oracles against each other in every case."""
    right = writer.key_range

    def narrowed(asked: WriteTokens, kept: torch.Tensor) -> normalise.Range:
        held = right(asked, kept)
        return normalise.Range(-held.low, -held.high)

    monkeypatch.setattr(writer, "key_range", narrowed)
    verdict = judged(PADDED, by_oracle.write_tokens)
    assert verdict.status is Status.ERROR and "outside the ranges" in verdict.reason
