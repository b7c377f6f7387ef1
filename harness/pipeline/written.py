"""What a fused writer must have left in a stage, given what it left: judged as in suites writer and fp8.

Contract: a byte is right where one of the ways is in which the same kernel may come out, and where float32
leaves several values, each of them is. Subnormal numbers are kept or flushed, as the path states, or else in
one of the two throughout, over the requests of all ranks. How it would fail silently: with many right values
anything is right, so how many bytes have several is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from harness.checks.fp8 import tokens
from harness.checks.writer import wanted
from harness.judge.several import bits
from harness.paths.requests.eightbit import SUBNORMALS, WriteTokens8
from harness.pipeline.stages import Asked, Held, Ran, Stage
from oracles.eightbit_subnormals import MODES

APART = "bytes with several results"
"""Fact of a path's answer: bytes in which the ways of its kernel part."""


@dataclass(frozen=True)
class Written:
    """``found``: what was left, with what is ``right`` in every cell where another way of the kernel is.

    Names as in `Held`. ``mode``: what became of subnormal numbers. ``open_bytes`` have more than one right
    value, ``apart`` came out in several ways.
    """

    found: Held
    right: Held
    mode: str
    open_bytes: int
    apart: int

    @property
    def wrong(self) -> int:
        return sum(int((bits(self.found[name]) != bits(right)).sum()) for name, right in self.right.items())


def settled(stage: Stage, ran: Ran) -> Written:
    """What the requests of a fused writer must have left, in the mode in which the least is wrong."""
    stated = [mode for one in ran.asked if (mode := one.outcome.facts.get(SUBNORMALS)) is not None]
    tried = [_in_mode(stage, ran.asked, mode) for mode in (dict.fromkeys(stated) or MODES)]
    return min(tried, key=lambda one: one.wrong)


def _in_mode(stage: Stage, asked: Sequence[Asked], mode: str) -> Written:
    found, right, several, apart = Held(), Held(), 0, 0
    for rank, one in enumerate(asked):
        have, want, open_bytes = _nearest(one, mode)
        for name, field in stage.written.items():
            found[f"{name} {rank}"], right[f"{name} {rank}"] = have[field], want[field]
        several += open_bytes
        apart += int(one.outcome.facts.get(APART, 0))
    return Written(found, right, mode, several, apart)


def _nearest(one: Asked, mode: str) -> tuple[dict[str, Tensor], dict[str, Tensor], int]:
    """(what was found, what is right, bytes with several right values), by fields of the request."""
    answers = (one.outcome.value, *one.outcome.others)
    if isinstance(one.request, WriteTokens8):
        have, want, keys, _ = tokens.nearest(one.request, one.before, answers, mode)
        return have, want, keys.open_bytes
    found, made, _ = wanted.nearest(one.request, one.before, answers, mode)
    return found, made.outputs, made.open_bytes
