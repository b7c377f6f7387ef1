"""The quantiser and the key writer: one lane a group of 32 values, in-tree, from spec indexer.md 1-3.

Production rule. The scale byte by integer operations on the bits of a float32: the exponent
field of amax * fl32(1/6), amax at least 6 * 2^-126, one more when a mantissa bit is set, at
most 255. Bits of magnitudes order as the numbers do, with NaN above infinity above all
others, so a NaN or an infinity anywhere in the group gives 255. The codes by the conversion
instruction: x / 2^(byte-127), ties to even, saturating at 6; those of a group with scale 255
mean nothing. It fails silently when the byte is one too large: values survive roughly, and
most of their codes move.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import rocdl

from harness.paths.flydsl import lanes
from harness.paths.flydsl.abi import GROUP, PAGE_ROWS

THREADS = 256
LOADED = 8
"""Values a lane loads at a time."""
AMAX_FLOOR_BITS = 0x01C00000
"""6 * 2^-126 as a float32."""
MAGNITUDE_BITS = 0x7FFFFFFF
MANTISSA_BITS = 0x7FFFFF


def quantise_group(x: Any, first: Any) -> tuple[Any, Any]:
    """(codes Int32x4, scale byte Int32) of the 32 values of ``x`` from element ``first``."""
    vectors = [lanes.load(x, first + part, x.element_type, LOADED) for part in range(0, GROUP, LOADED)]
    vectors = [vector.to(fx.Float32) for vector in vectors]
    byte = scale_byte(vectors)
    scale = (byte << 23).bitcast(fx.Float32)
    words = []
    for vector in vectors:
        word = fx.Int32(0)
        for pair in range(LOADED // 2):
            low, high = vector[2 * pair], vector[2 * pair + 1]
            word = rocdl.cvt_scalef32_pk_fp4_f32(fx.Int32.ir_type, word, low, high, scale, pair)
        words.append(fx.Int32(word))
    return fx.Vector.from_elements(words, fx.Int32), byte


def scale_byte(vectors: list[Any]) -> Any:
    """E8M0 byte (Int32) of the largest magnitude among vectors of Float32."""
    magnitudes = fx.max(*[vector.bitcast(fx.Int32) & MAGNITUDE_BITS for vector in vectors])
    amax = fx.max(fx.Int32(AMAX_FLOOR_BITS), *[magnitudes[i] for i in range(LOADED)])
    sixth = (amax.bitcast(fx.Float32) * fx.Float32(1 / 6)).bitcast(fx.Uint32)
    # A carry out of the mantissa is the step to the next power of two; that of a NaN reaches
    # the sign bit, hence unsigned.
    return fx.Int32(fx.min((sixth + MANTISSA_BITS) >> 23, fx.Uint32(255)))


@flyc.kernel
def quantise_kernel(codes: fx.Tensor, scales: fx.Tensor, x: fx.Tensor, groups: fx.Int64) -> None:
    group = fx.Int64(fx.block_idx.x) * THREADS + fx.thread_idx.x
    if group < groups:
        words, byte = quantise_group(x, group * GROUP)
        lanes.store(codes, group * lanes.GROUP_BYTES, words)
        lanes.store(scales, group, fx.Uint8(byte))


@flyc.kernel
def write_keys_kernel(
    k_codes: fx.Tensor,
    k_scales: fx.Tensor,
    k: fx.Tensor,
    slots: fx.Tensor,
    groups: fx.Int64,
    dim: fx.Constexpr[int],
) -> None:
    group = fx.Int64(fx.block_idx.x) * THREADS + fx.thread_idx.x
    if group < groups:
        slot = lanes.load(slots, group // (dim // GROUP), fx.Int64)
        if slot >= 0:
            words, byte = quantise_group(k, group * GROUP)
            # Groups of all k-tiles follow one another in both planes.
            page = slot // PAGE_ROWS * (dim // GROUP) + group % (dim // GROUP)
            row = slot % PAGE_ROWS
            lanes.store(k_codes, (page * PAGE_ROWS + row) * lanes.GROUP_BYTES, words)
            lanes.store(k_scales, page * PAGE_ROWS + lanes.bent(row), fx.Uint8(byte))


@flyc.jit
def launch_quantise(
    codes: fx.Tensor, scales: fx.Tensor, x: fx.Tensor, groups: fx.Int64, blocks: fx.Int32, stream: fx.Stream
) -> None:
    quantise_kernel(codes, scales, x, groups).launch(grid=(blocks,), block=(THREADS, 1, 1), stream=stream)


@flyc.jit
def launch_write_keys(
    k_codes: fx.Tensor,
    k_scales: fx.Tensor,
    k: fx.Tensor,
    slots: fx.Tensor,
    groups: fx.Int64,
    blocks: fx.Int32,
    dim: fx.Constexpr[int],
    stream: fx.Stream,
) -> None:
    kernel = write_keys_kernel(k_codes, k_scales, k, slots, groups, dim)
    kernel.launch(grid=(blocks,), block=(THREADS, 1, 1), stream=stream)
