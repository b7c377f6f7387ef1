"""Acceptance rules in use elsewhere, to be held beside bit equality on the same faults and the same data.

Each takes what came back and what must come back, float32 [T, W] with minus infinity outside the windows,
and says whether it would let it pass. They are here to be measured; no verdict of this project uses them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

Rule = Callable[[Tensor, Tensor], bool]
TOPK = 2048
"""Keys that a row selects in production; of a shorter row half of them, so that the selection selects."""


def outside_agrees(got: Tensor, want: Tensor) -> bool:
    """Minus infinity in the same cells."""
    return bool(((got == -torch.inf) == (want == -torch.inf)).all())


def cosine(got: Tensor, want: Tensor) -> float:
    """Cosine of everything inside, as float64; NaN where it is undefined."""
    inside = want != -torch.inf
    a, b = got[inside].double(), want[inside].double()
    return float((a @ b) / (a.norm() * b.norm()))


def aiter_cosine(got: Tensor, want: Tensor) -> bool:
    """Cosine above 0.99 and minus infinity outside (aiter, op_tests/test_flydsl_pa_mqa_logits_fp4.py)."""
    return outside_agrees(got, want) and cosine(got, want) > 0.99


def overlap(got: Tensor, want: Tensor) -> float:
    """Smallest share, over rows that see two keys or more, of selected keys that both select."""
    least = 1.0
    for row, right in zip(got, want, strict=True):
        seen = int((right != -torch.inf).sum())
        k = min(TOPK, seen // 2)
        if k:
            chosen = set(row.nan_to_num(nan=-torch.inf).topk(k).indices.tolist())
            least = min(least, len(chosen & set(right.topk(k).indices.tolist())) / k)
    return least


def cosine_and_selection(got: Tensor, want: Tensor) -> bool:
    """Cosine above 0.9999 and more than 0.99 of the selected keys the same."""
    return outside_agrees(got, want) and cosine(got, want) > 0.9999 and overlap(got, want) > 0.99


def relative_difference(got: Tensor, want: Tensor) -> bool:
    """1 - 2ab / (a^2 + b^2) below 5e-6 and minus infinity outside (DeepGEMM's ``calc_diff``)."""
    inside = want != -torch.inf
    a, b = got[inside].double(), want[inside].double()
    return outside_agrees(got, want) and float(1 - 2 * (a @ b) / (a @ a + b @ b)) < 5e-6


def all_close(got: Tensor, want: Tensor) -> bool:
    """torch.allclose with rtol = atol = 5e-2."""
    return torch.allclose(got, want, rtol=5e-2, atol=5e-2)


RULES: Mapping[str, Rule] = {
    "cosine > 0.99": aiter_cosine,
    "cosine > 0.9999, overlap > 0.99": cosine_and_selection,
    "relative difference < 5e-6": relative_difference,
    "allclose 5e-2": all_close,
}
