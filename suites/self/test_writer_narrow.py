"""Slots of int32: refused with everything as it was, or read as what they are; and what is neither is red."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import pytest
import torch

from harness import runner
from harness.case.cases import parse
from harness.checks.writer import narrow
from harness.judge.ledger import Ledger
from harness.judge.verdict import Status, Verdict
from harness.paths import base
from harness.paths.oracle import OraclePath
from harness.paths.requests.eightbit import WriteTokens8
from harness.paths.requests.writing import WriteTokens

FP4 = "writer-r10-h16-d128-pairneox-all0-p1-fslots32-s16"
FP8 = "fp8-r10-h16-d128-pairneox-p1-fmtfn-ue1-tileflat-fslots32-s33"
Request = WriteTokens | WriteTokens8
CASES = pytest.mark.parametrize("text", [FP4, FP8], ids=["fp4", "fp8"])


class Writer(OraclePath):
    """A writer that does as ``answer`` does."""

    name = "writer"

    def __init__(self, answer: Callable[[Request], base.Outcome]) -> None:
        self.answer = answer

    @cached_property
    def table(self) -> base.Answers:
        return {WriteTokens: self.answer, WriteTokens8: self.answer}


def judged(text: str, answer: Callable[[Request], base.Outcome]) -> Verdict:
    return runner.run(parse(text), Writer(answer), Ledger())


def wide(request: Request) -> base.Outcome:
    """The oracle's answer to the same slots as int64."""
    return OraclePath().run(replace(request, slots=request.slots.long()))


@CASES
def test_slots_are_read_as_what_they_are(text: str) -> None:
    seen = []

    def reading(request: Request) -> base.Outcome:
        seen.append(request.slots.dtype)
        return wide(request)

    verdict = judged(text, reading)
    assert (verdict.status, verdict.facts[narrow.FACT]) == (Status.AGREE, "taken")
    assert seen == [torch.int32]


@CASES
def test_or_refused_by_name(text: str) -> None:
    def refusing(request: Request) -> base.Outcome:
        raise ValueError("slot_mapping must be int64")

    verdict = judged(text, refusing)
    assert verdict.status is Status.AGREE
    assert verdict.facts[narrow.FACT] == "refused: slot_mapping must be int64"
    assert verdict.total > 1000


@pytest.mark.parametrize("said", ["no such device, int32", "slots names a slot twice"])
@CASES
def test_a_refusal_of_another_cause_is_an_error(text: str, said: str) -> None:
    def broken(request: Request) -> base.Outcome:
        raise RuntimeError(said)

    assert judged(text, broken).status is Status.ERROR


@CASES
def test_a_refusal_that_wrote_something_is_a_difference(text: str) -> None:
    def late(request: Request) -> base.Outcome:
        request.q_codes[2, 1, 5] ^= 1
        raise ValueError("slots must be int64")

    verdict = judged(text, late)
    assert verdict.status is Status.DIFFER
    assert (verdict.where["tensor"], verdict.where["axis 0"]) == ("q_codes", 2)


@CASES
def test_two_slots_read_as_one_are_a_difference(text: str) -> None:
    """What a kernel does that takes their address for one of int64; past the end of it there are -1."""

    def misread(request: Request) -> base.Outcome:
        narrow_slots = torch.cat([request.slots, torch.full_like(request.slots, -1)])
        taken = narrow_slots.view(torch.int64)[: len(request.slots)]
        here = (request.slots >= 0) & (taken >= 0) & (taken < 1 << 12)  # the others' stores go astray
        return wide(replace(request, slots=torch.where(here, taken, -1)))

    verdict = judged(text, misread)
    assert verdict.status is Status.DIFFER
    assert narrow.SAID in verdict.pattern
