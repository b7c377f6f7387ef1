"""Triton kernels of the in-tree FP8 path, from the words of spec indexer.md 1 to 3.

E4M3 is taken apart and put together with integer operations, not with Triton's casts: an interpreter
that truncates where the hardware rounds would be compared with itself. Products are formed in float32,
where they are exact. Import only after the environment is prepared: without a GPU the kernels need
``TRITON_INTERPRET=1`` at decoration, and would fail at the first launch otherwise.
"""

# What a kernel is given has no type but Triton's.
# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def values_of(code, FNUZ: tl.constexpr):
    """float32 values of E4M3 codes (uint8)."""
    bits = code.to(tl.int32)
    size = bits & 0x7F
    exponent = size >> 3
    bias: tl.constexpr = 8 if FNUZ else 7
    normal = ((exponent + (127 - bias)) << 23) | ((size & 7) << 20)
    tiny = (size & 7).to(tl.float32) * (2.0 ** (-2 - bias))
    value = tl.where(exponent > 0, normal.to(tl.float32, bitcast=True), tiny)
    value = tl.where(bits >= 128, -value, value)
    lost = (bits == 0x80) if FNUZ else (size == 0x7F)
    return tl.where(lost, float("nan"), value)


@triton.jit
def codes_of(x, FNUZ: tl.constexpr):
    """E4M3 codes (uint8) of float32 numbers, half to even, saturating."""
    bias: tl.constexpr = 8 if FNUZ else 7
    top: tl.constexpr = 240.0 if FNUZ else 448.0
    size = tl.minimum(tl.abs(x), top)
    bits = size.to(tl.int32, bitcast=True)
    # 20 of 23 bits go; a carry runs on into the exponent, as it should.
    normal = ((bits + 0x7FFFF + ((bits >> 20) & 1)) >> 20) - ((127 - bias) << 3)
    # One step of the subnormal grid is the last bit of this constant, so that the addition rounds.
    magic: tl.constexpr = 2.0 ** (21 - bias)
    shifted = (size + magic).to(tl.int32, bitcast=True)
    tiny = shifted - ((127 + 21 - bias) << 23)
    code = tl.where(size < 2.0 ** (1 - bias), tiny, normal)
    negative = x.to(tl.int32, bitcast=True) < 0
    signed = negative & (code > 0) if FNUZ else negative
    return tl.where(signed, code | 0x80, code).to(tl.uint8)


@triton.jit
def quantised(x, floor, step, FNUZ: tl.constexpr, DIVIDE: tl.constexpr, POWER: tl.constexpr):
    """(codes, scales) of vectors [N, 128]. ``step``: the format's top, or its reciprocal where not DIVIDE."""
    raised = tl.maximum(tl.max(tl.abs(x), axis=1), floor)
    scale = tl.div_rn(raised, step) if DIVIDE else raised * step
    if POWER:
        # The exponent goes up by one unless the mantissa is empty.
        raised_bits = scale.to(tl.int32, bitcast=True) + 0x7FFFFF
        scale = (raised_bits & 0x7F800000).to(tl.float32, bitcast=True)
    return codes_of(x * tl.div_rn(1.0, scale)[:, None], FNUZ), scale


@triton.jit
def code_offsets(row, column, TILED: tl.constexpr):
    """Byte of a page that holds a code."""
    if TILED:
        return (row // 16) * 2048 + (column // 16) * 256 + (row % 16) * 16 + column % 16
    return row * 128 + column


@triton.jit
def quantise_queries_kernel(
    q,
    weights,
    codes,
    folded,
    count,
    floor,
    step,
    weights_scale,
    FNUZ: tl.constexpr,
    POWER: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """``BLOCK`` of ``count`` heads, those of all rows in turn."""
    head, column = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, 128)
    there = head < count
    place = head[:, None] * 128 + column[None, :]
    x = tl.load(q + place, mask=there[:, None], other=0.0).to(tl.float32)
    made, scale = quantised(x, floor, step, FNUZ, False, POWER)
    tl.store(codes + place, made, mask=there[:, None])
    weight = tl.load(weights + head, mask=there, other=0.0).to(tl.float32)
    tl.store(folded + head, weight * scale * weights_scale, mask=there)


@triton.jit
def write_keys_kernel(
    k,
    slots,
    cache,
    scales,
    count,
    page_bytes,
    floor,
    step,
    FNUZ: tl.constexpr,
    POWER: tl.constexpr,
    TILED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """``BLOCK`` of ``count`` keys. ``scales`` is the cache seen as float32."""
    key, column = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, 128)
    slot = tl.load(slots + key, mask=key < count, other=-1)
    kept = slot >= 0
    x = tl.load(k + key[:, None] * 128 + column[None, :], mask=kept[:, None], other=0.0).to(tl.float32)
    made, scale = quantised(x, floor, step, FNUZ, True, POWER)
    page, row = slot // 64 * page_bytes, slot % 64
    place = page[:, None] + code_offsets(row[:, None], column[None, :], TILED)
    tl.store(cache + place, made, mask=kept[:, None])
    tl.store(scales + (page + 64 * 128) // 4 + row, scale, mask=kept)


@triton.jit
def gather_keys_kernel(
    cache,
    scales,
    tables,
    cu_lens,
    codes_out,
    scales_out,
    count,
    page_bytes,
    table_stride,
    sequences,
    ROOM: tl.constexpr,
    TILED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """``BLOCK`` keys, each found by its place among all. ``ROOM``: a power of two >= sequences."""
    key, column = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, 128)
    there, which = key < count, tl.arange(0, ROOM)
    ends = tl.load(cu_lens + 1 + which, mask=which < sequences, other=0x7FFFFFFF)
    sequence = tl.sum((ends[None, :] <= key[:, None]).to(tl.int32), axis=1)
    position = key - tl.load(cu_lens + sequence, mask=there, other=0)
    entry = tables + sequence.to(tl.int64) * table_stride + position // 64
    page = tl.load(entry, mask=there, other=0).to(tl.int64) * page_bytes
    row = position % 64
    place = page[:, None] + code_offsets(row[:, None], column[None, :], TILED)
    codes = tl.load(cache + place, mask=there[:, None], other=0)
    tl.store(codes_out + key[:, None] * 128 + column[None, :], codes, mask=there[:, None])
    scale = tl.load(scales + (page + 64 * 128) // 4 + row, mask=there, other=0.0)
    tl.store(scales_out + key, scale, mask=there)


@triton.jit
def scores_of(q_codes, weights, row, keys, key_scales, heads, FNUZ: tl.constexpr, ROOM: tl.constexpr):
    """float32 [BLOCK] scores of a row against ``keys`` (codes [BLOCK, 128]); the key's scale comes last."""
    head, column = tl.arange(0, ROOM), tl.arange(0, 128)
    there = head < heads
    place = (row * heads + head)[:, None] * 128 + column[None, :]
    q = values_of(tl.load(q_codes + place, mask=there[:, None], other=0), FNUZ)
    w = tl.load(weights + row * heads + head, mask=there, other=0.0)
    dots = tl.dot(q, tl.trans(values_of(keys, FNUZ)), input_precision="ieee")
    return tl.sum(tl.maximum(dots, 0.0) * w[:, None], axis=0) * key_scales


@triton.jit
def paged_scores_kernel(
    out,
    q_codes,
    weights,
    cache,
    scales,
    tables,
    context_lens,
    out_stride,
    page_bytes,
    table_stride,
    next_n,
    heads,
    FNUZ: tl.constexpr,
    TILED: tl.constexpr,
    ROOM: tl.constexpr,
):
    """One row and one page of its sequence; nothing is read or stored where the row sees no key."""
    row, page_of_sequence = tl.program_id(0).to(tl.int64), tl.program_id(1)
    sequence = row // next_n
    end = tl.load(context_lens + sequence) - (next_n - 1 - row % next_n)
    if page_of_sequence * 64 < end:
        slot, column = tl.arange(0, 64), tl.arange(0, 128)
        seen = page_of_sequence * 64 + slot < end
        page = tl.load(tables + sequence * table_stride + page_of_sequence).to(tl.int64) * page_bytes
        place = page + code_offsets(slot[:, None], column[None, :], TILED)
        keys = tl.load(cache + place, mask=seen[:, None], other=0)
        key_scales = tl.load(scales + (page + 64 * 128) // 4 + slot, mask=seen, other=0.0)
        score = scores_of(q_codes, weights, row, keys, key_scales, heads, FNUZ, ROOM)
        tl.store(out + row * out_stride + page_of_sequence * 64 + slot, score, mask=seen)


@triton.jit
def flat_scores_kernel(
    out, q_codes, weights, k_codes, k_scales, starts, ends, out_stride, heads,
    FNUZ: tl.constexpr, ROOM: tl.constexpr,
):  # fmt: skip
    """One row and one block of 64 keys, counted from key 0."""
    row, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    start, end = tl.load(starts + row), tl.load(ends + row)
    if (block * 64 < end) & (block * 64 + 64 > start):
        key, column = block * 64 + tl.arange(0, 64), tl.arange(0, 128)
        seen = (key >= start) & (key < end)
        place = key.to(tl.int64)[:, None] * 128 + column[None, :]
        keys = tl.load(k_codes + place, mask=seen[:, None], other=0)
        key_scales = tl.load(k_scales + key, mask=seen, other=0.0)
        score = scores_of(q_codes, weights, row, keys, key_scales, heads, FNUZ, ROOM)
        tl.store(out + row * out_stride + key, score, mask=seen)
