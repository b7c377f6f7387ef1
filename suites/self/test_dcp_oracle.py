"""What is true of decode context parallelism, of both the vectorised functions and their scalar twins."""

from __future__ import annotations

import random

import pytest
import torch

from oracles import dcp as vectorised
from oracles import topk
from oracles.dcp import Sharding
from oracles.scalar import dcp as scalar
from oracles.windows import Windows

WORLDS = (1, 2, 3, 4, 8)
INTERLEAVES = (1, 16, 64)
LAST = 300
GRID = [(world, interleave) for world in WORLDS for interleave in INTERLEAVES]


@pytest.mark.parametrize(("world", "interleave"), GRID)
def test_positions_are_dealt_in_turn(world: int, interleave: int) -> None:
    """Owner and local index name the place of every position in its owner's hand, and come back from it."""
    sharding, length = Sharding(world, interleave), 3 * world * interleave + 7
    position = torch.arange(length)
    owners = vectorised.owner(sharding, position)
    locals_ = vectorised.local_index(sharding, position)
    for rank, hand in enumerate(scalar.deal(world, interleave, length)):
        held = position[owners == rank]
        assert held.tolist() == hand == vectorised.owned(sharding, rank, length).tolist()
        assert locals_[held].tolist() == list(range(len(hand)))
        assert torch.equal(vectorised.global_position(sharding, rank, locals_[held]), held)


@pytest.mark.parametrize(("world", "interleave"), GRID)
def test_local_windows_make_up_the_global_window(world: int, interleave: int) -> None:
    """For every context and draft row the ranks' windows are disjoint and their union is the window."""
    sharding = Sharding(world, interleave)
    lengths = torch.arange(LAST + 1)
    column = torch.arange(LAST)
    times = torch.zeros(LAST + 1, LAST, dtype=torch.int64)
    for rank in range(world):
        mine = vectorised.local_lengths(sharding, rank, lengths)
        assert mine.tolist() == [len(scalar.deal(world, interleave, n)[rank]) for n in range(LAST + 1)]
        seen = torch.arange(LAST) < mine.unsqueeze(1)
        place = vectorised.global_position(sharding, rank, torch.arange(LAST))
        times[:, place[place < LAST]] += seen[:, place < LAST].long()
        assert not bool(seen[:, place >= LAST].any())
    assert torch.equal(times, (column < lengths.unsqueeze(1)).long())
    for next_n in (1, 2, 3, 4):
        each = [vectorised.row_lengths(sharding, rank, lengths, next_n) for rank in range(world)]
        total = torch.stack(each).sum(0)
        held_back = torch.arange(next_n - 1, -1, -1)
        assert torch.equal(total, (lengths.unsqueeze(1) - held_back).clamp(min=0).flatten())


@pytest.mark.parametrize(
    ("world", "rank", "bounds", "right"),
    (
        (2, 1, [8, 9, 10], [4, 4, 5]),  # B39, given
        (4, 0, [97, 98, 99, 100], [25, 25, 25, 25]),  # B39, derived
    ),
)
def test_rows_are_localised_after_expanding(
    world: int, rank: int, bounds: list[int], right: list[int]
) -> None:
    """Not [3, 4, 5] and not [22, 23, 24, 25], which counting back on the last local length gives."""
    sharding = Sharding(world, 1)
    context, next_n = bounds[-1], len(bounds)
    assert vectorised.row_lengths(sharding, rank, torch.tensor([context]), next_n).tolist() == right
    assert scalar.row_lengths(world, 1, rank, [context], next_n) == right


def test_rows_of_ragged_batches() -> None:
    """Both twins, contexts below the draft width included."""
    contexts = [0, 1, 3, 64, 65, 200]
    for world, interleave in GRID:
        for rank in range(world):
            fast = vectorised.row_lengths(Sharding(world, interleave), rank, torch.tensor(contexts), 4)
            assert fast.tolist() == scalar.row_lengths(world, interleave, rank, contexts, 4)


def test_the_owner_of_id_70() -> None:
    """B40: W = 4, S = 16 gives owner 0 and index 22; S = 1 would say 2 and 17."""
    assert (vectorised.owner(Sharding(4, 16), 70), vectorised.local_index(Sharding(4, 16), 70)) == (0, 22)
    assert (vectorised.owner(Sharding(4, 1), 70), vectorised.local_index(Sharding(4, 1), 70)) == (2, 17)


@pytest.mark.parametrize(("world", "interleave"), GRID)
def test_the_local_width_is_the_longest_hand(world: int, interleave: int) -> None:
    """It holds every rank's keys and no column more; ceil(M/W) is the same at S = 1 and whole turns only."""
    sharding = Sharding(world, interleave)
    for longest in (*range(1, 140), 512, 1000, 2048):
        width = vectorised.local_width(sharding, longest)
        assert width == max(len(hand) for hand in scalar.deal(world, interleave, longest))
        if interleave == 1 or longest % sharding.turn == 0:
            assert width == -(-longest // world)
        assert width >= -(-longest // world)


def test_a_width_rounded_up_alone_is_too_narrow() -> None:
    """8 ranks, S = 64, 10000 positions: rank 0 holds 1280 keys, ceil(10000 / 8) is 1250."""
    assert vectorised.local_width(Sharding(8, 64), 10000) == 1280


@pytest.mark.parametrize(("world", "interleave"), GRID)
def test_every_key_comes_back_from_its_slot(world: int, interleave: int) -> None:
    """Position as payload: written on the owner alone, each slot once, and read back by id."""
    sharding, page_rows, length = Sharding(world, interleave), 64, 2 * 64 * world + 13
    position = torch.arange(length)
    written = 0
    for rank in range(world):
        pages = -(-vectorised.local_width(sharding, length) // page_rows)
        table = torch.tensor(random.Random(rank).sample(range(pages + 3), pages))
        slots = vectorised.write_slots(sharding, rank, position, table.expand(length, -1), page_rows)
        payload = torch.full(((pages + 3) * page_rows,), -1)
        payload[slots[slots >= 0]] = position[slots >= 0]
        assert int((payload >= 0).sum()) == int((slots >= 0).sum())
        written += int((payload >= 0).sum())
        ids = torch.tensor([random.Random(5).sample(range(length), 40) + [-1] * 8])
        bounds, found = vectorised.localise(sharding, rank, ids, table.unsqueeze(0), page_rows)
        mine = [key for key in ids[0].tolist() if key >= 0 and vectorised.owner(sharding, key) == rank]
        assert payload[found].tolist() == mine and bounds.tolist() == [0, len(mine)]
        for some in (*ids[0, :6].tolist(), 0, length - 1, -1):
            slow = scalar.write_slot(world, interleave, rank, some, table.tolist(), page_rows)
            fast = vectorised.write_slots(sharding, rank, torch.tensor([some]), table.unsqueeze(0), page_rows)
            assert fast.tolist() == [slow]
        slow_slots = scalar.localise(
            world, interleave, rank, ids[0, -14:].tolist(), table.tolist(), page_rows
        )
        _, fast_slots = vectorised.localise(sharding, rank, ids[:, -14:], table.unsqueeze(0), page_rows)
        assert fast_slots.tolist() == slow_slots
    assert written == length


def test_slots_of_tokens_60_to_70() -> None:
    """B42: W = 2, page 64: each token on one rank, a dummy request's padding on none."""
    position = torch.tensor([*range(60, 71), -1])
    tables = torch.tensor([[3, 1]]).expand(12, -1)
    even, odd = (
        vectorised.write_slots(Sharding(2, 1), rank, position, tables, 64).tolist() for rank in (0, 1)
    )
    assert even == [222, -1, 223, -1, 224, -1, 225, -1, 226, -1, 227, -1]
    assert odd == [-1, 222, -1, 223, -1, 224, -1, 225, -1, 226, -1, -1]


@pytest.mark.parametrize("k", (1, 5, 12, 40))
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("world", "interleave"), ((1, 1), (2, 1), (4, 16), (8, 1), (3, 2)))
def test_merged_candidates_are_the_global_top_k(world: int, interleave: int, seed: int, k: int) -> None:
    """Local top-k on every rank, padding anywhere, both exchanges: one of the right selections."""
    chance = torch.Generator().manual_seed(seed)
    sharding, rows, length = Sharding(world, interleave), 3, 37
    ends = torch.tensor([length, 11, 0])
    scores = torch.randint(-4, 4, (rows, length), generator=chance).float()  # ties everywhere
    sent, local_ids = [], []
    for rank in range(world):
        mine = scores[:, vectorised.owned(sharding, rank, length)]
        lengths = vectorised.local_lengths(sharding, rank, ends)
        windows = Windows(torch.arange(rows), torch.zeros(rows, dtype=torch.int64), lengths)
        ids = topk.topk(mine, windows, k, stable=False).ids
        ids = ids[:, torch.randperm(k, generator=chance)]  # any layout of padding is legal
        local_ids.append(ids)
        sent.append(vectorised.candidates(sharding, rank, mine, ids, lengths))
        positions = vectorised.owned(sharding, rank, length).tolist()
        for row in range(rows):
            slow = scalar.candidates(positions, mine[row].tolist(), ids[row].tolist(), int(lengths[row]))
            assert (sent[-1][0][row].tolist(), sent[-1][1][row].tolist()) == slow
    gathered, global_ids = (torch.stack(part) for part in zip(*sent, strict=True))
    windows = Windows(torch.arange(rows), torch.zeros(rows, dtype=torch.int64), ends)
    wanted = topk.topk(scores, windows, k, stable=False)
    merged = vectorised.merge(gathered, global_ids, k)
    assert bool(topk.check_selection(merged, wanted).ok.all())
    columns = vectorised.merge_columns(gathered, k)
    emitted = []
    for rank in range(world):
        ids = vectorised.own_candidates(columns, local_ids[rank], rank)
        emitted.append(vectorised.global_position(sharding, rank, ids).where(ids >= 0, -1))
    assert bool(topk.check_selection(torch.cat(emitted, 1), wanted).ok.all())
    for row in range(rows):
        mine_scores, mine_ids = gathered[:, row].tolist(), global_ids[:, row].tolist()
        assert merged[row].tolist() == scalar.merge(mine_scores, mine_ids, k)
        assert columns[row].tolist() == scalar.merge_columns(mine_scores, k)


def test_a_score_of_minus_infinity_is_not_padding_while_its_id_travels() -> None:
    """Padding sinks below every real candidate."""
    scores = torch.tensor([[[-torch.inf, 1.0]], [[-torch.inf, -torch.inf]]])
    ids = torch.tensor([[[-1, 4]], [[7, -1]]])
    assert vectorised.merge(scores, ids, 3).tolist() == [[4, 7, -1]]
    assert scalar.merge(scores[:, 0].tolist(), ids[:, 0].tolist(), 3) == [4, 7, -1]


def test_agreement_is_of_sets() -> None:
    """Order is free, a different member is not."""
    first = torch.tensor([[3, 1, -1], [3, 1, 2], [5, 5, 1]])
    second = torch.tensor([[-1, 1, 3], [3, 1, 4], [5, 1, 1]])
    assert vectorised.agreed(torch.stack((first, second))).tolist() == [True, False, False]


@pytest.mark.parametrize(("world", "interleave", "named"), ((0, 1, "world"), (1, 0, "interleave")))
def test_a_sharding_that_cannot_be_is_refused(world: int, interleave: int, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        Sharding(world, interleave)


def test_a_rank_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="rank is 2, allowed are 0 to 1"):
        vectorised.local_lengths(Sharding(2, 1), 2, torch.tensor([4]))
