"""Every wrong way of selecting turns a smoke case of suite topk red, and is named where it can be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import pytest
import torch
from torch import Tensor

from harness import runner
from harness.case import lists
from harness.case.case_limits import CaseError
from harness.case.cases import parse
from harness.checks.topk.asked import build
from harness.judge.ledger import Ledger
from harness.judge.verdict import Status, Verdict
from harness.paths import base
from harness.paths.oracle import OraclePath
from harness.paths.oracle.selecting import answers, numbers
from harness.paths.requests.selecting import PlainTopK, SelectDecode, SelectPrefill
from oracles import topk, windows
from oracles.windows import Windows

SMOKE = lists.SUITES["topk"].smoke
Request = SelectDecode | SelectPrefill


def seen_by(request: Request) -> Windows:
    if isinstance(request, SelectDecode):
        return windows.decode_windows(request.context_lens, request.next_n)
    nobody = torch.zeros_like(request.row_start)
    return windows.prefill_windows(nobody, request.row_start, request.row_end)


def select(request: Request, *, seen: Windows | None = None, **changes: Any) -> Tensor:
    """The oracle's ids of a request that is changed; the caller's ids are written."""
    asked = replace(request, **changes)
    chosen = topk.topk(numbers(asked.logits), seen or seen_by(asked), asked.k, asked.stable)
    request.ids.copy_(chosen.ids)
    return request.ids


class Faulty(OraclePath):
    """The oracle path with selections of its own."""

    name = "faulty"

    def __init__(self, select: Callable[[Any], Tensor]) -> None:
        self.select = select

    @cached_property
    def table(self) -> Mapping[type, Callable[[Any], base.Outcome]]:
        def selected(request: Any) -> base.Outcome:
            return base.Outcome(self.select(request))

        return {SelectDecode: selected, SelectPrefill: selected}


def judged(case: str, path: base.Path) -> Verdict:
    return runner.run(parse(case), path, Ledger())


def by_index(request: Request) -> Tensor:
    """The first k keys."""
    place = -torch.arange(request.logits.shape[1], dtype=torch.float32)
    return select(request, logits=place.expand(request.logits.shape))


def smallest(request: Request) -> Tensor:
    return select(request, logits=-numbers(request.logits))


def last_dropped(request: Request) -> Tensor:
    ids = select(request)
    ids[:, -1] = -1
    return ids


def doubled(request: Request) -> Tensor:
    """The last key is the first again: the sorted scores of a plateau stay what they were."""
    ids = select(request)
    ids[:, -1] = torch.where(ids[:, -1] >= 0, ids[:, 0], ids[:, -1])
    return ids


def packed_stride(request: Request) -> Tensor:
    """Rows are taken to lie one visible width apart."""
    rows, width = request.logits.shape
    return select(request, logits=request.logits.as_strided((rows, width), (width, 1)))


def end_late(request: Request) -> Tensor:
    seen = seen_by(request)
    end = torch.where(seen.end > seen.start, (seen.end + 1).clamp(max=request.logits.shape[1]), seen.end)
    return select(request, seen=Windows(seen.seq, seen.start, end))


def end_early(request: Request) -> Tensor:
    seen = seen_by(request)
    return select(request, seen=Windows(seen.seq, seen.start, (seen.end - 1).maximum(seen.start)))


def start_ignored(request: Request) -> Tensor:
    seen = seen_by(request)
    busy = seen.end > seen.start
    return select(request, seen=Windows(seen.seq, seen.start.where(~busy, 0), seen.end))


def start_not_added(request: Request) -> Tensor:
    """Ids count from the start of the window."""
    ids, start = select(request), seen_by(request).start[:, None]
    return ids.copy_(torch.where(ids >= 0, ids - start.int(), ids))


def rows_alike(request: Request) -> Tensor:
    """All rows of a sequence see its whole context (next_n not applied)."""
    if isinstance(request, SelectPrefill):
        return select(request)
    end = request.context_lens.long().repeat_interleave(request.next_n)
    return select(request, seen=Windows(torch.zeros_like(end), torch.zeros_like(end), end))


def zeros_apart(request: Request) -> Tensor:
    """-0 is a smaller number than +0."""
    scores = numbers(request.logits).double()
    return select(request, logits=scores.masked_fill((scores == 0) & scores.signbit(), -5e-324))


def ties_to_the_last(request: Request) -> Tensor:
    """Equal scores go to the largest positions."""
    width = request.logits.shape[1]
    seen = seen_by(request)
    turned = Windows(seen.seq, width - seen.end, width - seen.start)
    ids = select(request, logits=request.logits.flip(1), seen=turned, stable=True)
    return ids.copy_(torch.where(ids >= 0, width - 1 - ids, ids))


def scores_read_below_k(request: Request) -> Tensor:
    """Where all keys are selected, those of a NaN are not."""
    ids = select(request)
    lost = request.logits.gather(1, ids.long().clamp(min=0)).isnan()
    return ids.copy_(ids.masked_fill(lost, -1))


def minus_infinity_is_padding(request: Request) -> Tensor:
    ids = select(request)
    lost = request.logits.gather(1, ids.long().clamp(min=0)) == -torch.inf
    return ids.copy_(ids.masked_fill(lost, -1))


def digits_dropped(request: Request) -> Tensor:
    """The last byte of a score is not looked at."""
    coarse = (request.logits.contiguous().view(torch.int32) >> 8 << 8).view(torch.float32)
    return select(request, logits=coarse)


def k_of_another(request: Request) -> Tensor:
    """Half of the keys asked for (field report B38)."""
    ids = select(request)
    ids[:, (request.k + 1) // 2 :] = -1
    return ids


def zero_padding(request: Request) -> Tensor:
    return select(request).clamp_(min=0)


def other_padding(request: Request) -> Tensor:
    ids = select(request)
    return ids.copy_(ids.masked_fill(ids < 0, -2))


def tail_unwritten(request: Request) -> Tensor:
    before = request.ids.clone()
    ids = select(request)
    return ids.copy_(torch.where(ids < 0, before, ids))


def row_behind_written(request: Request) -> Tensor:
    ids = select(request)
    ids.as_strided((1,), (1,), ids.storage_offset() + ids.numel())[0] = 0
    return ids


def a_copy(request: Request) -> Tensor:
    return select(replace(request, ids=request.ids.clone()))


FAULTS: dict[str, tuple[Callable[[Any], Tensor], str]] = {
    "choose-by-index": (by_index, "for the first keys"),
    "smallest": (smallest, ""),
    "drop-last": (last_dropped, ""),
    "double-on-a-plateau": (doubled, ""),
    "stride-from-visible-width": (packed_stride, ""),
    "end-late": (end_late, "just past the end"),
    "end-early": (end_early, ""),
    "start-ignored": (start_ignored, ""),
    "start-not-added": (start_not_added, ""),
    "next-n-ignored": (rows_alike, ""),
    "zeros-apart": (zeros_apart, "if -0 were below +0"),
    "ties-to-the-last": (ties_to_the_last, "do not go to the smallest positions"),
    "bypass-looks-at-scores": (scores_read_below_k, ""),
    "minus-infinity-is-padding": (minus_infinity_is_padding, ""),
    "last-digits-dropped": (digits_dropped, ""),
    "half-of-k": (k_of_another, ""),
    "zero-padding": (zero_padding, ""),
    "other-padding": (other_padding, ""),
    "tail-unwritten": (tail_unwritten, ""),
    "row-behind-written": (row_behind_written, ""),
    "not-in-place": (a_copy, ""),
}


def smallest_cases() -> list[str]:
    return [case for case in SMOKE if parse(case).width * parse(case).rows < 60_000]


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_turns_a_smoke_case_red(name: str) -> None:
    how, hint = FAULTS[name]
    verdicts = [judged(case, Faulty(how)) for case in smallest_cases()]
    red = [verdict for verdict in verdicts if verdict.status is not Status.AGREE]
    assert red and all(verdict.status is Status.DIFFER for verdict in red), [v.reason for v in red]
    assert any(hint in verdict.pattern for verdict in red), [verdict.pattern for verdict in red]


@pytest.mark.parametrize("text", smallest_cases())
def test_the_oracle_agrees_in_any_order(text: str) -> None:
    """Padding first and ids shuffled is still right (newer kernels interleave padding)."""

    def shuffled(request: Request) -> Tensor:
        ids = select(request)
        return ids.copy_(ids.flip(1))

    assert judged(text, Faulty(shuffled)).status is Status.AGREE
    assert judged(text, OraclePath()).status is Status.AGREE


def test_nothing_selected_and_one_row_are_mistrusted() -> None:
    alone = judged("topk-n1-ctx100-k4-stable0-l0-fdistinct-s1", OraclePath())
    assert alone.status is Status.MISTRUSTED and "one row" in alone.reason
    bypassed = judged("topk-n1-ctx100,7-k128-stable0-l0-fdistinct-s1", OraclePath())
    assert bypassed.status is Status.MISTRUSTED and "no row sees more than k keys" in bypassed.reason


def test_nans_are_never_called_right() -> None:
    """Order of numbers is compared; which keys a row with NaNs selects stays open, and is said to."""
    case = "topk-n1-ctx300,280-k64-stable0-l0-fnan-s1"
    found = judged(case, OraclePath())
    assert found.status is Status.MISTRUSTED and "NaNs" in found.reason
    assert judged(case, Faulty(smallest)).reason == "numbers-out-of-order"


def test_a_list_that_changes_between_calls_is_seen_where_ties_are_fixed() -> None:
    calls = iter(range(100))

    def turning(request: Request) -> Tensor:
        ids = select(request)
        return ids.copy_(ids.flip(1)) if next(calls) % 2 else ids

    found = judged("topk-n1-ctx100,70-k8-stable1-l0-fties-s1", Faulty(turning))
    assert found.reason == "order-changes-between-calls"


class General(OraclePath):
    """A path with a general top-k and nothing else."""

    name = "general"

    @cached_property
    def table(self) -> Mapping[type, Callable[[Any], base.Outcome]]:
        return {PlainTopK: answers(self)[PlainTopK]}


def test_a_general_top_k_is_asked_row_by_row() -> None:
    open_ties = judged("topk-n1-ctx100,70-k8-stable0-l0-fties-s1", General())
    assert open_ties.status is Status.AGREE and "row by row" in " ".join(open_ties.notes)
    fixed = judged("topk-n1-ctx100,70-k8-stable1-l0-fties-s1", General())
    assert fixed.status is Status.UNSUPPORTED and "states no rule for ties" in fixed.reason


def test_the_special_fill_has_what_it_promises() -> None:
    asked = build(parse("topk-n1-ctx300,300-k40-stable0-l0-fspecial-s1"))
    assert bool((asked.scores == -torch.inf).any()) and bool((asked.scores == torch.inf).any())
    assert bool((asked.scores == 0).any()) and bool(((asked.scores == 0) & asked.scores.signbit()).any())


def test_a_case_without_a_key_is_refused() -> None:
    with pytest.raises(CaseError, match="field ctx has no key"):
        parse("topk-n1-ctx0,0-k8-stable0-l0-fties-s1")


def test_more_cells_than_can_be_sorted_soon_are_refused() -> None:
    with pytest.raises(
        CaseError, match=r"rows \* max_seq_len is 427819008, allowed in suite topk are at most"
    ):
        parse("topk-n8-ctx0x50,1-k2-stable0-l1048576-fties-s1")


@pytest.mark.parametrize("stable", (True, False))
@pytest.mark.parametrize("k", (1, 3, 8, 17))
def test_the_in_tree_kernel_selects_what_is_allowed(k: int, stable: bool) -> None:
    """Plateaus, zeros of both signs, infinities, windows of any start; stable lists rise by position."""
    from harness.paths.flydsl import selecting

    levels = torch.tensor([0.0, -0.0, 1.0, 1.0, 2.5, -3.0, torch.inf, -torch.inf])
    scores = levels[torch.randint(0, 8, (4, 30), generator=torch.Generator().manual_seed(k))]
    start, end = (torch.tensor(ends, dtype=torch.int32) for ends in ((0, 3, 7, 29), (30, 20, 7, 30)))
    ids = torch.full((4, k), -7, dtype=torch.int32)
    selecting.prefill(SelectPrefill(scores, start, end, k, stable, ids))
    wanted = topk.topk(scores, windows.prefill_windows(torch.zeros(4), start, end), k, stable)
    assert bool(topk.check_selection(ids, wanted).ok.all())
    if stable:
        assert all(row[row >= 0].tolist() == sorted(row[row >= 0].tolist()) for row in ids)


def test_the_in_tree_kernel_refuses_a_length_beyond_its_row() -> None:
    """Field report B35: length 4097 over width 4096 would give columns that do not exist."""
    from harness.paths.flydsl import selecting

    request = SelectDecode(
        torch.zeros(2, 8),
        torch.tensor([9, 3], dtype=torch.int32),
        1,
        2,
        False,
        torch.zeros(2, 2, dtype=torch.int32),
    )
    with pytest.raises(ValueError, match="not those of 2 rows of 8 columns"):
        selecting.decode(request)


ZEROS = "topk-w0@3:40,0@7:1031,1@1029:1100,1@1099:1100-k40-stable1-l1101-fspecial-s13"


class Declaring(Faulty):
    """A path with selections of its own that says how it ranks zeros."""

    def __init__(self, select: Callable[[Any], Tensor], rule: str) -> None:
        super().__init__(select)
        self.rule = rule

    def zeros(self, request: Any) -> str:
        return self.rule


def test_zeros_are_held_to_what_the_path_declares() -> None:
    """Both conventions are checked exactly, and the verdict says which one was."""
    apart = judged(ZEROS, Declaring(zeros_apart, "ordered"))
    assert apart.status is Status.AGREE and apart.facts["-0 and 0"] == "ordered"
    tied = judged(ZEROS, Declaring(select, "equal"))
    assert tied.status is Status.AGREE and tied.facts["-0 and 0"] == "equal"
    wrong = judged(ZEROS, Declaring(select, "ordered"))
    assert wrong.status is Status.DIFFER and "if -0 and +0 were equal" in wrong.pattern
    wrong = judged(ZEROS, Declaring(zeros_apart, "equal"))
    assert wrong.status is Status.DIFFER and "if -0 were below +0" in wrong.pattern


def test_nothing_is_said_of_zeros_where_no_row_has_both() -> None:
    """The convention does not matter there."""
    verdict = judged("topk-n1-ctx300,280-k64-stable1-l0-fdistinct-s1", Declaring(select, "ordered"))
    assert verdict.status is Status.AGREE and "-0 and 0" not in verdict.facts
