"""The stages of the FP8 default, on one rank: fused writer, pages, scorer, top-k.

Flat pages are scored where they lie, row by row of the step. Tiled pages are gathered first and their keys
scored as a prefill has it: rows with windows over keys that lie one after the other. What passes between
stages is in `Held`, as in `harness.pipeline.stages`. How it would fail silently: a scorer that was
given the oracle's pages would agree whatever the writer did; so every stage takes them from `Held`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from harness.checks.fp8 import scores as fp8_scores
from harness.checks.fp8.scores import Wanted
from harness.fill import pages
from harness.fill.fill_eightbit import Filled, Shape
from harness.judge.bits import MINUS_INFINITY, SENTINEL, bits_of
from harness.paths.base import Path
from harness.paths.requests.eightbit import FlatScores8, GatherKeys8, PagedScores8, WriteTokens8
from harness.paths.requests.selecting import PAD, SelectDecode, SelectPrefill
from harness.pipeline.raw import EPSILON, Raw, Tokens
from harness.pipeline.stages import Ask, Held, Stage
from oracles import eightbit_pages
from oracles.windows import Windows

POISON = 0xFF
ROW_BYTES = (144, 132)
"""Bytes of a row of a page, by the seed's last bit: padded to 16 as servers allocate it, and without."""
CHUNK = 256
"""Keys that a scorer takes at once; it may mask the rest of a row's last chunk."""

PAGES = {"cache": "cache"}
QUERIES = {"q_codes": "q_codes", "weights": "weights_out"}


def of(raw: Raw) -> tuple[Stage, ...]:
    """The stages of an FP8 case, in their order."""
    before = (
        Stage("write prompt", write_prompt, written=PAGES),
        Stage("write step", write_step, written=QUERIES | PAGES),
    )
    if raw.case.tile == "flat":
        return (*before, Stage("score", score, bounded=("scores",)), Stage("top-k", select, free=("local",)))
    return (
        *before,
        Stage("gather", gather),
        Stage("score", score_gathered, bounded=("scores",)),
        Stage("top-k", select_gathered, free=("local",)),
    )


def write_prompt(raw: Raw, held: Held, ask: Ask) -> Held:
    """Keys of earlier steps; their queries are nobody's business any more."""
    size = (raw.placement(0).blocks, pages.PAGE, ROW_BYTES[raw.case.s % 2])
    cache = torch.full(size, POISON, dtype=torch.uint8)
    if bool(raw.is_step.all()):
        return {"cache 0": cache}
    return {"cache 0": ask(_write(raw, raw.prompt, _slots(raw)[~raw.is_step], cache))[2]}


def write_step(raw: Raw, held: Held, ask: Ask) -> Held:
    """The step's own tokens: queries, their weights, and their keys."""
    value = ask(_write(raw, raw.step, _slots(raw)[raw.is_step], held["cache 0"]))
    return dict(zip(("q_codes 0", "weights 0", "cache 0"), value, strict=True))


def score(raw: Raw, held: Held, ask: Ask) -> Held:
    """Scores over flat pages, into a buffer full of `SENTINEL`.

    Minus infinity in cells that a row does not see, up to the end of its context's last chunk, may be
    stored or not, and is taken out.
    """
    case = raw.case
    out = torch.full((case.rows, case.width), SENTINEL, dtype=torch.int32).view(torch.float32)
    ask(
        PagedScores8(
            held["q_codes 0"], held["weights 0"], held["cache 0"], raw.placement(0).tables,
            raw.context_lens, case.n, case.width, case.fmt, case.tile, out,
        )
    )  # fmt: skip
    column, ends = torch.arange(case.width), raw.windows.end[:, None]
    chunks = ((raw.context_lens.long() + CHUNK - 1) // CHUNK * CHUNK)[raw.windows.seq][:, None]
    masked = (column >= ends) & (column < chunks) & (bits_of(out) == MINUS_INFINITY)
    bits = torch.where(masked, torch.tensor(SENTINEL, dtype=torch.int32), out.view(torch.int32))
    return {"scores 0": bits.view(torch.float32)}


def gather(raw: Raw, held: Held, ask: Ask) -> Held:
    """The keys of all sequences, one after the other."""
    bounds = torch.tensor([0, *raw.case.ctx]).cumsum(0).to(torch.int32)
    request = GatherKeys8(held["cache 0"], raw.placement(0).tables, bounds, raw.case.tile)
    return dict(zip(("k_codes 0", "k_scales 0"), ask(request), strict=True))


def score_gathered(raw: Raw, held: Held, ask: Ask) -> Held:
    """Scores over the keys that were gathered; minus infinity outside a row's window."""
    seen = windows(raw)
    starts, ends = seen.start.to(torch.int32), seen.end.to(torch.int32)
    queries, keys = (held["q_codes 0"], held["weights 0"]), (held["k_codes 0"], held["k_scales 0"])
    request = FlatScores8(*queries, *keys, starts, ends, raw.case.fmt, True)
    return {"scores 0": ask(request)}


def select(raw: Raw, held: Held, ask: Ask) -> Held:
    ids = _ids(raw)
    ask(SelectDecode(held["scores 0"], raw.context_lens, raw.case.n, raw.case.k, False, ids))
    return {"local 0": ids}


def select_gathered(raw: Raw, held: Held, ask: Ask) -> Held:
    """Selections are columns of the gathered keys, as the op gives them."""
    seen, ids = windows(raw), _ids(raw)
    starts, ends = seen.start.to(torch.int32), seen.end.to(torch.int32)
    ask(SelectPrefill(held["scores 0"], starts, ends, raw.case.k, False, ids))
    return {"local 0": ids}


def windows(raw: Raw) -> Windows:
    """Windows of the step's rows over the columns of the scores."""
    if raw.case.tile == "flat":
        return raw.windows
    first = torch.tensor([0, *raw.case.ctx]).cumsum(0)[raw.windows.seq]
    return Windows(raw.windows.seq, raw.windows.start + first, raw.windows.end + first)


@dataclass(frozen=True)
class Right:
    """The right scores of what the stage was given, and what the other cells hold."""

    wanted: Wanted
    outside: int


def right_scores(raw: Raw, given: Held, path: Path) -> Right:
    """Made of the writer's codes in ``given``; ``path`` says how its adder rounds."""
    case, seen = raw.case, windows(raw)
    tiled = case.tile == "tiled"
    keys = eightbit_pages.read_slots(given["cache 0"], _slots(raw), case.tile)
    filled = Filled(given["q_codes 0"], given["weights 0"], *keys)
    lengths, width = ((sum(case.ctx),), sum(case.ctx)) if tiled else (case.ctx, case.width)
    shape = Shape(case.rows, case.h, lengths, case.fmt, bool(case.ue), case.s)
    rows = Windows(torch.zeros_like(seen.seq), seen.start, seen.end) if tiled else seen
    made = fp8_scores.wanted(shape, filled, rows, raw.placement(0).tables, width, path)
    return Right(made, MINUS_INFINITY if tiled else SENTINEL)


def _slots(raw: Raw) -> Tensor:
    return pages.slots(raw.case.ctx, raw.placement(0).tables)


def _ids(raw: Raw) -> Tensor:
    return torch.full((raw.case.rows, raw.case.k), PAD - 1, dtype=torch.int32)


def _write(raw: Raw, tokens: Tokens, slots: Tensor, cache: Tensor) -> WriteTokens8:
    """The writer's request for ``tokens``; its outputs are poison before."""
    rows, heads, dim = tokens.q.shape
    return WriteTokens8(
        tokens.q, tokens.k, tokens.weights, raw.norm_weight, raw.norm_bias, raw.cos, raw.sin,
        tokens.positions, slots, EPSILON, raw.weight_scale, raw.case.pair, raw.case.fmt, bool(raw.case.ue),
        raw.case.tile, torch.full((rows, heads, dim), POISON, dtype=torch.uint8),
        torch.full((rows, heads), torch.nan), cache,
    )  # fmt: skip
