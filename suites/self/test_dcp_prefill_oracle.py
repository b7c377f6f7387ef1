"""What is true of staging shards into one order, of the vectorised function and its scalar twin."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from oracles import dcp, staging
from oracles.scalar import staging as scalar
from oracles.staging import Shard, Staged

K_TILES = 1


def a_shard(blocks: int, table: list[list[int]], *, rows: int = 64, seed: int = 0) -> Shard:
    """Planes of random bytes; ``table`` names the block of each page of each sequence."""
    made = torch.Generator().manual_seed(seed)
    codes = torch.randint(0, 256, (blocks, K_TILES, 4, rows, 16), dtype=torch.uint8, generator=made)
    scales = torch.randint(0, 256, (blocks, K_TILES, 4, rows), dtype=torch.uint8, generator=made)
    return Shard(codes, scales, torch.tensor(table, dtype=torch.int32))


def as_bytes(plane: Tensor) -> dict[tuple[int, ...], int]:
    return {tuple(place): int(plane[tuple(place)]) for place in torch.ones_like(plane).nonzero().tolist()}


def both(shards: list[Shard], lengths: list[int], inter: int, columns: int) -> Staged:
    """The staged planes, after every byte of a key was compared with the scalar twin."""
    fast = staging.stage(shards, lengths, inter, columns)
    codes, scales = scalar.stage(
        [as_bytes(shard.k_codes) for shard in shards],
        [as_bytes(shard.k_scales) for shard in shards],
        [shard.block_tables.tolist() for shard in shards],
        lengths,
        inter,
        K_TILES,
    )
    assert {place: int(fast.k_codes[place]) for place in codes} == codes
    assert {place: int(fast.k_scales[place]) for place in scales} == scales
    assert len(codes) == 16 * len(scales) == 64 * sum(lengths) * K_TILES
    assert fast.block_tables.tolist() == [scalar.table(lengths, columns)] * len(lengths)
    return fast


def test_rows_of_a_page_and_where_their_scales_lie() -> None:
    """Rows 0, 1, 2, 15, 16, 17, 63 of a page of 64 lie at 0, 4, 8, 60, 1, 5, 63; a page of 16 is straight."""
    place = staging.scale_place(64)
    assert place[[0, 1, 2, 15, 16, 17, 63]].tolist() == [0, 4, 8, 60, 1, 5, 63]
    assert place.tolist() == list(scalar.SCALE_AT)
    assert staging.scale_place(16).tolist() == list(range(16))
    assert staging.scale_place(32)[[0, 1, 15, 16, 17, 31]].tolist() == [0, 2, 30, 1, 3, 31]


def test_another_number_of_tiles_takes_places_twice() -> None:
    """Four tiles in a page of 128 rows: every place is in bounds, and half of them are never used."""
    wrong = staging.scale_place(128, tiles=4)
    assert int(wrong.max()) < 128 and len(wrong.unique()) < 128
    assert staging.scale_place(64, tiles=4).tolist() == staging.scale_place(64).tolist()


@pytest.mark.parametrize(
    ("length", "world", "inter"), [(0, 2, 1), (1, 4, 1), (10, 3, 2), (200, 4, 16), (65, 1, 64)]
)
def test_positions_are_dealt_in_turns(length: int, world: int, inter: int) -> None:
    """The definition, the cards of the twin and the formulas of ``oracles.dcp`` name the same homes."""
    homes = scalar.deal(length, world, inter)
    source = staging.sources([length], world, inter)
    assert list(zip(source.rank.tolist(), source.local.tolist(), strict=True)) == homes
    sharding = dcp.Sharding(world, inter)
    position = torch.arange(length)
    assert torch.equal(source.rank, dcp.owner(sharding, position))
    assert torch.equal(source.local, dcp.local_index(sharding, position))
    for rank in range(world):
        assert torch.equal(staging.held(length, rank, world, inter), dcp.owned(sharding, rank, length))


def test_the_gather_index_by_hand() -> None:
    """Lengths 5 and 2 over two ranks, S = 1: both read 3 + 1 keys, rank 1 one of them past its last."""
    index = staging.gather_index([5, 2], 2, 1, torch.tensor([0, 3, 4]))
    # Rank 0 brings rows 0-3: positions 0, 2, 4 and 0'; rank 1 rows 4-7: 1, 3, none and 1'.
    assert index.tolist() == [0, 4, 1, 5, 2, 3, 7]
    assert staging.gather_index([5], 2, 2, torch.tensor([0, 4])).tolist() == [0, 1, 4, 5, 2]


def test_a_plan_that_reads_too_little_is_refused() -> None:
    """A rank that holds three keys cannot read two."""
    with pytest.raises(ValueError, match="sequence 0 2 keys, a rank holds 3"):
        staging.gather_index([5, 2], 2, 1, torch.tensor([0, 2, 3]))


def test_every_key_keeps_its_codes_and_its_scale() -> None:
    """Three pages and 17 keys over four ranks, pages in another order on each."""
    tables = [[[2]], [[0]], [[1]], [[2]]]
    shards = [a_shard(3, table, seed=rank) for rank, table in enumerate(tables)]
    both(shards, [3 * 64 + 17], 1, 8)


@pytest.mark.parametrize(("world", "inter"), [(1, 1), (2, 16), (2, 64), (3, 4)])
def test_sequences_follow_each_other_without_a_gap(world: int, inter: int) -> None:
    """The second sequence starts in the middle of a staged page."""
    tables = [[2, 0], [1, 3]]
    shards = [a_shard(4, tables, seed=rank) for rank in range(world)]
    both(shards, [70, 33], inter, 6)


def test_rows_past_the_last_key_hold_the_constant() -> None:
    """65 keys: 63 rows of the second page are empty in both planes."""
    staged = staging.stage([a_shard(2, [[1, 0]])], [65], 1, 4, empty=7)
    assert int((staged.k_codes[1] == 7).sum()) >= 63 * 4 * 16
    assert (staged.k_codes[1, :, :, 1:] == 7).all()
    assert (staged.k_scales[1, :, :, staging.scale_place()[1:]] == 7).all()


def test_one_wrong_rule_each() -> None:
    """Each rule changes the planes it is about, and no two of them the same way."""
    shards = [a_shard(2, [[1, 0]], seed=rank) for rank in range(2)]
    right = staging.stage(shards, [130], 1, 4)
    seen = {}
    for name, rules in {
        "read": {"read": "flat"},
        "write": {"write": "flat"},
        "both": {"read": "flat", "write": "flat"},
    }.items():
        wrong = staging.stage(shards, [130], 1, 4, **rules)  # type: ignore[arg-type]
        assert torch.equal(wrong.k_codes, right.k_codes)
        assert not torch.equal(wrong.k_scales, right.k_scales)
        seen[name] = wrong.k_scales
    assert not torch.equal(seen["read"], seen["write"]) and not torch.equal(seen["read"], seen["both"])
    for order in ("rank-major", "gathered"):
        wrong = staging.stage(shards, [130], 1, 4, order=order)
        assert not torch.equal(wrong.k_codes, right.k_codes)


def test_flat_on_both_sides_hides_where_rows_land_on_themselves() -> None:
    """One rank and whole pages: nothing moves inside a page, and two wrongs make a right."""
    shards = [a_shard(2, [[1, 0], [0, 1]], seed=rank) for rank in range(2)]
    for world, lengths, hidden in (
        (1, [64], True),
        (1, [128], True),
        (1, [60, 20], False),
        (2, [128], False),
    ):
        right = staging.stage(shards[:world], lengths, 1, 4)
        flat = staging.stage(shards[:world], lengths, 1, 4, read="flat", write="flat")
        assert torch.equal(right.k_scales, flat.k_scales) is hidden


def test_rank_major_lays_whole_ranks_end_to_end() -> None:
    """Two ranks, four keys, S = 1: 0, 2, 1, 3; what the all-gather brings of five is 0, 2, 4, 1, 3."""
    shards = [a_shard(1, [[0]], seed=rank) for rank in range(2)]
    wrong = staging.stage(shards, [4], 1, 2, order="rank-major").k_codes
    right = staging.stage(shards, [4], 1, 2).k_codes
    assert torch.equal(wrong[0, :, :, :4], right[0, :, :, [0, 2, 1, 3]])
    wrong = staging.stage(shards, [5], 1, 2, order="gathered").k_codes
    right = staging.stage(shards, [5], 1, 2).k_codes
    assert torch.equal(wrong[0, :, :, :5], right[0, :, :, [0, 2, 4, 1, 3]])


def test_what_cannot_be_staged_is_refused() -> None:
    """A table that is too narrow, a shard without a page, a rule or a page size that does not exist."""
    shard = a_shard(2, [[1, 0]])
    with pytest.raises(ValueError, match="columns is 1, the keys take 2 pages"):
        staging.stage([shard], [65], 1, 1)
    with pytest.raises(ValueError, match="rank 0 has no page for key 128"):
        staging.stage([shard], [129], 1, 4)
    with pytest.raises(ValueError, match="read is 'bend', allowed are bent, flat"):
        staging.stage([shard], [65], 1, 4, read="bend")
    with pytest.raises(ValueError, match="page_rows is 24"):
        staging.scale_place(24)


def test_pages_of_a_shard() -> None:
    """A page of every rank holds 64 * W positions, however they are dealt."""
    assert [staging.pages_of(length, 4) for length in (0, 1, 256, 257)] == [0, 1, 1, 2]
