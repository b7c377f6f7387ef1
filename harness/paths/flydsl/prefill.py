"""The prefill scorer: ragged rows with windows, in-tree, from the ABI of spec indexer.md 3-5.

Workgroup p takes entry p (row, sequence, first chunk, chunk count, start, end) and scores the
keys start <= t < end of those chunks, 16 keys a wave at a time. Chunks count from column 0,
so the ones before ``start`` are skipped. Sum over heads: the tree ``prefill`` of numerics.md,
each weight times the weight scale first, then fused multiply-adds. Nothing outside the window
is read or stored; an entry with an empty window reads its schedule entry and nothing else.
It fails silently when the weight scale is applied last, or a product is rounded before it is
added: a unit in the last place here and there.
"""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

from harness.paths.flydsl import lanes
from harness.paths.flydsl.abi import PAGE_ROWS


@flyc.kernel
def prefill_kernel(
    out: fx.Tensor,
    q_codes: fx.Tensor,
    q_scales: fx.Tensor,
    k_codes: fx.Tensor,
    k_scales: fx.Tensor,
    block_tables: fx.Tensor,
    weights: fx.Tensor,
    schedule: fx.Tensor,
    out_stride: fx.Int64,
    table_stride: fx.Int64,
    weight_scale: fx.Float32,
    heads: fx.Constexpr[int],
    dim: fx.Constexpr[int],
) -> None:
    lane = lanes.Lane.here()
    entry_at = fx.Int64(fx.block_idx.x) * 6
    row, sequence, first, count, start, end = (
        lanes.load(schedule, entry_at + field, fx.Int32) for field in range(6)
    )
    chunk_begin = first * lanes.TILES_OF_CHUNK
    chunk_end = chunk_begin + count * lanes.TILES_OF_CHUNK
    tile_begin = fx.max(chunk_begin, start // lanes.TILE)
    tile_end = fx.min(chunk_end, (end + lanes.TILE - 1) // lanes.TILE)
    if (start < end) & (tile_begin < tile_end):
        query = lanes.query(q_codes, q_scales, row, lane, heads, dim)
        weight = [w * weight_scale for w in lanes.head_weights(weights, row, lane, heads)]
        for tile in range(tile_begin + lane.wave, tile_end, lanes.WAVES):
            page = lanes.load(block_tables, fx.Int64(sequence) * table_stride + tile // 4, fx.Int32)
            token = tile * lanes.TILE + lane.column
            # A lane outside the window loads the nearest visible key instead; its score is not stored.
            visible = fx.max(fx.min(token, end - 1), start)
            key = lanes.keys(k_codes, k_scales, page, visible % PAGE_ROWS, lane, dim)
            total = fx.Float32(0.0)
            for head, dot in enumerate(lanes.dots(query, key)):
                total = fx.fma(dot, weight[head], total)
            score = lanes.across_groups(total, lane)
            if (lane.group == 0) & (token >= start) & (token < end):
                lanes.store(out, fx.Int64(row) * out_stride + token, score)


@flyc.jit
def launch_prefill(
    out: fx.Tensor,
    q_codes: fx.Tensor,
    q_scales: fx.Tensor,
    k_codes: fx.Tensor,
    k_scales: fx.Tensor,
    block_tables: fx.Tensor,
    weights: fx.Tensor,
    schedule: fx.Tensor,
    out_stride: fx.Int64,
    table_stride: fx.Int64,
    weight_scale: fx.Float32,
    units: fx.Int32,
    heads: fx.Constexpr[int],
    dim: fx.Constexpr[int],
    stream: fx.Stream,
) -> None:
    kernel = prefill_kernel(
        out, q_codes, q_scales, k_codes, k_scales, block_tables, weights, schedule,
        out_stride, table_stride, weight_scale, heads, dim,
    )  # fmt: skip
    kernel.launch(grid=(units,), block=(lanes.WAVES * lanes.WAVE, 1, 1), stream=stream)
