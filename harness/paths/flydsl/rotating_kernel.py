"""V4's rotate-and-quantise as Triton kernels: one program a row, which is one head of one token.

Columns that meet are brought side by side by reshaping, so nothing is indexed twice. bfloat16 and E4M3 are
taken apart and put together with integers, as in the kernels whose helpers are used here. Import only after
the environment is prepared: without a GPU the kernels need ``TRITON_INTERPRET=1`` at decoration.
"""

# What a kernel is given has no type but Triton's.
# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

import triton
import triton.language as tl

from harness.paths.flydsl.eightbit_kernels import codes_of
from harness.paths.flydsl.writer_kernel import AMAX_FLOOR_BITS, SIXTH_BITS, widened


@triton.jit
def transformed(x, root, DIM: tl.constexpr, STAGES: tl.constexpr):
    """Hadamard transform of x [DIM], columns 1 apart first, times ``root``."""
    for stage in tl.static_range(STAGES):
        pairs = tl.reshape(x, (DIM >> (stage + 1), 2, 1 << stage))
        left, right = tl.split(tl.permute(pairs, (0, 2, 1)))
        made = tl.join(left + right, left - right)
        x = tl.reshape(tl.permute(made, (0, 2, 1)), (DIM,))
    return x * root


@triton.jit
def turned(x, cos, sin, ROPE: tl.constexpr, DIM: tl.constexpr):
    """RoPE of the last ``ROPE`` columns of x [DIM], adjacent pairs; cos and sin are rows of the tables."""
    pair = tl.arange(0, DIM // 2)
    first: tl.constexpr = (DIM - ROPE) // 2
    inside = pair >= first
    cosine = widened(tl.load(cos + pair - first, mask=inside, other=0))
    sine = widened(tl.load(sin + pair - first, mask=inside, other=0))
    a, b = tl.split(tl.reshape(x, (DIM // 2, 2)))
    even = tl.where(inside, a * cosine - b * sine, a)
    odd = tl.where(inside, b * cosine + a * sine, b)
    return tl.reshape(tl.join(even, odd), (DIM,))


@triton.jit
def four(x, DIM: tl.constexpr, GROUP: tl.constexpr):
    """(bytes uint8 [DIM/2], E8M0 bytes int32 [DIM/GROUP]) of x [DIM]."""
    bits = x.to(tl.int32, bitcast=True) & 0x7FFFFFFF
    amax = tl.maximum(tl.max(tl.reshape(bits, (DIM // GROUP, GROUP)), axis=1), AMAX_FLOOR_BITS)
    sixth = tl.full((1,), SIXTH_BITS, tl.int32).to(tl.float32, bitcast=True)
    scaled = amax.to(tl.float32, bitcast=True) * sixth
    # A carry out of the mantissa is the step to the next power of two.
    scales = (scaled.to(tl.int32, bitcast=True) + 0x7FFFFF) >> 23
    inverse = (tl.maximum(254 - scales, 0) << 23).to(tl.float32, bitcast=True)
    inverse = tl.reshape(tl.broadcast_to(inverse[:, None], (DIM // GROUP, GROUP)), (DIM,))
    size = tl.abs(x * inverse)
    code = (size > 0.25).to(tl.int32) + (size >= 0.75).to(tl.int32) + (size > 1.25).to(tl.int32)
    code += (size >= 1.75).to(tl.int32) + (size > 2.5).to(tl.int32) + (size >= 3.5).to(tl.int32)
    code += (size > 5.0).to(tl.int32)
    code += tl.where(x.to(tl.int32, bitcast=True) < 0, 8, 0)
    low, high = tl.split(tl.reshape(code, (DIM // 2, 2)))
    return (low | (high << 4)).to(tl.uint8), scales


@triton.jit
def queries_kernel(
    x, cos, sin, positions, codes, scales, heads, row_stride, head_stride, cos_row, sin_row, root,
    DIM: tl.constexpr, STAGES: tl.constexpr, ROPE: tl.constexpr, HADAMARD: tl.constexpr,
    EIGHT: tl.constexpr, GROUP: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """One head of one token. TILES: last axis of shuffled scales, 0: row after row."""
    row = tl.program_id(0).to(tl.int64)
    token, head = row // heads, row % heads
    column, group = tl.arange(0, DIM), tl.arange(0, DIM // GROUP)
    value = widened(tl.load(x + token * row_stride + head * head_stride + column))
    if ROPE:
        position = tl.load(positions + token)
        value = turned(value, cos + position * cos_row, sin + position * sin_row, ROPE, DIM)
    if HADAMARD:
        value = transformed(value, root, DIM, STAGES)
    if EIGHT:
        raised = tl.maximum(tl.max(tl.abs(tl.reshape(value, (DIM // GROUP, GROUP))), axis=1), 1e-10)
        scale = raised * (1.0 / 448.0)
        inverse = tl.broadcast_to(tl.div_rn(1.0, scale)[:, None], (DIM // GROUP, GROUP))
        made = codes_of(value * tl.reshape(inverse, (DIM,)), False)
        tl.store(codes + row * DIM + column, made)
        tl.store(scales + row * (DIM // GROUP) + group, scale)
    else:
        made, scale = four(value, DIM, GROUP)
        tl.store(codes + row * (DIM // 2) + tl.arange(0, DIM // 2), made)
        if TILES:
            lane = ((token * (DIM // GROUP) + group) * 16 + head % 16) * TILES
            tl.store(scales + lane + head // 16, scale.to(tl.uint8))
            if head // 16 == heads // 16 - 1:
                for pad in range(heads // 16, TILES):
                    tl.store(scales + lane + pad, tl.zeros_like(scale).to(tl.uint8))
        else:
            tl.store(scales + row * (DIM // GROUP) + group, scale.to(tl.uint8))


@triton.jit
def keys_kernel(
    x, norm_weight, cos, sin, positions, slots, codes, scales, row_stride, cos_row, sin_row, root, epsilon,
    DIM: tl.constexpr, STAGES: tl.constexpr, ROPE: tl.constexpr, HADAMARD: tl.constexpr,
    GROUP: tl.constexpr, PAGE: tl.constexpr, SHUFFLED: tl.constexpr,
):  # fmt: skip
    """Head 0 of one token into its slot; scales of a shuffled page at the bent row."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + token)
    if slot >= 0:
        column = tl.arange(0, DIM)
        byte, group = tl.arange(0, DIM // 2), tl.arange(0, DIM // GROUP)
        value = widened(tl.load(x + token * row_stride + column))
        mean = tl.sum(value * value) / DIM
        value = value * tl.div_rn(1.0, tl.sqrt_rn(mean + epsilon)) * widened(tl.load(norm_weight + column))
        position = tl.load(positions + token)
        value = turned(value, cos + position * cos_row, sin + position * sin_row, ROPE, DIM)
        if HADAMARD:
            value = transformed(value, root, DIM, STAGES)
        made, scale = four(value, DIM, GROUP)
        if SHUFFLED:
            page, row = slot // PAGE, slot % PAGE
            place = (page * (DIM // 32) + byte // 16) * PAGE + row
            tl.store(codes + place * 16 + byte % 16, made)
            bent = row % 16 * (PAGE // 16) + row // 16
            tl.store(scales + (page * (DIM // 32) + group) * PAGE + bent, scale.to(tl.uint8))
        else:
            tl.store(codes + slot * (DIM // 2) + byte, made)
            tl.store(scales + slot * (DIM // GROUP) + group, scale.to(tl.uint8))
