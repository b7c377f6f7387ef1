"""A second fused writer, step by step in torch's own float32, with any one of its rules wrong.

It shares the quantiser's rules with the oracle and nothing of its LayerNorm, rotation or layout, so the
unspoilt one is an opinion of its own. `FAULTS` maps the catalogue's name (spec faults.md) and names of
near neighbours to the fault, a smoke case that shows it, the output that is wrong and what must be said.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from harness.paths import base
from harness.paths.oracle import OraclePath
from harness.paths.requests.writing import WriteTokens
from oracles import formats
from oracles.formats import PRODUCTION, QuantRule


def bent(row: int) -> int:
    """In pages of 64 rows: lanes of four."""
    return 4 * (row % 16) + row // 16


def same(tensor: Tensor) -> Tensor:
    return tensor


def kept(asked: WriteTokens) -> Tensor:
    return asked.slots


@dataclass
class FaultyWriter(OraclePath):
    """Right as it stands."""

    name = "faulty"
    rule: QuantRule = PRODUCTION
    high_first: bool = False
    bend: Callable[[int], int] = bent
    slots: Callable[[WriteTokens], Tensor] = kept
    pairing: Callable[[str], str] = str
    shift: int = 0
    first_rotated: int = 0
    variance: int = 128
    eps: Callable[[float], float] = float
    norm_dtype: torch.dtype = torch.float32
    normal: Callable[[Tensor], Tensor] = torch.Tensor.bfloat16
    turned: Callable[[Tensor], Tensor] = torch.Tensor.bfloat16
    weights: Callable[[WriteTokens], Tensor] = lambda asked: asked.weights
    every: Callable[[bool], bool] = bool
    clamps: bool = True
    drops_nans: bool = True
    moments: bool = False
    queries: Callable[[WriteTokens], Tensor] = lambda asked: asked.q
    sines: Callable[[WriteTokens], Tensor] = lambda asked: asked.sin
    pads: int = 0
    transposed: bool = False
    groups: Callable[[Tensor], Tensor] = same
    after: Callable[[WriteTokens], None] = lambda asked: None
    cuts: bool = False

    @cached_property
    def table(self) -> base.Answers:
        return {**super().table, WriteTokens: self.write_tokens}

    def write_tokens(self, asked: WriteTokens) -> base.Outcome:
        rows = len(asked.q)
        if len(asked.slots) != rows and not self.cuts:
            raise ValueError("one slot a row")
        slots = torch.cat((self.slots(asked), torch.arange(rows - len(asked.slots))))
        for row in range(rows):
            if int(slots[row]) >= 0 or self.every(asked.compute_all_q_rope):
                self.write_row(asked, row, int(slots[row]))
        self.after(asked)
        return base.Outcome(asked.outputs)

    def write_row(self, asked: WriteTokens, row: int, slot: int) -> None:
        table = asked.cos.shape[0]
        place = int(asked.positions[row]) + self.shift
        place = min(max(place, 0), table - 1) if self.clamps else place % table
        cos, sin = asked.cos[place].float(), self.sines(asked)[place].float()
        codes, scales = self.quantised(self.rotate(self.queries(asked)[row].float(), cos, sin, asked.pairing))
        asked.q_codes[row] = codes
        self.write_query_scales(asked.q_scales[row, 0], scales)
        asked.weights_out[row] = self.weights(asked)[row]
        if slot < 0:
            return
        key = asked.k[row].float()
        centred = key - key.mean()
        variance = (centred * centred).sum() / self.variance
        if self.moments:
            variance = (key * key).mean() - key.mean() * key.mean()
        root = torch.rsqrt(variance + self.eps(asked.epsilon))
        weight, bias = (part.to(self.norm_dtype).float() for part in (asked.norm_weight, asked.norm_bias))
        normal = self.normal(centred * root * weight + bias).float()
        codes, scales = self.quantised(self.rotate(normal[None], cos, sin, asked.pairing))
        asked.k_codes[slot // 64, 0, :, slot % 64] = codes[0].view(4, 16)
        asked.k_scales[slot // 64, 0, :, self.bend(slot % 64)] = scales[0]

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor, pairing: str) -> Tensor:
        """float32 [N, 128]."""
        columns = slice(self.first_rotated, self.first_rotated + 64)
        x, part = x.clone(), x[:, columns].clone()
        a, b = (slice(0, 32), slice(32, 64))
        if self.pairing(pairing) == "interleaved":
            a, b = slice(0, None, 2), slice(1, None, 2)
        made = part.clone()
        made[:, a] = part[:, a] * cos - part[:, b] * sin
        made[:, b] = part[:, b] * cos + part[:, a] * sin
        x[:, columns] = self.turned(made).float()
        return x

    def quantised(self, x: Tensor) -> tuple[Tensor, Tensor]:
        codes, scales = formats.quantise(
            x.nan_to_num(0.0, torch.inf, -torch.inf) if self.drops_nans else x, self.rule
        )
        low, high = codes[:, 0::2], codes[:, 1::2]
        return (high | low << 4 if self.high_first else low | high << 4), self.groups(scales)

    def write_query_scales(self, plane: Tensor, scales: Tensor) -> None:
        """``plane`` uint8 [4, 16, tiles] of ``scales`` uint8 [H, 4]."""
        heads, tiles = len(scales), plane.shape[2]
        plane[:, :, heads // 16 :] = self.pads
        for head in range(heads):
            lane, tile = (
                (head // (heads // 16), head % (heads // 16)) if self.transposed else (head % 16, head // 16)
            )
            assert tile < tiles
            plane[:, lane, tile] = scales[head]


def scaled(asked: WriteTokens) -> Tensor:
    return (asked.weights.float() * asked.weights_scale).bfloat16()


def other(pairing: str) -> str:
    return "neox" if pairing == "interleaved" else "interleaved"


def garbage(asked: WriteTokens) -> None:
    """Rows without a slot get the first row's queries."""
    for output in (asked.q_codes, asked.q_scales, asked.weights_out):
        output[asked.slots < 0] = output[0].clone()


def clamp_weights(asked: WriteTokens) -> None:
    asked.weights.clamp_(min=0)


def also_at(slot: int) -> Callable[[WriteTokens], None]:
    """The key of row 0 once more, in ``slot`` of the pool (negative: from its end)."""

    def copied(asked: WriteTokens) -> None:
        own, into = int(asked.slots[0]), slot % (64 * len(asked.k_codes))
        asked.k_codes[into // 64, :, :, into % 64] = asked.k_codes[own // 64, :, :, own % 64].clone()
        scales = asked.k_scales[own // 64, 0, :, bent(own % 64)].clone()
        asked.k_scales[into // 64, 0, :, bent(into % 64)] = scales

    return copied


def packed_heads(asked: WriteTokens) -> Tensor:
    """Heads are taken to lie one after the other."""
    return asked.q.as_strided(asked.q.shape, (asked.q.stride(0), 128, 1))


def packed_rows(asked: WriteTokens) -> Tensor:
    """Rows are taken to begin where the heads of the row before end."""
    head = asked.q.stride(1)
    return asked.q.as_strided(asked.q.shape, (asked.q.shape[1] * head, head, 1))


def rows_of_cos(asked: WriteTokens) -> Tensor:
    """The rows of sin are taken to lie as far apart as those of cos."""
    return asked.sin.as_strided(asked.sin.shape, asked.cos.stride())


def sixteen_bits(asked: WriteTokens) -> Tensor:
    return torch.where(asked.slots < 0, asked.slots, asked.slots & 0xFFFF)


def wild(asked: WriteTokens) -> None:
    """One byte of a page that no row names."""
    asked.k_scales[-1, 0, 3, 63] ^= 1


@dataclass(frozen=True)
class Shown:
    """``path`` differs on ``case`` in ``output``, and the pattern says ``says``."""

    path: FaultyWriter
    case: str
    output: str
    says: str = ""


SPREAD = "writer-r12-h16-d128-pairneox-all0-p3-fspread-s1"
ALL = "writer-r10-h64-d128-pairinterleaved-all1-p2-fspread-s2"
BOUNDARY = "writer-r11-h80-d128-pairneox-all0-p0-fboundary-s3"
PADDED = "writer-r10-h16-d128-pairinterleaved-all0-p1-fboundary-s4"
ONEHOT = "writer-r12-h16-d128-pairneox-all1-p0-fonehot-s5"
TURNED = "writer-r12-h16-d128-pairinterleaved-all0-p0-fonehot-s6"
QUIET = "writer-r8-h16-d128-pairinterleaved-all1-p2-fquiet-s8"
ZERO = "writer-r9-h16-d128-pairneox-all0-p0-fzero-s9"
NORM = "writer-r6-h128-d128-pairinterleaved-all1-p2-ffp32norm-s11"
SPECIAL = "writer-r15-h16-d128-pairneox-all0-p1-fspecial-s10"
OFFSET = "writer-r16-h16-d128-pairinterleaved-all0-p0-foffset-s14"
FAR = "writer-r12-h16-d128-pairneox-all0-p2-ffar-s15"


def ruled(**changes: Any) -> FaultyWriter:
    return FaultyWriter(rule=replace(PRODUCTION, **changes))


FAULTS: dict[str, Shown] = {
    "nibble-swap": Shown(
        FaultyWriter(high_first=True), SPREAD, "q_codes", "nibbles of every byte are swapped"
    ),
    "tie-away": Shown(ruled(ties="away"), BOUNDARY, "q_codes", "ties go away from zero"),
    "tie-zero": Shown(ruled(ties="zero"), BOUNDARY, "q_codes", "ties go toward zero"),
    "tie-down": Shown(ruled(ties="down"), BOUNDARY, "q_codes", "ties go down"),
    "scale-floor": Shown(ruled(scale="floor"), BOUNDARY, "q_scales", "rounded down to a power of two"),
    "scale-even": Shown(ruled(scale="even"), BOUNDARY, "q_scales", "up from 1.75"),
    "scale-amax-over-7": Shown(ruled(divisor="seventh"), BOUNDARY, "q_scales", "divided by 7"),
    "scale-eps": Shown(ruled(amax_floor=1e-4), QUIET, "q_scales", "at least 1e-4"),
    "scale-no-floor": Shown(ruled(amax_floor=0.0), ZERO, "q_scales", "each 1 step too low"),
    "neg-zero-drop": Shown(ruled(keep_negative_zero=False), BOUNDARY, "q_codes", "-0 became 0"),
    "weights-scaled-twice": Shown(
        FaultyWriter(weights=scaled), SPREAD, "weights_out", "in the weights already"
    ),
    "rope-interleaved": Shown(FaultyWriter(pairing=other), ONEHOT, "q_scales", "turns the other pairs"),
    "rope-neox": Shown(FaultyWriter(pairing=other), TURNED, "q_scales", "turns the other pairs"),
    "rope-next-position": Shown(FaultyWriter(shift=1), SPREAD, "q_scales", "reads the next position"),
    "rope-last-dims": Shown(FaultyWriter(first_rotated=64), ONEHOT, "q_scales"),
    "rope-not-rounded": Shown(FaultyWriter(turned=same), SPREAD, "q_codes"),
    "norm-population": Shown(FaultyWriter(variance=127), BOUNDARY, "k_scales", "that of a sample"),
    "norm-eps": Shown(FaultyWriter(eps=lambda eps: 1e-5), NORM, "k_codes", "eps is 1e-5"),
    "norm-no-eps": Shown(FaultyWriter(eps=lambda eps: 0.0), QUIET, "k_scales", "there is no eps"),
    "norm-bf16": Shown(FaultyWriter(norm_dtype=torch.bfloat16), NORM, "k_scales", "rounded to bfloat16"),
    "norm-moments": Shown(FaultyWriter(moments=True), OFFSET, "k_codes"),
    "norm-not-rounded": Shown(FaultyWriter(normal=same), BOUNDARY, "k_codes"),
    "pad-row-garbage": Shown(
        FaultyWriter(every=lambda every: False), ALL, "q_scales", "rows without a slot: left out"
    ),
    "pad-row-written": Shown(
        FaultyWriter(after=garbage), SPREAD, "q_scales", "computed though it must not be"
    ),
    "pad-row-computed": Shown(FaultyWriter(every=lambda every: True), PADDED, "q_scales", "without a slot"),
    "pad-tile-garbage": Shown(FaultyWriter(pads=127), SPREAD, "q_scales", "all in pad tiles"),
    "position-wraps": Shown(FaultyWriter(clamps=False), ALL, "q_scales", "rows without a slot"),
    "slot-negative-write": Shown(
        FaultyWriter(after=also_at(-1)), SPREAD, "k_scales", "slots that no row has, in the last page"
    ),
    "padding-into-block-0": Shown(
        FaultyWriter(after=also_at(0)), SPREAD, "k_scales", "slots that no row has, in the first page"
    ),
    "page-size-lanes": Shown(
        FaultyWriter(bend=lambda row: row % 16 * 2 + row % 32 // 16 + row // 32 * 32),
        SPREAD,
        "k_scales",
        "pages of 32 rows",
    ),
    "scale-write-flat": Shown(FaultyWriter(bend=int), SPREAD, "k_scales", "bend is missing"),
    "head-tiles-transposed": Shown(FaultyWriter(transposed=True), ALL, "q_scales"),
    "group-order": Shown(FaultyWriter(groups=lambda scales: scales.flip(1)), SPREAD, "q_scales"),
    "spare-page": Shown(
        FaultyWriter(after=wild), SPREAD, "k_scales", "slots that no row has, in the last page"
    ),
    "query-head-stride": Shown(FaultyWriter(queries=packed_heads), ALL, "q_scales"),
    "query-row-stride": Shown(FaultyWriter(queries=packed_rows), ALL, "q_scales"),
    "sin-row-stride": Shown(FaultyWriter(sines=rows_of_cos), ALL, "q_scales"),
    "slots-in-16-bits": Shown(FaultyWriter(slots=sixteen_bits), FAR, "k_scales", "nothing was written"),
    "slots-in-float32": Shown(FaultyWriter(slots=lambda asked: asked.slots.float().long()), FAR, "k_scales"),
    "nan-in-the-maximum": Shown(FaultyWriter(drops_nans=False), SPECIAL, "q_scales"),
    "rows-past-the-slots": Shown(FaultyWriter(cuts=True), SPREAD, "q_codes"),
}
