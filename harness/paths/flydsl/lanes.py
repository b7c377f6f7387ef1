"""What one lane of a scorer loads and computes: operands, dot products, the sum over lane groups.

Plain functions that run while a kernel is traced. Contract: the planes of spec indexer.md 3
and the lane layout of the scaled matrix instruction (emulation.md): lane l holds row (head)
or column (key) l % 16 of its operand, scale group l // 16 of the k-tile, and gets back heads
4 * (l // 16) + i of column l % 16. A wave scores 16 keys at a time. It fails silently when a
scale byte goes to the wrong lane or a scale row is read unbent: with keys as a LayerNorm
leaves them all scales are nearly equal and the scores stay plausible.

Offsets are 64 bits wide before anything is multiplied, so that no plane is too large.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx
from flydsl.expr import rocdl

from harness.paths.flydsl.abi import BLOCK_K, PAGE_ROWS

WAVES = 4
WAVE = 64
TILE = 16
"""Keys a wave scores at a time, and heads of one matrix instruction."""
TILES_OF_CHUNK = BLOCK_K // TILE
K_TILE = 128
GROUPS = 4
"""Scale groups of 32 columns in a k-tile, and groups of 16 lanes in a wave."""
GROUP_BYTES = 16
"""Packed bytes of one group: what a lane holds of an operand."""
FP4 = 4
"""The matrix instruction's code for E2M1 operands."""


@dataclass(frozen=True)
class Lane:
    """Where this lane stands: index in the wave, index % 16, index // 16, and the wave's number."""

    index: Any
    column: Any
    group: Any
    wave: Any

    @classmethod
    def here(cls) -> Lane:
        """The wave's number is made uniform, so that what follows from it is loaded once a wave."""
        index = fx.lane_id()
        wave = fx.Int32(rocdl.readfirstlane(fx.Int32.ir_type, fx.thread_idx.x >> 6))
        return cls(index, index & 15, index >> 4, wave)


@dataclass(frozen=True)
class Operand:
    """One lane's share of a matrix operand: 32 codes as Int32x4, and the dword and byte of its scale."""

    codes: Any
    scale: Any
    byte: int


def load(tensor: Any, offset: Any, dtype: Any, count: int = 1) -> Any:
    """``count`` values of ``dtype`` at element ``offset`` of ``tensor`` (a vector when more than one)."""
    return fx.generic_load(fx.add_offset(fx.get_iter(tensor), fx.Int64(offset)), dtype=dtype, count=count)


def store(tensor: Any, offset: Any, value: Any) -> None:
    """Store ``value`` at element ``offset`` of ``tensor``."""
    fx.generic_store(fx.add_offset(fx.get_iter(tensor), fx.Int64(offset)), value)


def query(q_codes: Any, q_scales: Any, row: Any, lane: Lane, heads: int, dim: int) -> list[list[Operand]]:
    """Operands [k-tile][head tile] of query row ``row``; the scales of four head tiles share a dword."""
    tiles = []
    padded = -(-heads // TILE // 4) * 4
    step = TILE * (dim // 2)
    for k_tile in range(dim // K_TILE):
        head = fx.Int64(row) * heads + lane.column
        codes_at = head * (dim // 2) + (k_tile * GROUPS + lane.group) * GROUP_BYTES
        scale_row = ((fx.Int64(row) * (dim // K_TILE) + k_tile) * GROUPS + lane.group) * TILE + lane.column
        dwords = [load(q_scales, scale_row * padded + 4 * word, fx.Int32) for word in range(padded // 4)]
        tiles.append(
            [
                Operand(load(q_codes, codes_at + tile * step, fx.Int32, 4), dwords[tile // 4], tile % 4)
                for tile in range(heads // TILE)
            ]
        )
    return tiles


def head_weights(weights: Any, row: Any, lane: Lane, heads: int) -> list[Any]:
    """Float32 weights of the heads whose dots this lane gets back, in the order 16 * tile + 4 * group + i."""
    first = fx.Int64(row) * heads + lane.group * 4
    vectors = [load(weights, first + tile * TILE, fx.BFloat16, 4) for tile in range(heads // TILE)]
    return [vector.to(fx.Float32)[i] for vector in vectors for i in range(4)]


def bent(row: Any) -> Any:
    """Position of page row ``row`` in the scale plane (spec indexer.md 3)."""
    return row % 16 * (PAGE_ROWS // 16) + row // 16


def keys(k_codes: Any, k_scales: Any, page: Any, row: Any, lane: Lane, dim: int) -> list[Operand]:
    """Operands [k-tile] of the key in ``row`` of ``page``; the scale plane's rows are bent."""
    operands = []
    for k_tile in range(dim // K_TILE):
        group = (fx.Int64(page) * (dim // K_TILE) + k_tile) * GROUPS + lane.group
        codes = load(k_codes, (group * PAGE_ROWS + row) * GROUP_BYTES, fx.Int32, 4)
        operands.append(Operand(codes, fx.Int32(load(k_scales, group * PAGE_ROWS + bent(row), fx.Uint8)), 0))
    return operands


def dots(query_tiles: list[list[Operand]], key: list[Operand]) -> list[Any]:
    """relu(q . k) of this lane's heads for the key of column lane % 16, in the order of `head_weights`."""
    zero = fx.Float32x4(0.0)
    dots = []
    for tile in range(len(query_tiles[0])):
        dot = zero
        for k_tile, right in enumerate(key):
            left = query_tiles[k_tile][tile]
            scales = [left.byte, left.scale, right.byte, right.scale]
            operands = [left.codes, right.codes, dot, FP4, FP4, *scales]
            dot = fx.Float32x4(rocdl.mfma_scale_f32_16x16x128_f8f6f4(fx.Float32x4.ir_type, operands))
        positive = fx.max(dot, zero)
        dots += [positive[i] for i in range(4)]
    return dots


def across_groups(value: Any, lane: Lane) -> Any:
    """(v0 + v1) + (v2 + v3) over the four lane groups of a column, in every one of its lanes."""
    pair = value + _from_lane(value, lane.index ^ 16)
    return pair + _from_lane(pair, lane.index ^ 32)


def _from_lane(value: Any, index: Any) -> Any:
    """Float32 ``value`` of lane ``index`` of the wave."""
    moved = rocdl.ds_bpermute(fx.Int32.ir_type, index * 4, value.bitcast(fx.Int32))
    return fx.Int32(moved).bitcast(fx.Float32)
