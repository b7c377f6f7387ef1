"""A captured selection against the scores it was made from, row by row, as a set.

Any key of a tie at the cut is right, and where a long row holds a NaN only the order of its numbers
is specified; -1 is padding, anywhere in the row.
"""

from __future__ import annotations

import torch
from torch import Tensor

from harness.checks.book import Book
from harness.fill.inputs import Inputs
from harness.judge.bits import bits_of, decimal
from harness.judge.compare import Difference
from harness.judge.verdict import Grade, Verdict
from oracles import topk

REASONS = {
    "doubled": "keys-selected-twice",
    "foreign": "keys-selected-wrongly",
    "missing": "keys-not-selected",
    "open_places": "tie-class-miscounted",
}


def judge(book: Book, inputs: Inputs, scores: Tensor, ids: Tensor, k: int, over: str) -> Verdict | None:
    """None when ``ids`` int32 [T, k] is a right selection from ``scores`` float32 [T, W]."""
    windows = inputs.windows
    open_rows = topk.unordered(scores, windows, k)
    numbers = scores.masked_fill(open_rows.unsqueeze(1) & scores.isnan(), -torch.inf)
    want = topk.topk(numbers, windows, k, stable=False)
    found, step = topk.check_selection(ids, want), f"about the captured topk_ids, over the {over}"
    book.total += ids.numel()
    for name, reason in REASONS.items():
        bad = ~open_rows & (getattr(found, name) != 0)
        if bool(bad.any()):
            row = int(bad.nonzero()[0])
            count = int(getattr(found, name)[bad].abs().sum())
            key = _key(ids[row].long(), want, row, name)
            return _differ(book, inputs, scores, (reason, row, key, count, int(bad.sum())), want, step)
    bad = open_rows & ~topk.numbers_in_order(ids, scores, windows, k)
    if bool(bad.any()):
        rows = int(bad.sum())
        told = ("numbers-out-of-order", int(bad.nonzero()[0]), None, rows, rows)
        return _differ(book, inputs, scores, told, want, step)
    return None


def _key(ids: Tensor, want: topk.TopK, row: int, name: str) -> int | None:
    """A key that shows what is wrong with ``row``."""
    width = want.must.shape[1]
    if name == "doubled":
        values, counts = ids[(ids >= 0) & (ids < width)].unique(return_counts=True)
        return int(values[counts > 1][0])
    chosen = torch.zeros(width, dtype=torch.bool)
    chosen[ids[(ids >= 0) & (ids < width)]] = True
    if name == "foreign":
        beyond = ids[ids >= width]
        if len(beyond):
            return int(beyond[0])
        return int((chosen & ~want.must[row] & ~want.may[row]).nonzero()[0])
    if name == "missing":
        return int((want.must[row] & ~chosen).nonzero()[0])
    return None


def _differ(
    book: Book,
    inputs: Inputs,
    scores: Tensor,
    told: tuple[str, int, int | None, int, int],
    want: topk.TopK,
    step: str,
) -> Verdict:
    """The verdict: ``told`` is reason, row, key, wrong keys, wrong rows."""
    reason, row, key, count, rows = told
    inside = key is not None and key < scores.shape[1]
    where: dict[str, int | str] = {"row": row, "sequence": int(inputs.seq[row])}
    where["window"] = f"{int(inputs.start[row])}:{int(inputs.end[row])}"
    got = ""
    if key is not None:
        where["key"] = key
    if key is not None and inside:
        spot = inputs.grid.where(row, key)
        where |= {name: spot[name] for name in ("page", "block", "slot") if name in spot}
        got = f"score {decimal(int(bits_of(scores[row, key : key + 1])))}"
    where["rows"] = rows
    cut = f"cut {decimal(int(bits_of(want.cut[row : row + 1])))}"
    wrong = Difference(
        "bits", reason, torch.empty(0, 2), got, cut if got else "", count=count, total=scores.shape[0]
    )
    return book.differ(wrong, Grade.EXACT, where=where, step=step)
