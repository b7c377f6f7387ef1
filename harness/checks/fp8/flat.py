"""Kind prefill of suite fp8: ragged rows over keys that lie one after the other, windows from ks to ke.

Asked twice: with ``clean``, where cells outside must be minus infinity, and without, where only the
windows count. Keys that no row sees hold NaN scales.
"""

from __future__ import annotations

import torch
from torch import Tensor

from harness.case.cases import Case
from harness.checks.book import Book
from harness.checks.fp8 import hints as fp8_hints
from harness.checks.fp8 import scores as fp8_scores
from harness.checks.fp8 import stages as fp8_stages
from harness.fill import fill_eightbit
from harness.fill.fill_eightbit import Filled, Shape
from harness.judge.bits import MINUS_INFINITY
from harness.judge.verdict import Verdict
from harness.paths.base import Path
from harness.paths.requests.eightbit import FlatScores8
from oracles.windows import Windows

HUGE = 2.0**120


def check(case: Case, path: Path) -> Verdict:
    """Compare the query quantiser and the flat scorer with the oracle."""
    book = Book(case, path)
    seq, start, end = torch.tensor(case.w, dtype=torch.int64).reshape(-1, 3).unbind(1)
    rows = Windows(seq, start, end)
    shape = Shape(case.rows, case.h, case.ctx, case.fmt, bool(case.ue), case.s)
    filled = fill_eightbit.fill(case.f, shape)
    wrong = fp8_stages.queries(book, shape, filled)
    if wrong is not None:
        return wrong
    seen = fp8_scores.seen_keys(shape, rows)
    flat, tables = _flattened(rows, shape)
    answers = [(clean, book.ask(request(filled, flat, seen, case, clean=clean))) for clean in (True, False)]
    whole = Shape(case.rows, case.h, (shape.keys,), case.fmt, bool(case.ue), case.s)
    everyone = Windows(torch.zeros_like(seq), flat.start, flat.end)
    want = fp8_scores.wanted(whole, filled, everyone, tables, shape.keys, path)
    for clean, got in answers:
        step = "for clean scores" if clean else "for scores in a buffer that is not cleaned"
        difference = want.compare(got, MINUS_INFINITY if clean else None)
        if difference is not None:
            fp8_hints.flat(book, filled, want, got, difference, case)
            return book.differ_on(difference, want.grade, want.grid, step=step)
        difference = fp8_scores.same_bits(got, answers[0][1], want)
        if difference is not None:
            return book.differ_on(difference, want.grade, want.grid, step=f"{step}, against clean ones")
        book.total += int(want.inside.sum())
    return fp8_scores.doubted(book, want, filled, seen)


def _flattened(rows: Windows, shape: Shape) -> tuple[Windows, Tensor]:
    """The windows in positions of the flat keys, and a table under which a page is itself."""
    first = (torch.tensor([0, *shape.lengths]).cumsum(0))[rows.seq]
    flat = Windows(rows.seq, rows.start + first, rows.end + first)
    return flat, torch.arange(-(-shape.keys // 64)).unsqueeze(0)


def request(filled: Filled, flat: Windows, seen: Tensor, case: Case, *, clean: bool) -> FlatScores8:
    """The request; rows without a key and keys without a row are poison."""
    q_codes, weights = filled.q_codes.clone(), filled.weights.clone()
    k_codes, k_scales = filled.k_codes.clone(), filled.k_scales.clone()
    idle = flat.end <= flat.start
    q_codes[idle], weights[idle] = fp8_stages.POISON, HUGE
    k_codes[~seen], k_scales[~seen] = fp8_stages.POISON, torch.nan
    starts, ends = flat.start.to(torch.int32), flat.end.to(torch.int32)
    return FlatScores8(q_codes, weights, k_codes, k_scales, starts, ends, case.fmt, clean)
