"""The fused FP4 writer as a Triton kernel: one program a token, from the words of spec indexer.md 1 to 3.

A column and its RoPE partner are both loaded, and a key is normalised at both places, so nothing moves
between lanes. bfloat16 is taken apart and put together with integers: an interpreter that truncates
where the hardware rounds would be compared with itself. A group's maximum is taken over the bits of
magnitudes, NaNs left out as ``fmaxf`` leaves them out. Import only after the environment is prepared:
without a GPU the kernel needs ``TRITON_INTERPRET=1`` at decoration, and would fail at its first launch.
"""

# What a kernel is given has no type but Triton's.
# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

import triton
import triton.language as tl

LANE_HEADS = tl.constexpr(16)
COLUMNS = tl.constexpr(128)
BYTES = tl.constexpr(64)
"""Packed bytes of a vector: byte j holds columns 2j (low nibble) and 2j + 1."""
ROPE_COLUMNS = tl.constexpr(64)
PAGE_ROWS = tl.constexpr(64)
GROUPS = tl.constexpr(4)
AMAX_FLOOR_BITS = tl.constexpr(0x01C00000)
"""6 * 2^-126 as a float32."""
SIXTH_BITS = tl.constexpr(0x3E2AAAAB)
"""fl32(1/6)."""


@triton.jit
def widened(bits):
    """float32 of the bits (int16) of bfloat16 numbers."""
    return (bits.to(tl.int32) << 16).to(tl.float32, bitcast=True)


@triton.jit
def narrowed(x):
    """``x`` float32 rounded to bfloat16, half to even, as float32; NaNs stay NaNs."""
    bits = x.to(tl.int32, bitcast=True)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & -65536
    lost = (bits & 0x7FFFFFFF) > 0x7F800000
    return tl.where(lost, bits | 0x400000, rounded).to(tl.float32, bitcast=True)


@triton.jit
def partner_of(column, NEOX: tl.constexpr):
    """The column that ``column`` turns with; itself past the rotated ones."""
    return tl.where(column < ROPE_COLUMNS, column ^ (32 if NEOX else 1), column)


@triton.jit
def turned(x, other, column, cos, sin, NEOX: tl.constexpr):
    """``x`` rotated against ``other``, its partner; cos and sin are rows of the tables."""
    inside = column < ROPE_COLUMNS
    angle = (column % 32) if NEOX else (column // 2)
    leads = (column < 32) if NEOX else (column % 2 == 0)
    cosine = widened(tl.load(cos + angle, mask=inside, other=0))
    sine = widened(tl.load(sin + angle, mask=inside, other=0))
    # Not by a sign of the sine: Triton's minus is 0 - x, which loses that of a zero.
    made = tl.where(leads, x * cosine - other * sine, x * cosine + other * sine)
    return tl.where(inside, narrowed(made), x)


@triton.jit
def scale_bytes(x, ROWS: tl.constexpr):
    """E8M0 bytes (int32 [ROWS, 4]) of vectors [ROWS, 128]; a NaN counts as zero."""
    bits = x.to(tl.int32, bitcast=True) & 0x7FFFFFFF
    bits = tl.where(bits > 0x7F800000, 0, bits)
    amax = tl.maximum(tl.max(tl.reshape(bits, (ROWS, GROUPS, 32)), axis=2), AMAX_FLOOR_BITS)
    sixth = tl.full((1, 1), SIXTH_BITS, tl.int32).to(tl.float32, bitcast=True)
    scaled = amax.to(tl.float32, bitcast=True) * sixth
    # A carry out of the mantissa is the step to the next power of two.
    return (scaled.to(tl.int32, bitcast=True) + 0x7FFFFF) >> 23


@triton.jit
def packed(x, scales, column, ROWS: tl.constexpr):
    """Bytes (uint8 [ROWS, 64]) of vectors [ROWS, 128] under scale bytes int32 [ROWS, 4].

    Codes are x / 2^(byte-127), half to even, saturating; the sign stays on zero.
    """
    # 2^(127 - byte), exact: bytes are 1 to 253, or 255, whose codes mean nothing.
    inverse = (tl.maximum(254 - scales, 0) << 23).to(tl.float32, bitcast=True)
    inverse = tl.reshape(tl.broadcast_to(inverse[:, :, None], (ROWS, GROUPS, 32)), (ROWS, COLUMNS))
    size = tl.abs(x * inverse)
    code = (size > 0.25).to(tl.int32) + (size >= 0.75).to(tl.int32) + (size > 1.25).to(tl.int32)
    code += (size >= 1.75).to(tl.int32) + (size > 2.5).to(tl.int32) + (size >= 3.5).to(tl.int32)
    code += (size > 5.0).to(tl.int32)
    code += tl.where(x.to(tl.int32, bitcast=True) < 0, 8, 0)
    code <<= column % 2 * 4
    return tl.sum(tl.reshape(code, (ROWS, BYTES, 2)), axis=2).to(tl.uint8)


@triton.jit
def write_query(
    q, weights, q_codes, q_scales, weights_out, token, cos, sin, heads,
    q_row, q_head, weights_row, TILES: tl.constexpr, NEOX: tl.constexpr,
):  # fmt: skip
    """All heads of one token; pad tiles of the scales are zero."""
    ROOM: tl.constexpr = TILES * LANE_HEADS
    head, column = tl.arange(0, ROOM), tl.arange(0, COLUMNS)[None, :]
    there = (head < heads)[:, None]
    vector = q + token * q_row + head[:, None] * q_head
    x = widened(tl.load(vector + column, mask=there, other=0))
    other = widened(tl.load(vector + partner_of(column, NEOX), mask=there, other=0))
    x = turned(x, other, column, cos, sin, NEOX)
    scales = scale_bytes(x, ROOM)
    place = (token * heads + head[:, None]) * BYTES + tl.arange(0, BYTES)[None, :]
    tl.store(q_codes + place, packed(x, scales, column, ROOM), mask=there)
    lane = (token * GROUPS + tl.arange(0, GROUPS)[None, :]) * LANE_HEADS + (head % LANE_HEADS)[:, None]
    kept = tl.where(there, scales, 0).to(tl.uint8)
    tl.store(q_scales + lane * TILES + (head // LANE_HEADS)[:, None], kept)
    copied = tl.load(weights + token * weights_row + head, mask=head < heads, other=0)
    tl.store(weights_out + token * heads + head, copied, mask=head < heads)


@triton.jit
def normalised(k, norm_weight, norm_bias, column, mean, root):
    """LayerNorm of one key at ``column``, as bfloat16 in float32."""
    x = widened(tl.load(k + column))
    return narrowed((x - mean) * root * tl.load(norm_weight + column) + tl.load(norm_bias + column))


@triton.jit
def write_key(k, norm_weight, norm_bias, k_codes, k_scales, slot, cos, sin, epsilon, NEOX: tl.constexpr):
    """One key into row slot % 64 of page slot // 64; its scales at the bent row."""
    column = tl.arange(0, COLUMNS)
    x = widened(tl.load(k + column))
    mean = tl.sum(x) / 128
    variance = tl.sum((x - mean) * (x - mean)) / 128
    root = tl.div_rn(1.0, tl.sqrt_rn(variance + epsilon))
    x = normalised(k, norm_weight, norm_bias, column, mean, root)
    other = normalised(k, norm_weight, norm_bias, partner_of(column, NEOX), mean, root)
    x = turned(x, other, column, cos, sin, NEOX)[None, :]
    scales = scale_bytes(x, 1)
    page, row = slot // PAGE_ROWS, slot % PAGE_ROWS
    byte, group = tl.arange(0, BYTES)[None, :], tl.arange(0, GROUPS)[None, :]
    place = ((page * GROUPS + byte // 16) * PAGE_ROWS + row) * 16 + byte % 16
    tl.store(k_codes + place, packed(x, scales, column[None, :], 1))
    bent = row % 16 * 4 + row // 16
    tl.store(k_scales + (page * GROUPS + group) * PAGE_ROWS + bent, scales.to(tl.uint8))


@triton.jit
def write_tokens_kernel(
    q, k, weights, norm_weight, norm_bias, cos, sin, positions, slots,
    q_codes, q_scales, weights_out, k_codes, k_scales,
    heads, q_row, q_head, k_row, weights_row, cos_row, sin_row, table, epsilon,
    TILES: tl.constexpr, NEOX: tl.constexpr, ALL: tl.constexpr,
):  # fmt: skip
    """One token. Tensors of bfloat16 come as int16; TILES is the last axis of q_scales."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + token)
    if (slot >= 0) | ALL:
        position = tl.load(positions + token)
        position = tl.where(slot < 0, tl.minimum(tl.maximum(position, 0), table - 1), position)
        cos += position * cos_row
        sin += position * sin_row
        write_query(
            q, weights, q_codes, q_scales, weights_out, token, cos, sin, heads,
            q_row, q_head, weights_row, TILES, NEOX,
        )  # fmt: skip
        if slot >= 0:
            key = k + token * k_row
            write_key(key, norm_weight, norm_bias, k_codes, k_scales, slot, cos, sin, epsilon, NEOX)
