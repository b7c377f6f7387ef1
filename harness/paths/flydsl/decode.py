"""The decode scorer: one schedule entry a workgroup, in-tree, from the ABI of spec indexer.md 3-5.

Workgroup p takes entry p (row, first chunk, chunk count, context length) and scores the keys
of those chunks that row sees, t < context - (N - 1 - row % N), 16 keys a wave at a time.
Sum over heads: the tree ``decode`` of numerics.md, products rounded and then added, the
weight scale last. Nothing outside the window is read or stored; an entry without a visible
key (an idle one has context 0) reads its schedule entry and nothing else. It fails silently
by one key a row when an older draft row is given the newest one's window: N = 1 never shows it.
"""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

from harness.paths.flydsl import lanes
from harness.paths.flydsl.abi import PAGE_ROWS


@flyc.kernel
def decode_kernel(
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
    next_n: fx.Constexpr[int],
) -> None:
    lane = lanes.Lane.here()
    entry = lanes.load(schedule, fx.block_idx.x * 4, fx.Int32, 4)
    row, first, count, context = entry[0], entry[1], entry[2], entry[3]
    sequence = row // next_n
    end = context - (next_n - 1 - row % next_n)
    tile_begin = first * lanes.TILES_OF_CHUNK
    tile_end = fx.min(tile_begin + count * lanes.TILES_OF_CHUNK, (end + lanes.TILE - 1) // lanes.TILE)
    if tile_begin < tile_end:
        query = lanes.query(q_codes, q_scales, row, lane, heads, dim)
        weight = lanes.head_weights(weights, row, lane, heads)
        for tile in range(tile_begin + lane.wave, tile_end, lanes.WAVES):
            page = lanes.load(block_tables, fx.Int64(sequence) * table_stride + tile // 4, fx.Int32)
            token = tile * lanes.TILE + lane.column
            # A lane past the window loads the last visible key instead; its score is not stored.
            key = lanes.keys(k_codes, k_scales, page, fx.min(token, end - 1) % PAGE_ROWS, lane, dim)
            total = fx.Float32(0.0)
            for head, dot in enumerate(lanes.dots(query, key)):
                total = total + dot * weight[head]
            score = lanes.across_groups(total, lane) * weight_scale
            if (lane.group == 0) & (token < end):
                lanes.store(out, fx.Int64(row) * out_stride + token, score)


@flyc.jit
def launch_decode(
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
    next_n: fx.Constexpr[int],
    stream: fx.Stream,
) -> None:
    kernel = decode_kernel(
        out, q_codes, q_scales, k_codes, k_scales, block_tables, weights, schedule,
        out_stride, table_stride, weight_scale, heads, dim, next_n,
    )  # fmt: skip
    kernel.launch(grid=(units,), block=(lanes.WAVES * lanes.WAVE, 1, 1), stream=stream)
