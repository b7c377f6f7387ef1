"""A path that writes what it must only read, or answers beside the caller's buffer, is red."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from harness import runner
from harness.case.cases import parse
from harness.checks import untouched
from harness.judge.ledger import Ledger
from harness.judge.verdict import Status
from harness.paths.base import Outcome
from harness.paths.oracle import OraclePath
from harness.paths.requests.scoring import DecodeScores, PrefillSchedule
from harness.paths.requests.writing import WriteKeys

CASE = "decode-n2-h16-d128-ctx70,300-tstrided-u8-l0-fbytes-s1"


class Clamping(OraclePath):
    """Scores rightly, then clamps the caller's weights in place."""

    def answers(self) -> Mapping[type, Callable[[Any], Outcome]]:
        return {**super().answers(), DecodeScores: self._clamp}

    def _clamp(self, request: DecodeScores) -> Outcome:
        outcome = OraclePath().run(request)
        request.planes.weights.clamp_(min=0)
        return outcome


class Copying(OraclePath):
    """Scores rightly, but into a buffer of its own."""

    def answers(self) -> Mapping[type, Callable[[Any], Outcome]]:
        return {**super().answers(), DecodeScores: self._copy}

    def _copy(self, request: DecodeScores) -> Outcome:
        before = None if request.out is None else request.out.clone()
        outcome = OraclePath().run(request)
        value = outcome.value.clone()
        if request.out is not None and before is not None:
            request.out.copy_(before)
        return Outcome(value)


def test_weights_clamped_in_place_are_a_finding() -> None:
    """Every score is right, and the caller's weights are not what they were."""
    verdict = runner.run(parse(CASE), Clamping(), Ledger())
    assert verdict.status is Status.DIFFER
    assert {(found.kind, found.operand) for found in verdict.findings} == {("input-changed", "weights")}


def test_an_answer_beside_the_buffer_is_no_answer() -> None:
    """A captured graph reads the buffer it was captured with, so the buffer is what is judged."""
    verdict = runner.run(parse(CASE), Copying(), Ledger())
    assert (verdict.status, verdict.layer) == (Status.DIFFER, "mask"), verdict.text()


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_one_element_of_any_stride_has_a_digest(dtype: torch.dtype) -> None:
    """A tensor of one element may have any stride; it is digested all the same."""
    one = torch.arange(4, dtype=dtype)[::3][:1]
    request = PrefillSchedule(one, one, one, 1, 256)
    before = untouched.digests(request)
    assert untouched.changed(request, before) == ()
    one += 1
    assert [found.operand for found in untouched.changed(request, before)] == [
        "row_seq",
        "row_start",
        "row_end",
    ]


def test_planes_to_write_may_change() -> None:
    """The planes of a write are the answer, not an input."""
    planes = torch.zeros(1, 1, 4, 64, 16, dtype=torch.uint8), torch.zeros(1, 1, 4, 64, dtype=torch.uint8)
    request = WriteKeys(torch.zeros(1, 128, dtype=torch.bfloat16), torch.zeros(1, dtype=torch.int64), *planes)
    before = untouched.digests(request)
    planes[0].fill_(1)
    assert set(before) == {"k", "slots"} and untouched.changed(request, before) == ()
