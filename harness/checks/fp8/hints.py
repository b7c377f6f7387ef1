"""What the first wrong FP8 score would be right for: one wrong rule at a time, tried on its one cell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from harness.checks.book import Book
from harness.fill.fill_eightbit import Filled
from harness.judge.compare import Difference
from oracles import eightbit_pages, formats
from oracles.eightbit import FORMATS

if TYPE_CHECKING:
    from harness.case.cases import Case
    from harness.checks.fp8.paged import Paged
    from harness.checks.fp8.scores import Wanted

NEAR = 2.0**-12
"""Relative distance within which a hint is given: a wrong rule is off by far more."""


def note(book: Book, made: Paged, want: Wanted, got: object, wrong: Difference) -> None:
    """Hints for a paged score."""
    if wrong.layer not in ("bits", "bound") or not isinstance(got, Tensor):
        return
    row, column = wrong.first
    first = sum(made.case.ctx[: int(made.rows.seq[row])])
    _told(book, _flaws(made.filled, row, first + column, made.case), float(got[row, column]))
    other = "flat" if made.case.tile == "tiled" else "tiled"
    page = eightbit_pages
    cache = torch.zeros(made.blocks, page.PAGE_ROWS, page.DIM + page.SCALE_BYTES, dtype=torch.uint8)
    page.write_keys(cache, made.filled.k_codes, made.filled.k_scales, made.slots, made.case.tile)
    codes, _ = page.read_slots(cache, made.slots[first + column].reshape(1), other)
    moved = _score(made.filled, row, codes[0], first + column, made.case.fmt)
    _told(book, iter([(f"the page read {other}", moved)]), float(got[row, column]))


def flat(book: Book, filled: Filled, want: Wanted, got: object, wrong: Difference, case: Case) -> None:
    """Hints for a flat score."""
    if wrong.layer in ("bits", "bound") and isinstance(got, Tensor):
        row, column = wrong.first
        _told(book, _flaws(filled, row, column, case), float(got[row, column]))


def _told(book: Book, flaws: Iterator[tuple[str, float]], got: float) -> None:
    for name, value in flaws:
        if abs(got - value) <= NEAR * abs(value):
            book.note(f"the value is right for {name}")


def _flaws(filled: Filled, row: int, key: int, case: Case) -> Iterator[tuple[str, float]]:
    codes = filled.k_codes[key]
    right = _score(filled, row, codes, key, case.fmt)
    other = "fn" if case.fmt == "fnuz" else "fnuz"
    yield (
        f"codes read as {formats.E4M3FN.name if other == 'fn' else formats.E4M3FNUZ.name}",
        _score(filled, row, codes, key, other),
    )
    yield "no ReLU", _score(filled, row, codes, key, case.fmt, relu=False)
    yield (
        "the weight scale applied twice",
        right * filled.weights_scale if filled.q is not None else float("nan"),
    )
    yield "no key scale", right / float(filled.k_scales[key])


def _score(filled: Filled, row: int, codes: Tensor, key: int, fmt: str, *, relu: bool = True) -> float:
    """One score in float64, without a rounding."""
    values = formats.decode(FORMATS[fmt], filled.q_codes[row]).double()
    dots = values @ formats.decode(FORMATS[fmt], codes).double()
    if relu:
        dots = dots.clamp(min=0)
    return float((filled.weights[row].double() * dots).sum() * float(filled.k_scales[key]))
