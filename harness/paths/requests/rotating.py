"""What is asked of DeepSeek-V4's rotate-and-quantise kernels (arithmetic in ``oracles.rotate``).

Buffers are written in place: codes packed E2M1 (``to`` fp4) or E4M3FN (fp8), scales one a group of ``group``
columns. ``cos`` and ``sin`` bfloat16 [P, R/2] turn the last R columns; None: no RoPE.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

ROTATED = ("codes", "scales")
"""Fields that the path writes, in the order of the value."""


@dataclass(frozen=True)
class RotateQueries:
    """Turn x bfloat16 [T, H, D] and quantise it; the value is (codes, scales).

    ``codes`` uint8 [T, H, D/2] (fp4) or [T, H, D] (fp8); ``scales`` uint8 [T, G/4, 4, 16, pad4(H/16)] if
    ``shuffled``, else [T * H, G], float32 for fp8. Rows of ``x`` may lie apart. positions int64 [T].
    """

    written: ClassVar[tuple[str, ...]] = ROTATED

    x: Tensor
    cos: Tensor | None
    sin: Tensor | None
    positions: Tensor
    hadamard: bool
    to: str
    group: int
    shuffled: bool
    codes: Tensor
    scales: Tensor

    @property
    def outputs(self) -> tuple[Tensor, Tensor]:
        return self.codes, self.scales


@dataclass(frozen=True)
class RotateKeys:
    """RMSNorm, turn and quantise to FP4 head 0 of x bfloat16 [T, H, D], scattered to ``slots`` int64 [T].

    ``shuffled``: planes uint8 [blocks, K, 4, page, 16] and [blocks, K, 4, page] (bent rows,
    ``oracles.layout``), else [slots, D/2] and [slots, G]. A negative slot is skipped. norm_weight bfloat16
    [D]. The value is (codes, scales).
    """

    written: ClassVar[tuple[str, ...]] = ROTATED

    x: Tensor
    norm_weight: Tensor
    epsilon: float
    cos: Tensor
    sin: Tensor
    positions: Tensor
    slots: Tensor
    hadamard: bool
    page: int
    group: int
    shuffled: bool
    codes: Tensor
    scales: Tensor

    @property
    def outputs(self) -> tuple[Tensor, Tensor]:
        return self.codes, self.scales
