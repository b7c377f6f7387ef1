"""A path that writes what it must only read, or answers beside the caller's buffer, is red."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, get_type_hints

import pytest
import torch

from harness import runner
from harness.case.cases import parse
from harness.checks import untouched
from harness.judge.ledger import Ledger
from harness.judge.verdict import Status
from harness.paths import requests
from harness.paths.base import Outcome
from harness.paths.oracle import OraclePath
from harness.paths.requests.scoring import DecodeScores, PrefillSchedule
from harness.paths.requests.writing import WriteKeys

PREFIX = f"{requests.__name__}."
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


HELD = {"Gated", "Launched", "Place", "Planes", "Step"}
"""Classes beside the requests that are parts of requests or of answers."""


def request_classes() -> Iterator[type]:
    for module in map(import_module, (found.name for found in iter_modules(requests.__path__, PREFIX))):
        yield from (
            kind for kind in vars(module).values() if getattr(kind, "__module__", "") == module.__name__
        )


KINDS = sorted((kind for kind in request_classes() if is_dataclass(kind)), key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.__name__ not in HELD])
def test_every_request_says_what_is_written(kind: type) -> None:
    """In its own body, by names of its fields or of the fields of what it holds."""
    hints = get_type_hints(kind)
    names = {name for held in hints.values() if is_dataclass(held) for name in get_type_hints(held)}
    assert set(vars(kind)["written"]) <= names | hints.keys() - {"written"}


def test_every_request_is_looked_at() -> None:
    """What a path answers is among the classes above, and they are not parts of something."""
    answered = {kind.__name__ for kind in OraclePath().table}
    assert answered < {kind.__name__ for kind in KINDS} - HELD and len(answered) > 40


def test_a_request_that_does_not_say_it_cannot_be_asked() -> None:
    """It is an error of its first case, not a request whose every tensor may be written."""

    @dataclass(frozen=True)
    class Silent:
        x: torch.Tensor

    with pytest.raises(AttributeError, match="written"):
        untouched.digests(Silent(torch.zeros(1)))


def test_planes_to_write_may_change() -> None:
    """The planes of a write are the answer, not an input."""
    planes = torch.zeros(1, 1, 4, 64, 16, dtype=torch.uint8), torch.zeros(1, 1, 4, 64, dtype=torch.uint8)
    request = WriteKeys(torch.zeros(1, 128, dtype=torch.bfloat16), torch.zeros(1, dtype=torch.int64), *planes)
    before = untouched.digests(request)
    planes[0].fill_(1)
    assert set(before) == {"k", "slots"} and untouched.changed(request, before) == ()
