"""Which keys a row selects, and what is left open when scores tie at the cut (spec indexer.md 9).

Contract: the k largest visible scores; what lies above the cut must be selected, what equals
the cut may be, as far as places are left. A row that sees at most k keys selects them all, whatever
their scores are (the bypass below ``index_topk`` keys). Selections are compared as sets, -1 being
padding anywhere. It fails silently when a comparison by value accepts one key twice and another never
on a plateau of equal scores.

Whether -0 ties with 0 is a convention (`ZEROS`) that the specification does not name: comparisons, and the
radix sorts of CUB and hipCUB, take them for equal; a selection by the bits of a number ranks -0 below 0,
``torch.topk`` on a GPU and aiter's among them. Scores are held against one of them, as a path declares.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from oracles.windows import Windows, visible

PAD = -1
ZEROS = ("equal", "ordered")
"""equal: -0 and 0 tie; ordered: -0 is below 0, as in IEEE 754's totalOrder."""
BELOW_ZERO = -5e-324
"""Stands for -0 where that is a number of its own: above every negative float32."""


@dataclass(frozen=True)
class TopK:
    """One right selection, and what every right selection has in common.

    ids int64 [T, k], scores descending, ties by position, `PAD` after the last; cut float32 [T], the
    smallest selected score (NaN for a row that sees nothing); must and may bool [T, W]: what every
    selection holds, and the tie class of which ``places`` int64 [T] are to be taken.
    """

    ids: Tensor
    cut: Tensor
    must: Tensor
    may: Tensor
    places: Tensor


def topk(scores: Tensor, windows: Windows, k: int, stable: bool) -> TopK:
    """Select from ``scores`` float32 [T, W] inside ``windows``; scores outside are never looked at.

    ``stable``: ties go to the smallest position, so nothing is left open and ``may`` is empty.
    -0 equals 0 (else see `ranked`). Raises ValueError for a NaN inside a window of more than k keys, where no
    order is specified (see `numbers_in_order`), or k < 1. In shorter windows NaNs stand before all numbers.
    """
    if k < 1:
        raise ValueError(f"k is {k}, allowed are 1 and above")
    seen = visible(windows, scores.shape[1])
    whole = seen.sum(1) <= k
    if bool(unordered(scores, windows, k).any()):
        raise ValueError(
            "scores has a NaN inside a window of more than k keys, allowed are numbers and infinities"
        )
    order = _order(scores, seen)
    count = seen.sum(1).clamp(max=k)  # selected keys of each row
    ids = _padded(order, count, k)
    cut = _cut(scores, order, count)
    above = seen & (scores > cut.unsqueeze(1))
    level = seen & (scores == cut.unsqueeze(1))
    if stable:
        must = torch.zeros_like(seen).scatter(1, order, _rank(order) < count.unsqueeze(1))
        return TopK(ids, cut, must, torch.zeros_like(seen), torch.zeros_like(count))
    places = count - above.sum(1)
    settled = whole | (level.sum(1) <= places)  # the whole tie class is taken: nothing is open
    must = above | (level & settled.unsqueeze(1)) | (seen & whole.unsqueeze(1))
    return TopK(ids, cut, must, level & ~settled.unsqueeze(1), places.masked_fill(settled, 0))


def ranked(scores: Tensor, zeros: str) -> Tensor:
    """``scores`` float32 [...] as numbers that compare as ``zeros`` has it, float64 if it is ordered.

    Raises ValueError on no member of `ZEROS`.
    """
    if zeros not in ZEROS:
        raise ValueError(f"zeros is {zeros!r}, allowed are {', '.join(ZEROS)}")
    if zeros == "equal":
        return scores
    return scores.double().masked_fill((scores == 0) & scores.signbit(), BELOW_ZERO)


def unordered(scores: Tensor, windows: Windows, k: int) -> Tensor:
    """Rows bool [T] that see more than ``k`` keys, a NaN among them: which keys they select is left open."""
    seen = visible(windows, scores.shape[1])
    return (seen.sum(1) > k) & (scores.isnan() & seen).any(1)


def _order(scores: Tensor, seen: Tensor) -> Tensor:
    """Columns int64 [T, W], visible ones first, scores descending, ties by position."""
    by_score = torch.sort(scores.masked_fill(~seen, -torch.inf), dim=1, descending=True, stable=True).indices
    hidden = (~seen).gather(1, by_score)  # a visible score may be -inf itself
    last = torch.sort(hidden.to(torch.uint8), dim=1, stable=True).indices
    return by_score.gather(1, last)


def _rank(order: Tensor) -> Tensor:
    return torch.arange(order.shape[1], device=order.device).expand_as(order)


def _padded(order: Tensor, count: Tensor, k: int) -> Tensor:
    taken = order[:, :k].masked_fill(_rank(order)[:, :k] >= count.unsqueeze(1), PAD)
    return torch.nn.functional.pad(taken, (0, k - taken.shape[1]), value=PAD)


def _cut(scores: Tensor, order: Tensor, count: Tensor) -> Tensor:
    if not scores.shape[1]:
        return scores.new_full((scores.shape[0],), torch.nan)
    place = order.gather(1, (count - 1).clamp(min=0).unsqueeze(1))
    return scores.gather(1, place).squeeze(1).masked_fill(count == 0, torch.nan)


@dataclass(frozen=True)
class Selection:
    """How a selection compares, int64 [T] each.

    Keys missing, keys that may not be there, keys taken twice, and how many of the tie class it
    took beyond (positive) or short of (negative) the open places.
    """

    missing: Tensor
    foreign: Tensor
    doubled: Tensor
    open_places: Tensor

    @property
    def ok(self) -> Tensor:
        """Rows bool [T] whose selection is one of the right ones."""
        return (self.missing == 0) & (self.foreign == 0) & (self.doubled == 0) & (self.open_places == 0)


def check_selection(ids: Tensor, wanted: TopK) -> Selection:
    """Compare ``ids`` int [T, any] with what ``wanted`` allows; negative ids are padding, anywhere."""
    width = wanted.must.shape[1]
    ids = ids.long()
    inside = (ids >= 0) & (ids < width)
    times = torch.zeros(ids.shape[0], width + 1, dtype=torch.int64, device=ids.device)
    times.scatter_add_(1, torch.where(inside, ids, width), torch.ones_like(ids))
    times, chosen = times[:, :width], times[:, :width] > 0
    beyond = (ids >= width).sum(1)
    return Selection(
        missing=(wanted.must & ~chosen).sum(1),
        foreign=(chosen & ~wanted.must & ~wanted.may).sum(1) + beyond,
        doubled=(times - 1).clamp(min=0).sum(1),
        open_places=(chosen & wanted.may).sum(1) - wanted.places,
    )


def numbers_in_order(ids: Tensor, scores: Tensor, windows: Windows, k: int) -> Tensor:
    """Rows bool [T] whose ``ids`` int [T, any] are right as far as anything is specified when NaNs are seen.

    Each key at most once and visible, as many as there are to take, and no number left out that is larger
    than a number taken; whether a NaN is taken is left open.
    """
    width = scores.shape[1]
    seen, ids = visible(windows, width), ids.long()
    inside = (ids >= 0) & (ids < width)
    times = torch.zeros(ids.shape[0], width + 1, dtype=torch.int64, device=ids.device)
    times.scatter_add_(1, torch.where(inside, ids, width), torch.ones_like(ids))
    times, chosen = times[:, :width], times[:, :width] > 0
    number = seen & ~scores.isnan()
    lowest = scores.masked_fill(~(number & chosen), torch.inf).amin(1)
    highest = scores.masked_fill(~(number & ~chosen), -torch.inf).amax(1)
    right = (times <= 1).all(1) & ~(chosen & ~seen).any(1) & ~(ids >= width).any(1)
    return right & (chosen.sum(1) == seen.sum(1).clamp(max=k)) & (lowest >= highest)
