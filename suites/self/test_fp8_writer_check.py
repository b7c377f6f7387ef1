"""The check of the fused FP8 writer: what it opens for subnormal numbers, and that it opens no more."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import pytest
import torch
from torch import Tensor

from harness import runner
from harness.case.cases import parse
from harness.checks.fp8 import tokens
from harness.judge.ledger import Ledger
from harness.judge.verdict import Status, Verdict
from harness.paths import base
from harness.paths.oracle import OraclePath
from harness.paths.requests.eightbit import SUBNORMALS, WriteTokens8
from oracles import eightbit_pages, eightbit_subnormals, prepare

QUIET = "fp8-r9-h16-d128-pairinterleaved-p1-fmtfn-ue1-tileflat-fquiet-s24"
SPREAD = "fp8-r6-h16-d128-pairneox-p1-fmtfn-ue1-tileflat-fspread-s21"
Spoil = Callable[[WriteTokens8], None]


class InMode(OraclePath):
    """The oracle's writer with subnormals treated by ``mode``, then ``spoil``; it may state a mode."""

    name = "in mode"

    def __init__(self, mode: str, spoil: Spoil | None = None, stated: str | None = None) -> None:
        self.mode, self.spoil, self.stated = mode, spoil, stated

    @cached_property
    def table(self) -> base.Answers:
        return {WriteTokens8: self.write}

    def write(self, request: WriteTokens8) -> base.Outcome:
        for tensor, right in zip(request.outputs, wanted(request, self.mode), strict=True):
            tensor.copy_(right)
        if self.spoil:
            self.spoil(request)
        return base.Outcome(request.outputs, facts={SUBNORMALS: self.stated} if self.stated else {})


def wanted(request: WriteTokens8, mode: str) -> list[Tensor]:
    """The three outputs in ``mode``; +0 where either zero is right."""
    before = [tensor.clone() for tensor in request.outputs]
    return tokens.want(request, before, [torch.zeros_like(tensor) for tensor in before], mode=mode)[0]


def judged(text: str, mode: str, spoil: Spoil | None = None, stated: str | None = None) -> Verdict:
    return runner.run(parse(text), InMode(mode, spoil, stated), Ledger())


@pytest.mark.parametrize("mode", eightbit_subnormals.MODES)
def test_either_mode_is_right_and_named(mode: str) -> None:
    """The modes part in this case, and the verdict says which was met."""
    verdict = judged(QUIET, mode)
    assert verdict.status is Status.AGREE and verdict.facts[SUBNORMALS] == mode
    request = tokens.build(parse(QUIET))
    kept, flushed = (wanted(request, name) for name in eightbit_subnormals.MODES)
    assert not torch.equal(kept[0], flushed[0]) and not torch.equal(kept[2], flushed[2])
    assert torch.equal(kept[1], flushed[1])


@pytest.mark.parametrize(("mode", "stated"), [("kept", "flushed"), ("flushed", "kept")])
def test_a_path_is_held_to_the_mode_that_it_states(mode: str, stated: str) -> None:
    verdict = judged(QUIET, mode, stated=stated)
    assert verdict.status is Status.DIFFER
    assert judged(QUIET, mode, stated=mode).status is Status.AGREE


def test_modes_are_not_mixed() -> None:
    """Queries of one mode beside keys of the other: a kernel is built in one."""

    def queries_kept(request: WriteTokens8) -> None:
        request.q_codes.copy_(wanted(request, "kept")[0])

    assert judged(QUIET, "flushed", queries_kept).status is Status.DIFFER


def turned(request: WriteTokens8) -> Tensor:
    """Rotated queries as the definition has them, float32 [T, H, 128]; rows without a slot at position 0."""
    place = torch.where(request.slots < 0, 0, request.positions)
    return prepare.rope(request.q, request.cos, request.sin, place, pairing=request.pairing).float()


def flipped(chosen: Callable[[Tensor], Tensor]) -> Spoil:
    """The sign of one query code that is a zero, of a value that ``chosen`` takes."""

    def spoil(request: WriteTokens8) -> None:
        size = turned(request).abs()
        zero = (request.q_codes & 127 == 0) & (request.slots >= 0)[:, None, None]
        cells = (zero & chosen(size)).nonzero()
        assert len(cells)
        request.q_codes[tuple(cells[0])] ^= 128

    return spoil


@pytest.mark.parametrize("mode", eightbit_subnormals.MODES)
@pytest.mark.parametrize(
    "chosen",
    [
        lambda size: size >= 2.0**-126,
        lambda size: size == 2.0**-126,
        lambda size: (size > 0) & (size < 2.0**-126),
    ],
    ids=["normal", "border", "subnormal"],
)
def test_a_wrong_sign_of_zero_is_red(mode: str, chosen: Callable[[Tensor], Tensor]) -> None:
    """At and above the border, and below it in dims that are not rotated: no sum loses the sign there."""
    unturned = torch.arange(128) >= prepare.ROPE_DIMS
    verdict = judged(QUIET, mode, flipped(lambda size: chosen(size) & unturned))
    assert verdict.status is Status.DIFFER and verdict.count == 1


def test_a_negative_key_that_is_normal_keeps_its_sign() -> None:
    """The least weight above the border: codes of zero whose sign is not open."""
    request = tokens.build(parse(QUIET))
    row = int((request.slots >= 0).nonzero()[0])

    def spoil(asked: WriteTokens8) -> None:
        codes, scales = eightbit_pages.read_slots(asked.cache, asked.slots[row : row + 1], asked.tile)
        column = int(((asked.norm_weight == 2.0**-125) & (torch.arange(128) >= 64)).nonzero()[0])
        assert int(codes[0, column]) & 127 == 0
        codes[0, column] ^= 128
        eightbit_pages.write_keys(asked.cache, codes, scales, asked.slots[row : row + 1], asked.tile)

    for mode in eightbit_subnormals.MODES:
        verdict = judged(QUIET, mode, spoil)
        assert verdict.status is Status.DIFFER and verdict.count == 1


def test_every_output_is_named() -> None:
    """What is right stands beside what is not."""

    def spoil(request: WriteTokens8) -> None:
        request.weights_out[request.slots >= 0] *= 2

    verdict = judged(SPREAD, "kept", spoil)
    assert verdict.where["tensor"] == "weights_out"
    assert verdict.notes[0] == "q_codes: right" and verdict.notes[2] == "cache: right"
    assert verdict.notes[1].startswith("weights_out: 80 of 112 differ")
