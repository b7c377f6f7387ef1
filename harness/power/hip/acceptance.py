"""Acceptance rules in use elsewhere, as they are put to writers and selections.

A writer's bytes are taken for the values they stand for (codes times scales), as one long row; of
selections, lists without order, only the share of common keys is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from harness.case.cases import Case
from harness.checks.fp8 import tokens
from harness.fill import pages
from harness.power.acceptance import RULES
from oracles import eightbit_pages, formats
from oracles.eightbit import FORMATS

Judged = Callable[[Case, Any, Any], bool]
OVERLAP = "cosine > 0.9999, overlap > 0.99"
"""Of this rule a selection is held to the second half."""
NAMES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("WriteTokens8", "WriteKeys8", "GatherKeys8"), tuple(n for n in RULES if n != OVERLAP)),
    **dict.fromkeys(("SelectDecode", "SelectPrefill"), (OVERLAP,)),
}
"""Request type to the rules that can be put to its answer."""


def rules(asked: str) -> dict[str, Judged]:
    """Name to (case, what came back, what must come back) -> whether the rule lets it pass."""
    if asked.startswith("Select"):
        return {OVERLAP: _overlapping}
    return {name: _valued(asked, name) for name in NAMES[asked]}


def _valued(asked: str, name: str) -> Judged:
    def judged(case: Case, got: Any, want: Any) -> bool:
        return RULES[name](_values(asked, case, got), _values(asked, case, want))

    return judged


def _values(asked: str, case: Case, value: Any) -> Tensor:
    """What an answer's codes, scales and weights stand for, float32 [1, N]."""
    if asked == "GatherKeys8":
        return _row(_decoded(case, value[0]) * value[1][:, None])
    if asked == "WriteKeys8":
        placed = pages.place(case.ctx, case.t, case.s)
        return _row(_keys(case, value, pages.slots(case.ctx, placed.tables)))
    request = tokens.build(case)
    kept = request.slots >= 0
    codes, weights, cache = value
    return _row(_decoded(case, codes[kept]), weights[kept], _keys(case, cache, request.slots[kept]))


def _keys(case: Case, cache: Tensor, slots: Tensor) -> Tensor:
    codes, scales = eightbit_pages.read_slots(cache, slots, case.tile)
    return _decoded(case, codes) * scales[:, None]


def _decoded(case: Case, codes: Tensor) -> Tensor:
    return formats.decode(FORMATS[case.fmt], codes)


def _row(*parts: Tensor) -> Tensor:
    return torch.cat([part.flatten() for part in parts])[None]


def _overlapping(case: Case, got: Tensor, want: Tensor) -> bool:
    """More than 0.99 of each row's selected keys the same."""
    for mine, right in zip(got.tolist(), want.tolist(), strict=True):
        keys = {key for key in right if key >= 0}
        if keys and len(keys & set(mine)) / len(keys) <= 0.99:
            return False
    return True
