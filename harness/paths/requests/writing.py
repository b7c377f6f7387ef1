"""What is asked of quantisers and writers. Planes that a request names are written in place."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Quantise:
    """Quantise x (bfloat16 or float32 [R, D]) to packed E2M1 uint8 [R, D/2] and E8M0 uint8 [R, D/32]."""

    x: Tensor


@dataclass(frozen=True)
class WriteKeys:
    """Quantise k (bfloat16 [R, D]) and scatter to ``slots`` (int64 [R], block*64 + row, negative: skip).

    k_codes and k_scales are the planes to write in place; the value is the pair of them.
    """

    k: Tensor
    slots: Tensor
    k_codes: Tensor
    k_scales: Tensor
