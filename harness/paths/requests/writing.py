"""What is asked of quantisers and writers. Planes that a request names are written in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor


@dataclass(frozen=True)
class Quantise:
    """Quantise x (bfloat16 or float32 [R, D]) to packed E2M1 uint8 [R, D/2] and E8M0 uint8 [R, D/32]."""

    written: ClassVar[tuple[str, ...]] = ()

    x: Tensor


@dataclass(frozen=True)
class WriteKeys:
    """Quantise k (bfloat16 [R, D]) and scatter to ``slots`` (int64 [R], block*64 + row, negative: skip).

    k_codes and k_scales are the planes to write in place; the value is the pair of them.
    """

    written: ClassVar[tuple[str, ...]] = ("k_codes", "k_scales")

    k: Tensor
    slots: Tensor
    k_codes: Tensor
    k_scales: Tensor


WRITTEN_TOKENS = ("q_codes", "q_scales", "weights_out", "k_codes", "k_scales")
"""Fields of `WriteTokens` that the path writes, in the order of the value."""


@dataclass(frozen=True)
class WriteTokens:
    """Normalise, rotate, quantise and scatter T tokens in one go (the fused writer, spec indexer.md 2).

    q bfloat16 [T, H, D], k bfloat16 [T, D], weights bfloat16 [T, H]; norm_weight, norm_bias float32 [D];
    cos, sin bfloat16 [P, 32]; positions int64 [T]; slots int64 [S] (block*64 + row, negative: skip), with
    S = T in all that a path must answer. ``pairing`` is neox or interleaved. ``weights_scale`` is what
    the scorer will apply; the writer must not. To write in place: q_codes uint8 [T, H, D/2], q_scales
    uint8 [T, K, 4, 16, pad4(H/16)], weights_out bfloat16 [T, H] and the planes k_codes, k_scales; the
    value is the tuple of these five. Rows without a slot leave theirs as they were unless
    ``compute_all_q_rope``. More rows than slots are refused (ValueError), or the rest is left alone; slots
    of int32 are refused (ValueError), or read as what they are.
    """

    written: ClassVar[tuple[str, ...]] = WRITTEN_TOKENS

    q: Tensor
    k: Tensor
    weights: Tensor
    norm_weight: Tensor
    norm_bias: Tensor
    cos: Tensor
    sin: Tensor
    positions: Tensor
    slots: Tensor
    epsilon: float
    weights_scale: float
    pairing: str
    compute_all_q_rope: bool
    q_codes: Tensor
    q_scales: Tensor
    weights_out: Tensor
    k_codes: Tensor
    k_scales: Tensor

    @property
    def outputs(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """What is written, in the order of the value."""
        return self.q_codes, self.q_scales, self.weights_out, self.k_codes, self.k_scales
