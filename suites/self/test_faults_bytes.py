"""A fault in the oracle path gives the bytes of an in-tree path that really has the defect.

The in-tree function in which the rule lives is replaced by one with the defect; every answer to the questions
of a case, up to the one that ends it, must be that of the oracle path with the fault planted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from harness import runner
from harness.case.cases import parse
from harness.faults.catalogue import named
from harness.faults.planted import Planted
from harness.judge.bits import SENTINEL
from harness.judge.ledger import Ledger
from harness.judge.verdict import Status
from harness.paths import base
from harness.paths.oracle import OraclePath
from harness.paths.requests.publishing import DraftLoop, Launched
from harness.paths.wrapped import Wrapped
from suites.self.faults_defects import DEFECTS
from suites.self.test_faults_topology import in_tree

SELECTIONS = ("SelectDecode", "SelectPrefill")


class Heard(Wrapped):
    """``inner``, and copies of all it answers, tensors of launches included."""

    def __init__(self, inner: base.Path) -> None:
        super().__init__(inner)
        self.answers_given: list[tuple[str, Any]] = []

    def around(self, method: Callable[[Any], base.Outcome]) -> Callable[[Any], base.Outcome]:
        def answer(request: Any) -> base.Outcome:
            name = type(request).__name__
            if isinstance(request, DraftLoop):
                request = replace(request, launch=self._hearing(request.launch))
            try:
                outcome = method(request)
            except Exception as error:  # a refusal is an answer
                self.answers_given.append((name, type(error).__name__))
                raise
            self.answers_given.append((name, comparable(name, outcome.value)))
            return outcome

        return answer

    def _hearing(self, launch: Callable[[Launched], None]) -> Callable[[Launched], None]:
        def told(launched: Launched) -> None:
            self.answers_given.append(("launch", copied((launched.schedule, launched.context_lens))))
            launch(launched)

        return told


def comparable(name: str, value: Any) -> Any:
    """A copy of ``value``; a selection has no order, a recording no value."""
    if name == "Capture":
        return None
    return value.sort(1).values if name in SELECTIONS else copied(value)


def copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.clone()
    return tuple(map(copied, value)) if isinstance(value, tuple) else value


def plain(value: Tensor) -> Tensor:
    """Bytes, with one NaN for all that were computed: which one is the arithmetic's own affair."""
    bits = value.contiguous().clone()
    if value.is_floating_point():
        computed = bits.isnan() & (bits.view(torch.int32) != SENTINEL)
        bits[computed] = torch.nan
    return bits.view(torch.uint8)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        alike = one.dtype == other.dtype and one.shape == other.shape
        return alike and torch.equal(plain(one), plain(other))
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def heard(case: str, path: base.Path) -> list[tuple[str, Any]]:
    listening = Heard(path)
    verdict = runner.run(parse(case), listening, Ledger())
    assert verdict.status is Status.DIFFER, verdict.text()
    return listening.answers_given


FURTHER: tuple[tuple[str, str], ...] = (
    ("short-schedule", "decode-n2-h16-d128-ctx513,20-tshuffled-u6-l0-fbytes-s1"),
    ("gap-cover", "decode-n1-h16-d128-ctx513,20-tshuffled-u3-l0-fbytes-s1"),
    ("short-prefill-schedule", "prefill-h16-d128-ctx513-w0@0:20,0@300:513-c0-tshuffled-u2-l0-fbytes-s1"),
    ("gap-cover-prefill", "varqlen-h16-d128-ctx513-q2-p0-tshuffled-u4-l0-fbytes-s1"),
    ("wide-rows-schedule", "speculative-n4-h16-d128-ctx300,7,513-steps3-ub2-tshuffled-fbytes-s1"),
    ("stale-draft-steps", "speculative-n3-h16-d128-ctx255,7,511-steps3-ub1-tshuffled-fbytes-s1"),
    ("ubatch-global-zero", "speculative-n4-h16-d128-ctx300,7,513-steps3-ub2-tshuffled-fbytes-s1"),
    ("scale-read-flat", "dcp-prefill-world4-inter1-h16-d256-ctx209-w0@0:1,0@0:206+4-k32-tstrided-fbytes-s1"),
    ("topk-start-ignored", "topk-w0@0:300,0@37:41,0@5:5,0@100:357+3-k16-stable1-l701-fties-s11"),
)
"""Faults in other cases than their smallest: other requests, several sequences, dealt in other ways."""


def defective(monkeypatch: pytest.MonkeyPatch, name: str) -> base.Path:
    """The in-tree path with the defect in its code."""
    for module, function, wrong in DEFECTS[name]:
        monkeypatch.setattr(module, function, wrong)
    return type(in_tree())()


SMALLEST = tuple((name, named(name).case) for name in DEFECTS)


@pytest.mark.parametrize(("name", "asked"), SMALLEST + FURTHER)
def test_a_planted_fault_gives_the_bytes_of_the_defect(
    monkeypatch: pytest.MonkeyPatch, name: str, asked: str
) -> None:
    """All answers up to the first wrong one, and that one, byte for byte."""
    planted = heard(asked, Planted(OraclePath(), [named(name)]))
    really = heard(asked, defective(monkeypatch, name))
    assert [kind for kind, _ in planted] == [kind for kind, _ in really]
    differing = [
        kind for (kind, one), (_, other) in zip(planted, really, strict=True) if not same(one, other)
    ]
    assert differing == []
