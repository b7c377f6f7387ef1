"""What is true of top-k selection, of both the vectorised functions and their scalar twins."""

from __future__ import annotations

import math
import random

import pytest
import torch
from torch import Tensor

from oracles import topk as vectorised
from oracles.scalar import topk as scalar
from oracles.topk import TopK
from oracles.windows import Windows


def as_windows(spans: list[tuple[int, int]]) -> Windows:
    start, end = torch.tensor(spans).T
    return Windows(torch.zeros_like(start), start, end)


def topk_both(scores: Tensor, spans: list[tuple[int, int]], k: int, stable: bool) -> TopK:
    fast = vectorised.topk(scores, as_windows(spans), k, stable)
    for row, (start, end) in enumerate(spans):
        ids, cut, must, may, places = scalar.topk(scores[row].tolist(), start, end, k, stable)
        assert fast.ids[row].tolist() == ids
        assert math.isnan(fast.cut[row]) if cut is None else fast.cut[row].item() == cut
        assert set(fast.must[row].nonzero().flatten().tolist()) == must
        assert set(fast.may[row].nonzero().flatten().tolist()) == may
        assert fast.places[row].item() == places
    return fast


def check_both(ids: list[list[int]], wanted: TopK) -> list[bool]:
    fast = vectorised.check_selection(torch.tensor(ids), wanted).ok.tolist()
    for row, chosen in enumerate(ids):
        must, may = (set(mask[row].nonzero().flatten().tolist()) for mask in (wanted.must, wanted.may))
        assert fast[row] == scalar.selection_ok(chosen, must, may, int(wanted.places[row]))
    return fast


@pytest.mark.parametrize("stable", (True, False))
@pytest.mark.parametrize("seed", range(20))
def test_selection_on_plateaus(seed: int, stable: bool) -> None:
    """Few distinct scores of both signs, zeros of both signs, infinities, ragged windows, poison outside."""
    chance = random.Random(seed)
    levels = torch.tensor([0.0, -0.0, 1.0, 1.0, 2.5, -3.0, math.inf, -math.inf])
    scores = levels[torch.randint(0, 8, (6, 30), generator=torch.Generator().manual_seed(seed))]
    spans = []
    for row in range(6):
        start = chance.randrange(20)
        spans.append((start, start + chance.randrange(11)))
        scores[row, : spans[-1][0]] = math.nan
        scores[row, spans[-1][1] :] = math.inf if seed % 2 else math.nan
    found = topk_both(scores, spans, chance.randrange(1, 14), stable)
    assert all(check_both(found.ids.tolist(), found))


@pytest.mark.parametrize("length", (0, 1, 2047, 2048, 2049))
def test_lengths_about_k(length: int) -> None:
    """Field report B35: up to k keys the answer is all of them, then -1."""
    scores = torch.randn(1, 2304, generator=torch.Generator().manual_seed(1))
    found = topk_both(scores, [(0, length)], 2048, stable=True)
    chosen = found.ids[found.ids >= 0]
    assert chosen.numel() == min(length, 2048) and (found.ids == -1).sum() == 2048 - chosen.numel()
    if length <= 2048:
        assert sorted(chosen.tolist()) == list(range(length))


def test_a_map_narrower_than_k_is_padded() -> None:
    assert topk_both(torch.tensor([[3.0, 5.0]]), [(0, 2)], 4, stable=False).ids.tolist() == [[1, 0, -1, -1]]


def test_stable_ties_go_to_the_smallest_position() -> None:
    found = topk_both(torch.tensor([[1.0, 2.0, 1.0, 1.0]]), [(0, 4)], 2, stable=True)
    assert found.ids.tolist() == [[1, 0]] and not found.may.any()


def test_the_tie_class_is_named_only_when_it_is_open() -> None:
    scores = torch.tensor([[1.0, 2.0, 1.0, 0.0]])
    open_cut = topk_both(scores, [(0, 4)], 2, stable=False)
    assert (open_cut.must.tolist(), open_cut.may.tolist()) == (
        [[False, True, False, False]],
        [[True, False, True, False]],
    )
    closed = topk_both(scores, [(0, 4)], 3, stable=False)
    assert closed.must.tolist() == [[True, True, True, False]] and not closed.may.any()


@pytest.mark.parametrize(
    ("ids", "right"),
    [
        ([1, 0, -1], True),
        ([-1, 2, 1], True),  # padding may be anywhere
        ([1, -7, 2], True),
        ([0, 2, -1], False),  # key 1 is missing
        ([1, 3, -1], False),  # key 3 lies below the cut
        ([1, 1, 0], False),  # one key twice
        ([1, 0, 2], False),  # one of the tie class too many
        ([1, -1, -1], False),  # one too few
        ([1, 0, 9], False),  # outside the map
        ([1, 4, -1], False),  # outside the window
    ],
    ids=str,
)
def test_selections_are_compared_as_sets(ids: list[int], right: bool) -> None:
    """Field report B64: comparing sorted values would accept one key twice and another never."""
    scores = torch.tensor([[1.0, 2.0, 1.0, 0.0, 9.0]])
    found = topk_both(scores, [(0, 4)], 2, stable=False)
    if max(ids) < 5:
        assert check_both([ids], found) == [right]
    assert vectorised.check_selection(torch.tensor([ids]), found).ok.tolist() == [right]


def test_nan_and_bad_k_are_refused() -> None:
    scores = torch.tensor([[1.0, math.nan]])
    with pytest.raises(ValueError, match="scores has a NaN inside a window"):
        vectorised.topk(scores, as_windows([(0, 2)]), 1, True)
    with pytest.raises(ValueError, match="k is 0, allowed are 1 and above"):
        vectorised.topk(scores, as_windows([(0, 1)]), 0, True)


@pytest.mark.parametrize("stable", (True, False))
def test_up_to_k_keys_are_selected_whatever_their_scores(stable: bool) -> None:
    """The bypass: NaNs in a window of at most k keys are no matter, and stand first."""
    scores = torch.tensor([[1.0, math.nan, -math.inf, math.nan]])
    found = topk_both(scores, [(0, 3)], 3, stable)
    assert found.ids.tolist() == [[1, 0, 2]] and found.must.tolist() == [[True, True, True, False]]


@pytest.mark.parametrize(
    ("ids", "right"),
    [
        ([1, 3], True),  # one NaN, the largest number
        ([1, 4], True),  # both NaNs
        ([3, 0], True),  # no NaN
        ([1, 0], False),  # a NaN and not the largest number
        ([3, 2], False),
        ([3, 3], False),
        ([3, -1], False),
        ([3, 5], False),  # outside the window
    ],
    ids=str,
)
def test_numbers_keep_their_order_among_nans(ids: list[int], right: bool) -> None:
    scores, spans = torch.tensor([[1.0, math.nan, 0.0, 2.0, math.nan, 9.0]]), [(0, 5)]
    fast = vectorised.numbers_in_order(torch.tensor([ids]), scores, as_windows(spans), 2)
    assert fast.tolist() == [right] == [scalar.numbers_in_order(ids, scores[0].tolist(), 0, 5, 2)]
    assert vectorised.unordered(scores, as_windows(spans), 2).tolist() == [True]
    assert vectorised.unordered(scores, as_windows(spans), 5).tolist() == [False]


@pytest.mark.parametrize(
    ("zeros", "stable", "must", "may"),
    [
        ("equal", True, {0, 1}, set()),
        ("equal", False, set(), {0, 1, 2, 3}),
        ("ordered", True, {1, 3}, set()),
        ("ordered", False, {1, 3}, set()),
    ],
)
def test_zeros_tie_or_not_as_is_declared(zeros: str, stable: bool, must: set[int], may: set[int]) -> None:
    """Two of -0, +0, -0, +0: the first two or any two where they tie, the positive ones where they do not."""
    scores = torch.tensor([[-0.0, 0.0, -0.0, 0.0, -1e-45]])
    found = vectorised.topk(vectorised.ranked(scores, zeros), as_windows([(0, 5)]), 2, stable)
    assert set(found.must[0].nonzero().flatten().tolist()) == must
    assert set(found.may[0].nonzero().flatten().tolist()) == may


def test_the_order_of_zeros_is_that_of_the_bits() -> None:
    """Ordered, -0 lies between the largest negative number and +0, and nothing else moves."""
    bits = torch.randint(-(2**31), 2**31, (4000,), generator=torch.Generator().manual_seed(1))
    special = torch.tensor([0, -(2**31), 1, 1 - 2**31, 0x7F800000, 0x7F800000 - 2**31])
    scores = torch.cat([special, bits]).to(torch.int32).view(torch.float32)
    scores = scores[~scores.isnan()]
    raw = scores.view(torch.int32).long()
    by_bits = torch.where(raw < 0, -(raw & 0x7FFFFFFF) - 1, raw)
    ranked = vectorised.ranked(scores, "ordered")
    assert torch.equal(ranked.sort(stable=True).indices, by_bits.sort(stable=True).indices)
    assert torch.equal(vectorised.ranked(scores, "equal"), scores)
    with pytest.raises(ValueError, match="zeros is 'signed', allowed are equal, ordered"):
        vectorised.ranked(scores, "signed")
