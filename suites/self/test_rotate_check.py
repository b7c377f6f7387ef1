"""The check of suite rotate: what it opens, and that anything else is red, with coordinates."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import pytest
import torch
from torch import Tensor

from harness import runner
from harness.case.cases import CaseError, parse
from harness.case.lists import rotate as listed
from harness.checks.rotate import suite
from harness.checks.rotate.asked import Request, build
from harness.fill import fill_rotate
from harness.judge.ledger import Ledger
from harness.judge.verdict import Grade, Status, Verdict
from harness.paths import base
from harness.paths.oracle import OraclePath
from harness.paths.requests.eightbit import SUBNORMALS
from harness.paths.requests.rotating import RotateKeys, RotateQueries
from oracles import layout, rotate
from oracles.eightbit_subnormals import MODES

QUIET = "rotate-r4-h16-d128-rope64-had1-tofp4-g32-shuf1-fquiet-s8"
EIGHT = "rotate-r2-h4-d128-rope64-had0-tofp8-g64-shuf0-fnatural-s9"
WALSH = "rotate-r3-h16-d256-rope0-had1-tofp4-g64-shuf1-fwalsh-s2"
KEYS = "rotate-r9-h8-d128-rope64-had1-page64-g32-shuf1-fspread-s22"
ROWS = "rotate-r6-h4-d256-rope64-had0-page16-g64-shuf0-fspread-s23"
Spoil = Callable[[Request], None]


class Spoilt(OraclePath):
    """What is right in ``mode``, then ``spoil``; it may state a mode and give others."""

    name = "spoilt"

    def __init__(self, mode: str, spoil: Spoil | None, stated: str, others: tuple[str, ...]) -> None:
        self.mode, self.spoil, self.stated, self.others = mode, spoil, stated, others

    @cached_property
    def table(self) -> base.Answers:
        return {RotateQueries: self.answer, RotateKeys: self.answer}

    def answer(self, request: Request) -> base.Outcome:
        others = tuple(tuple(right(request, mode)) for mode in self.others)
        for tensor, value in zip(request.outputs, right(request, self.mode), strict=True):
            tensor.copy_(value)
        if self.spoil:
            self.spoil(request)
        facts = {SUBNORMALS: self.stated} if self.stated else {}
        return base.Outcome(request.outputs, facts=facts, others=others)


def right(request: Request, mode: str) -> list[Tensor]:
    """Both outputs in ``mode``."""
    before = [tensor.clone() for tensor in request.outputs]
    return suite.want(request, before, before, mode=mode)[0]


def judged(
    text: str,
    spoil: Spoil | None = None,
    *,
    mode: str = "kept",
    stated: str = "",
    others: tuple[str, ...] = (),
) -> Verdict:
    return runner.run(parse(text), Spoilt(mode, spoil, stated, others), Ledger())


def changed(name: str, *place: int) -> Spoil:
    """One bit of the element at ``place`` of an output."""

    def spoil(request: Request) -> None:
        tensor: Tensor = getattr(request, name)
        held = tensor.view(torch.int32) if tensor.dtype is torch.float32 else tensor
        held[place] ^= 1

    return spoil


@pytest.mark.parametrize("mode", MODES)
def test_either_mode_is_right_and_a_stated_one_is_held_to(mode: str) -> None:
    """The modes part in this case."""
    verdict = judged(QUIET, mode=mode)
    assert verdict.status is Status.AGREE and verdict.facts[SUBNORMALS] == mode
    other = MODES[1 - MODES.index(mode)]
    assert judged(QUIET, mode=mode, stated=other).status is Status.DIFFER
    assert judged(QUIET, mode=mode, stated=mode).status is Status.AGREE


def test_one_of_several_ways_is_enough_in_each_byte() -> None:
    """A wrong way beside a right one; both wrong is red."""
    assert judged(QUIET, mode="kept", stated="flushed", others=("flushed",)).status is Status.AGREE
    assert judged(QUIET, mode="kept", stated="flushed", others=("kept",)).status is Status.DIFFER


@pytest.mark.parametrize(
    ("text", "name", "place", "where"),
    [
        (EIGHT, "codes", (1, 3, 7), {"tensor": "codes", "row": 1, "head": 3, "byte": 7}),
        (EIGHT, "scales", (5, 1), {"tensor": "scales", "row": 5, "group": 1}),
        (WALSH, "codes", (2, 15, 127), {"tensor": "codes", "row": 2, "head": 15, "byte": 127}),
        (WALSH, "scales", (2, 0, 3, 5, 0), {"head % 16": 5, "head // 16": 0, "group": 3}),
        (WALSH, "scales", (2, 0, 3, 5, 2), {"head // 16": 2}),
        (KEYS, "codes", (1, 0, 2, 9, 3), {"block": 1, "key": "none, it must stay as it was"}),
        (ROWS, "scales", (31, 2), {"slot": 31, "key": "none, it must stay as it was"}),
    ],
)
def test_one_bit_is_red_where_it_is(
    text: str, name: str, place: tuple[int, ...], where: dict[str, object]
) -> None:
    """Codes, scales, pad tiles and pages of nobody."""
    verdict = judged(text, changed(name, *place))
    assert verdict.status is Status.DIFFER and verdict.count == 1
    assert {key: verdict.where[key] for key in where} == where


def test_a_wrong_byte_names_its_key() -> None:
    """Through the bent row of a scale."""
    request = build(parse(KEYS))
    assert isinstance(request, RotateKeys)
    slot = int(request.slots[4])
    place = slot // 64, 0, 1, layout.bent_row(slot % 64)
    verdict = judged(KEYS, changed("scales", *place))
    assert (verdict.where["key"], verdict.where["slot"]) == (4, slot)


def test_an_answer_that_is_not_in_the_buffers_is_red() -> None:
    class Elsewhere(Spoilt):
        def answer(self, request: Request) -> base.Outcome:
            return base.Outcome(tuple(right(request, "kept")))

    verdict = runner.run(parse(EIGHT), Elsewhere("kept", None, "", ()), Ledger())
    assert verdict.status is Status.DIFFER and "caller's buffer" in verdict.pattern


def test_grades_follow_from_the_case() -> None:
    """No transform or exact sums: exact. Sums that round: ordered. Open bytes: bounded."""
    exact, ordered = EIGHT, "rotate-r1-h16-d128-rope0-had1-tofp4-g32-shuf0-fnatural-s1"
    bounded = "rotate-r9-h16-d256-rope64-had1-page64-g32-shuf1-fnatural-s21"
    grades = [judged(text).grade for text in (exact, WALSH, ordered, bounded)]
    assert grades == [Grade.EXACT, Grade.EXACT, Grade.ORDERED, Grade.BOUNDED]


def test_another_order_of_additions_is_red(monkeypatch: pytest.MonkeyPatch) -> None:
    """Far columns first, on rows that lose bits before large numbers cancel."""
    text, plain = "rotate-r3-h16-d256-rope0-had1-tofp4-g32-shuf0-fcancel-s3", rotate.turned
    bits = torch.arange(256)
    reverse = sum((bits >> i & 1) << (7 - i) for i in range(8))
    assert isinstance(reverse, Tensor)

    class FarFirst(OraclePath):
        @cached_property
        def table(self) -> base.Answers:
            def answer(request: Request) -> base.Outcome:
                def far(turn: rotate.Turn, values: rotate.Range, *rest: object, **mode: str) -> rotate.Range:
                    ends = (end[..., reverse] for end in (values.low, values.high))
                    made = plain(turn, rotate.Range(*ends), request.positions, **mode)
                    return rotate.Range(made.low[..., reverse], made.high[..., reverse])

                with monkeypatch.context() as patch:
                    patch.setattr(rotate, "turned", far)
                    outcome = OraclePath().run(request)
                return outcome

            return {RotateQueries: answer}

    verdict = runner.run(parse(text), FarFirst(), Ledger())
    assert (verdict.status, verdict.grade) == (Status.DIFFER, Grade.ORDERED)


def test_walsh_rows_come_out_at_every_midpoint() -> None:
    """6 and the seven midpoints in one group, exactly, where D^-0.5 is a power of two."""
    x = fill_rotate.fill("walsh", fill_rotate.Asked(3, 2, 256, 32, True, 5))
    made = rotate.hadamard(x.float()) * 2.0**-4
    for row in made.flatten(0, 1):
        assert sorted(row[row != 0].abs().tolist()) == [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0]


@pytest.mark.parametrize("name", listed.FILLS)
def test_no_fill_has_a_subnormal_number(name: str) -> None:
    x = fill_rotate.fill(name, fill_rotate.Asked(4, 16, 128, 32, True, 3)).float().abs()
    assert not bool(((x > 0) & (x < 2.0**-126)).any())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (EIGHT.replace("rope64", "rope8"), "field rope is 8, allowed here are multiples of 16 from 0 to 128"),
        (EIGHT.replace("rope64", "rope0"), "field rope is 0, allowed without RoPE is only had1 with tofp4"),
        (EIGHT.replace("shuf0", "shuf1"), "field shuf is 1, allowed for tofp4"),
        (ROWS.replace("shuf0", "shuf1"), "field g is 64, allowed for keys with shuf1 is 32"),
        (ROWS.replace("rope64", "rope0"), "field rope is 0, allowed here are multiples of 16 from 16 to 256"),
        (EIGHT.replace("h4", "h3"), "field h is 3, allowed in suite rotate are"),
        (EIGHT.replace("r2", "r4096"), r"r \* h is 16384, allowed in suite rotate are at most 4096 rows"),
    ],
)
def test_what_no_kernel_takes_is_refused(text: str, said: str) -> None:
    with pytest.raises(CaseError, match=said):
        parse(text)
