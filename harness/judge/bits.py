"""Float32 as bit patterns: equality, distance, and the two patterns that fill a score buffer.

Bits are what is compared, so -0 is not +0; all NaNs are one value, since no specification
says which payload an operation leaves.
"""

from __future__ import annotations

import struct

import torch
from torch import Tensor

SENTINEL = 0x7FC0DEAD
"""The poison in a caller's score buffer: a NaN with a payload nobody computes."""
MINUS_INFINITY = 0xFF800000


def same(got: Tensor, want: Tensor) -> Tensor:
    """Bool, elementwise: equal bits, or both NaN. float32 in."""
    return (got.view(torch.int32) == want.view(torch.int32)) | (got.isnan() & want.isnan())


def bits_of(values: Tensor) -> Tensor:
    """Bit patterns of float32 as int64 0..2^32-1."""
    return values.contiguous().view(torch.int32).long() & 0xFFFFFFFF


def decimal(pattern: int) -> str:
    """``0x40440000 3.0625``: a float32 bit pattern in hex and in decimal."""
    value = struct.unpack("<f", struct.pack("<I", pattern))[0]
    return f"0x{pattern:08x} {value:.9g}"


def ulps(one: int, other: int) -> int | None:
    """Distance of two float32 bit patterns in steps of the format; None when either is NaN. -0 to +0 is 1."""
    if any(pattern & 0x7FFFFFFF > 0x7F800000 for pattern in (one, other)):
        return None
    return abs(_rank(one) - _rank(other))


def _rank(pattern: int) -> int:
    """Position on the line of all floats, -0 just below +0."""
    return pattern if pattern < 1 << 31 else (1 << 31) - 1 - pattern
