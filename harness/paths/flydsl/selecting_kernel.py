"""The top-k of a row as a Triton kernel: one program a row, from the words of spec indexer.md 9.

A score becomes an integer of the same order, and the k-th largest is found a byte at a time: of the keys that
agree with it so far, a histogram of the next byte says in which bin it lies. Then one pass writes the keys
above it and as many of those equal to it as there are places. Stable: in order of position, the first of the
equal ones. Else keys above from the front, equal ones from the back, the last ones first. Import only after
the environment is prepared: without a GPU the kernel needs ``TRITON_INTERPRET=1`` at decoration.
"""

# What a kernel is given has no type but Triton's.
# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

import triton
import triton.language as tl

LOWEST = tl.constexpr(-(1 << 31))
BINS = tl.constexpr(256)


@triton.jit
def keys_of(score):
    """int32 whose order as unsigned numbers is that of the scores.

    Zeros of both signs are one key, NaNs stand at the ends by their signs.
    """
    bits = score.to(tl.int32, bitcast=True)
    bits = tl.where(bits == LOWEST, 0, bits)
    return tl.where(bits < 0, ~bits, bits ^ LOWEST)


@triton.jit
def select_kernel(
    logits,
    starts,
    ends,
    ids,
    stride,
    k,
    STABLE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One row: its ``k`` ids of the window starts[row] to ends[row]."""
    row = tl.program_id(0).to(tl.int64)
    first = tl.load(starts + row)
    length = tl.maximum(tl.load(ends + row) - first, 0)
    scores, out = logits + row * stride, ids + row * k
    if length <= k:
        for base in range(0, k, BLOCK):
            place = base + tl.arange(0, BLOCK)
            tl.store(out + place, tl.where(place < length, first + place, -1), mask=place < k)
    else:
        # Keys still to be found below the bins above, and what is settled of the k-th largest.
        wanted, level, equal = k, 0, 0
        digit = tl.arange(0, BINS)
        for turn in tl.static_range(4):
            shift: tl.constexpr = 24 - 8 * turn
            counts = tl.zeros([BINS], tl.int32)
            for base in range(0, length, BLOCK):
                place = base + tl.arange(0, BLOCK)
                there = place < length
                key = keys_of(tl.load(scores + first + place, mask=there, other=0.0))
                if turn > 0:
                    there = there & ((key >> (shift + 8)) == level)
                counts += tl.histogram((key >> shift) & 255, BINS, mask=there)
            reach = tl.cumsum(counts, axis=0, reverse=True)
            found = tl.sum((reach >= wanted).to(tl.int32), axis=0) - 1
            wanted -= tl.sum(tl.where(digit > found, counts, 0), axis=0)
            equal = tl.sum(tl.where(digit == found, counts, 0), axis=0)
            # The top byte carries the sign, as an arithmetic shift of a key does.
            level = tl.where(found >= 128, found - 256, found) if turn == 0 else (level << 8) | found
        # Of the equal keys the first ``wanted`` are taken, or the last.
        skipped = 0 if STABLE else equal - wanted
        seen_over, seen_equal = 0, 0
        for base in range(0, length, BLOCK):
            place = base + tl.arange(0, BLOCK)
            there = place < length
            key = keys_of(tl.load(scores + first + place, mask=there, other=0.0))
            over, same = there & ((key ^ LOWEST) > (level ^ LOWEST)), there & (key == level)
            overs = seen_over + tl.cumsum(over.to(tl.int32), axis=0)
            equals = seen_equal + tl.cumsum(same.to(tl.int32), axis=0) - skipped
            taken = over | (same & (equals > 0) & (equals <= wanted))
            rising = overs + tl.minimum(equals, wanted) - 1
            slot = rising if STABLE else tl.where(over, overs - 1, k - equals)
            tl.store(out + slot, first + place, mask=taken)
            seen_over += tl.sum(over.to(tl.int32), axis=0)
            seen_equal += tl.sum(same.to(tl.int32), axis=0)
