"""The stages of a decode step in FP4: what each takes, what it asks, what it leaves.

A stage is a function of what the stages before it left; it gets copies, so that it can be run on the
oracle's inputs as often as one likes. How it would fail silently: a stage that keeps something
aside and hands it on past the others, so everything that passes is in `Held` and is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from harness.fill import pages
from harness.judge.bits import SENTINEL
from harness.paths.base import Outcome
from harness.paths.requests.scoring import DecodeSchedule, DecodeScores, Planes
from harness.paths.requests.selecting import PAD, SelectDecode
from harness.paths.requests.sharding import (
    LocalWidth,
    MergeCandidates,
    PackCandidates,
    RowLengths,
    WriteSlots,
)
from harness.paths.requests.writing import WriteTokens
from harness.pipeline.raw import EPSILON, Raw, Tokens
from oracles import layout

Held = dict[str, Tensor]
"""Name to tensor; a rank's own have its number after the name."""

Ask = Callable[[Any], Any]
"""Request to value."""

Answer = Callable[[Any], Outcome]
"""A path, or who stands in for it: request to outcome."""

PLANES = {"k_codes": "k_codes", "k_scales": "k_scales"}
QUERIES = {"q_codes": "q_codes", "q_scales": "q_scales", "weights": "weights_out"}


@dataclass(frozen=True)
class Stage:
    """``run(raw, held, ask)`` gives what the stage leaves.

    ``free``: names whose order is not specified; ``bounded``: scores, in which only the cells that are proven
    have one right value; ``written``: names that a fused writer wrote, and the fields of its request.
    """

    name: str
    run: Callable[[Raw, Held, Ask], Held]
    free: tuple[str, ...] = ()
    bounded: tuple[str, ...] = ()
    written: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """A request, what its outputs held before, and what it was answered with."""

    request: Any
    before: tuple[Tensor, ...]
    outcome: Outcome


@dataclass(frozen=True)
class Ran:
    """What a stage left, and the requests of a fused writer that it asked, rank by rank."""

    left: Held
    asked: tuple[Asked, ...]


def of(raw: Raw) -> tuple[Stage, ...]:
    """The stages of an FP4 case, in their order."""
    one = (
        Stage("write prompt", write_prompt, written=PLANES),
        Stage("write step", write_step, written=QUERIES | PLANES),
        Stage("schedule", make_schedule),
        Stage("score", score),
        Stage("top-k", select, free=("local",)),
    )
    if raw.world == 1:
        return one
    before = (Stage("slots", slots), *one[:2], Stage("lengths", lengths))
    return (*before, *one[2:], Stage("pack", pack), Stage("merge", merge, free=("merged",)))


def run(stage: Stage, raw: Raw, held: Mapping[str, Tensor], answer: Answer) -> Ran:
    """``stage`` on copies of ``held``. Raises what ``answer`` raises."""
    asked: list[Asked] = []

    def ask(request: Any) -> Any:
        if not stage.written:
            return answer(request).value
        before = tuple(tensor.clone() for tensor in request.outputs)
        asked.append(Asked(request, before, answer(request)))
        return asked[-1].outcome.value

    left = stage.run(raw, {name: tensor.clone() for name, tensor in held.items()}, ask)
    return Ran(left, tuple(asked))


def slots(raw: Raw, held: Held, ask: Ask) -> Held:
    """Where each rank writes each token, -1 where another does."""
    left: Held = {}
    for rank in raw.ranks:
        tables = raw.placement(rank).tables[raw.tokens.sequence].contiguous()
        request = WriteSlots(raw.tokens.positions, tables, pages.PAGE, raw.place(rank))
        left[f"slots {rank}"] = ask(request)
    return left


def write_prompt(raw: Raw, held: Held, ask: Ask) -> Held:
    """Keys of earlier steps; their queries are nobody's business any more."""
    left: Held = {}
    for rank in raw.ranks:
        planes = pages.poisoned_pool(raw.placement(rank).blocks, raw.case.d, strided=False)
        rows = (~raw.is_step).nonzero().flatten()
        _, _, _, codes, scales = ask(
            _write(raw, raw.prompt, _slots(raw, held, rank)[rows], planes, every=False)
        )
        left |= {f"k_codes {rank}": codes, f"k_scales {rank}": scales}
    return left


def write_step(raw: Raw, held: Held, ask: Ask) -> Held:
    """The step's own tokens: every rank needs all queries and weights, and keeps its own keys."""
    left: Held = {}
    for rank in raw.ranks:
        planes = held[f"k_codes {rank}"], held[f"k_scales {rank}"]
        rows = raw.is_step.nonzero().flatten()
        value = ask(_write(raw, raw.step, _slots(raw, held, rank)[rows], planes, every=raw.world > 1))
        names = ("q_codes", "q_scales", "weights", "k_codes", "k_scales")
        left |= {f"{name} {rank}": tensor for name, tensor in zip(names, value, strict=True)}
    return left


def lengths(raw: Raw, held: Held, ask: Ask) -> Held:
    """Each row's own part of its window on each rank, and the columns that hold any rank's."""
    left: Held = {}
    for rank in raw.ranks:
        left[f"lengths {rank}"] = ask(RowLengths(raw.context_lens, raw.case.n, raw.place(rank)))
        left[f"width {rank}"] = ask(LocalWidth(raw.case.width, raw.place(rank))).reshape(1)
    return left


def make_schedule(raw: Raw, held: Held, ask: Ask) -> Held:
    left: Held = {}
    for rank in raw.ranks:
        lens, next_n, width = _local(raw, held, rank)
        units = raw.units(len(lens) * next_n, width)
        left[f"schedule {rank}"] = ask(DecodeSchedule(lens, next_n, units, width))
    return left


def score(raw: Raw, held: Held, ask: Ask) -> Held:
    """Scores by the schedule that was made, into a buffer full of `SENTINEL`."""
    left: Held = {}
    for rank in raw.ranks:
        lens, next_n, width = _local(raw, held, rank)
        placement = raw.placement(rank)
        tables = placement.tables
        if raw.world > 1:
            tables = tables.repeat_interleave(raw.case.n, 0).contiguous()
        names = ("q_codes", "q_scales", "k_codes", "k_scales")
        q_codes, q_scales, k_codes, k_scales = (held[f"{name} {rank}"] for name in names)
        weights, defined = held[f"weights {rank}"], _defined(raw, held, rank)
        planes = Planes(q_codes, q_scales, k_codes, k_scales, tables, weights, defined)
        out = torch.full((len(lens) * next_n, width), SENTINEL, dtype=torch.int32).view(torch.float32)
        made = held[f"schedule {rank}"]
        ask(DecodeScores(planes, lens, next_n, raw.weight_scale, width, schedule=made, out=out))
        left[f"scores {rank}"] = out
    return left


def select(raw: Raw, held: Held, ask: Ask) -> Held:
    left: Held = {}
    for rank in raw.ranks:
        lens, next_n, _ = _local(raw, held, rank)
        scores = held[f"scores {rank}"]
        ids = torch.full((len(scores), raw.case.k), PAD - 1, dtype=torch.int32)
        ask(SelectDecode(scores, lens, next_n, raw.case.k, False, ids))
        left[f"local {rank}"] = ids
    return left


def pack(raw: Raw, held: Held, ask: Ask) -> Held:
    left: Held = {}
    for rank in raw.ranks:
        scores, local, lens = (held[f"{name} {rank}"] for name in ("scores", "local", "lengths"))
        sent = ask(PackCandidates(scores, local, lens, raw.place(rank)))
        left |= {f"sent scores {rank}": sent[0], f"sent ids {rank}": sent[1]}
    return left


def merge(raw: Raw, held: Held, ask: Ask) -> Held:
    """Every rank merges what all sent."""
    scores, ids = (
        torch.stack([held[f"sent {name} {rank}"] for rank in raw.ranks]) for name in ("scores", "ids")
    )
    return {
        f"merged {rank}": ask(MergeCandidates(scores, ids, raw.case.k, raw.place(rank))) for rank in raw.ranks
    }


def _local(raw: Raw, held: Held, rank: int) -> tuple[Tensor, int, int]:
    """(context lengths, rows a length, columns) of the scorer on ``rank``."""
    if raw.world == 1:
        return raw.context_lens, raw.case.n, raw.case.width
    return held[f"lengths {rank}"], 1, int(held[f"width {rank}"])


def _slots(raw: Raw, held: Held, rank: int) -> Tensor:
    if raw.world == 1:
        return pages.slots(raw.case.ctx, raw.placement(rank).tables)
    return held[f"slots {rank}"]


def _defined(raw: Raw, held: Held, rank: int) -> dict[str, Tensor]:
    where = _slots(raw, held, rank)
    return pages.written(held[f"k_codes {rank}"], held[f"k_scales {rank}"], where[where >= 0])


def _write(
    raw: Raw, tokens: Tokens, where: Tensor, planes: tuple[Tensor, Tensor], *, every: bool
) -> WriteTokens:
    """The writer's request for ``tokens``; its outputs are poison before."""
    rows, heads, dim = tokens.q.shape
    q_codes = torch.full((rows, heads, dim // 2), 0xFF, dtype=torch.uint8)
    q_scales = torch.full((rows, dim // 128, 4, 16, layout.tile_pad(heads)), 255, dtype=torch.uint8)
    weights = torch.full((rows, heads), torch.nan, dtype=torch.bfloat16)
    return WriteTokens(
        tokens.q, tokens.k, tokens.weights, raw.norm_weight, raw.norm_bias, raw.cos, raw.sin,
        tokens.positions, where, EPSILON, raw.weight_scale, raw.case.pair, every,
        q_codes, q_scales, weights, *planes,
    )  # fmt: skip
