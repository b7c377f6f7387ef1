"""A key that every right selection holds, at the newest position of each row.

A rank that counts back on its local length drops the newest keys of the draft rows, which a fill
almost never selects; so these keys are made to score highest: every element carries the sign
of the row's positively weighted queries, at the largest magnitude.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from harness.fill.fills import Filled
from harness.fill.inputs import Inputs
from oracles import formats

LARGEST, SIGN = 7, 8
"""Codes of E2M1: magnitude 6, and what is added for a minus."""


def newest(whole: Inputs) -> Tensor:
    """Newest position each row sees, int64 [T]; -1 for a row that sees nothing."""
    return whole.end - 1


def plant(whole: Inputs) -> Filled:
    """The operands with the needles of all rows in them, their scales the largest in use."""
    filled = whole.filled
    lengths = torch.tensor(whole.case.ctx)
    first = (lengths.cumsum(0) - lengths)[whole.seq]
    rows = (whole.end > 0).nonzero().flatten()
    if not len(rows):
        return filled
    keys = (first + newest(whole))[rows]
    codes, scales = filled.k_codes.clone(), filled.k_scales.clone()
    wanted = _towards(filled, rows)
    codes[keys] = torch.where(wanted < 0, LARGEST + SIGN, LARGEST).to(torch.uint8)
    scales[keys] = filled.k_scales.max()
    return replace(filled, k_codes=codes, k_scales=scales)


def _towards(filled: Filled, rows: Tensor) -> Tensor:
    """float64 [R, D]: the sum of the rows' queries over heads of positive weight."""
    scales = formats.decode_e8m0(filled.q_scales[rows]).double()
    queries = formats.decode(formats.E2M1, filled.q_codes[rows]).double() * scales.repeat_interleave(
        32, dim=2
    )
    weights = filled.weights[rows].double().clamp(min=0)
    return (queries * weights.unsqueeze(2)).sum(1)
