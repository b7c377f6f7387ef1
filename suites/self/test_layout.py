"""What is true of the planes: every mapping is a bijection and lands where the specification says."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from oracles import layout
from oracles.scalar import layout as scalar

SEED = 17


def random_bytes(*shape: int, high: int = 256) -> Tensor:
    return torch.randint(0, high, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(SEED))


def as_places(index: tuple[Tensor, ...]) -> list[tuple[int, ...]]:
    return list(zip(*(axis.tolist() for axis in index), strict=True))


@pytest.mark.parametrize("order", layout.ORDERS)
def test_packing_is_a_bijection_of_all_bytes(order: str) -> None:
    packed = torch.arange(256, dtype=torch.uint8).view(16, 16)
    codes = layout.unpack_nibbles(packed, order=order)
    assert codes.tolist() == [scalar.unpack_nibbles(row, order=order) for row in packed.tolist()]
    assert layout.pack_nibbles(codes, order=order).tolist() == packed.tolist()
    assert [scalar.pack_nibbles(row, order=order) for row in codes.tolist()] == packed.tolist()


def test_first_byte_is_dim1_high_dim0_low() -> None:
    """Field report B07: checked on the byte, since two swapped operands have the right dot product."""
    codes = torch.tensor([[1, 2, 3, 4]], dtype=torch.uint8)
    assert (
        layout.pack_nibbles(codes).tolist()
        == [[2 << 4 | 1, 4 << 4 | 3]]
        == [scalar.pack_nibbles([1, 2, 3, 4])]
    )
    assert layout.pack_nibbles(codes, order="high-first").tolist() == [[1 << 4 | 2, 3 << 4 | 4]]


def test_bent_rows_of_the_reported_page() -> None:
    """Field report B11: rows 0, 1, 2, 15, 16, 17, 63 belong at 0, 4, 8, 60, 1, 5, 63."""
    rows = [0, 1, 2, 15, 16, 17, 63]
    assert [layout.bent_row(row) for row in rows] == [0, 4, 8, 60, 1, 5, 63]
    assert [scalar.bent_row(row) for row in rows] == [0, 4, 8, 60, 1, 5, 63]


@pytest.mark.parametrize("page_rows", (16, 32, 64, 128))
def test_bending_is_a_bijection_with_its_inverse(page_rows: int) -> None:
    rows = torch.arange(page_rows)
    bent = layout.bent_row(rows, page_rows=page_rows)
    assert bent.tolist() == [scalar.bent_row(row, page_rows=page_rows) for row in range(page_rows)]
    assert sorted(bent.tolist()) == rows.tolist()
    assert layout.flat_row(bent, page_rows=page_rows).tolist() == rows.tolist()
    assert [scalar.flat_row(place, page_rows=page_rows) for place in bent.tolist()] == rows.tolist()
    assert (bent.tolist() == rows.tolist()) == (page_rows == 16)


def test_a_page_of_odd_size_is_refused() -> None:
    with pytest.raises(ValueError, match="page_rows is 24, allowed are positive multiples of 16"):
        layout.bent_row(3, page_rows=24)


@pytest.mark.parametrize("k_tiles", (1, 2))
@pytest.mark.parametrize("page_rows", (16, 64))
def test_key_plane_mapping_is_a_bijection(page_rows: int, k_tiles: int) -> None:
    """Enumerated over three blocks, offset to place and back, against the nested loops of the twin."""
    places = list(scalar.key_places(3, k_tiles, page_rows=page_rows))
    offsets = torch.arange(len(places))
    index = layout.packed_index(offsets, page_rows=page_rows, k_tiles=k_tiles)
    assert as_places(index) == places and len(set(places)) == len(places)
    back = layout.packed_offset(*index, page_rows=page_rows, k_tiles=k_tiles)
    assert back.tolist() == offsets.tolist()
    assert layout.packed_offset(*places[-1], page_rows=page_rows, k_tiles=k_tiles) == len(places) - 1


@pytest.mark.parametrize("k_tiles", (1, 2))
@pytest.mark.parametrize("page_rows", (16, 64))
def test_scale_plane_mapping_is_a_bijection(page_rows: int, k_tiles: int) -> None:
    places = list(scalar.scale_places(3, k_tiles, page_rows=page_rows))
    offsets = torch.arange(len(places))
    index = layout.scale_index(offsets, page_rows=page_rows, k_tiles=k_tiles)
    assert as_places(index) == places and len(set(places)) == len(places)
    assert layout.scale_offset(*index, page_rows=page_rows, k_tiles=k_tiles).tolist() == offsets.tolist()


@pytest.mark.parametrize("heads", (16, 32, 64, 80, 128))
@pytest.mark.parametrize("k_tiles", (1, 2))
def test_query_scale_mapping_is_a_bijection(heads: int, k_tiles: int) -> None:
    """Pad bytes name heads from H up and nothing else does."""
    places = list(scalar.query_scale_places(2, k_tiles, heads))
    offsets = torch.arange(len(places))
    index = layout.query_scale_index(offsets, heads=heads, k_tiles=k_tiles)
    assert as_places(index) == places and len(set(places)) == len(places)
    back = layout.query_scale_offset(*index, heads=heads, k_tiles=k_tiles)
    assert back.tolist() == offsets.tolist()
    assert {place[3] for place in places if place[3] < heads} == set(range(heads))


def test_mappings_follow_given_strides() -> None:
    """A plane cut out of a wider pool: offsets are those of the strided tensor, and invert."""
    pool = torch.zeros(5, 2, 4, 96, 48, dtype=torch.uint8)
    plane = pool[::2, :, :, :64, 16:32]
    places = torch.tensor(list(scalar.key_places(2, 2))[::37]).T
    offset = layout.packed_offset(*places, k_tiles=2, strides=plane.stride())
    flat = torch.as_strided(pool.view(-1), (pool.numel() - 16,), (1,), 16)
    flat[offset] = 7
    assert bool((plane[tuple(places)] == 7).all()) and int((pool == 7).sum()) == places.shape[1]
    back = layout.packed_index(offset, k_tiles=2, strides=plane.stride())
    assert torch.stack(back).tolist() == places.tolist()


@pytest.mark.parametrize("k_tiles", (1, 2))
def test_written_keys_lie_where_the_mapping_says(k_tiles: int) -> None:
    """Byte by byte against the twin's enumeration, with shuffled slots and a skipped row."""
    rows, columns = 40, 128 * k_tiles
    codes, scales = random_bytes(rows, columns, high=16), random_bytes(rows, columns // 32)
    slots = torch.randperm(3 * 64, generator=torch.Generator().manual_seed(SEED))[:rows]
    slots[5] = -1
    k_codes = torch.full((3, k_tiles, 4, 64, 16), 0xFF, dtype=torch.uint8)
    k_scales = torch.full((3, k_tiles, 4, 64), 255, dtype=torch.uint8)
    layout.write_keys(k_codes, k_scales, codes, scales, slots)
    row_of = {slot: row for row, slot in enumerate(slots.tolist()) if slot >= 0}
    want = []
    for block, ktile, group, row, byte in scalar.key_places(3, k_tiles):
        source = row_of.get(block * 64 + row)
        low, high = (scalar.column(ktile, group, byte, nibble) for nibble in (0, 1))
        want.append(0xFF if source is None else int(codes[source, low]) + 16 * int(codes[source, high]))
    assert k_codes.flatten().tolist() == want
    want = []
    for block, ktile, group, row in scalar.scale_places(3, k_tiles):
        source = row_of.get(block * 64 + row)
        want.append(255 if source is None else int(scales[source, ktile * 4 + group]))
    assert k_scales.flatten().tolist() == want


@pytest.mark.parametrize("k_tiles", (1, 2))
@pytest.mark.parametrize("start", (0, 1, 64, 100))
def test_keys_read_back_through_a_shuffled_table(k_tiles: int, start: int) -> None:
    length, columns = 150, 128 * k_tiles
    codes, scales = random_bytes(length, columns, high=16), random_bytes(length, columns // 32)
    table = torch.tensor([4, 0, 3, 9], dtype=torch.int32)  # the last entry is never looked at
    slots = table[torch.arange(length) // 64].long() * 64 + torch.arange(length) % 64
    pool = torch.full((5, k_tiles, 4, 64, 32), 0xFF, dtype=torch.uint8)
    k_codes, k_scales = pool[..., 8:24], pool[..., 3]  # strided planes
    layout.write_keys(k_codes, k_scales, codes, scales, slots)
    got_codes, got_scales = layout.read_keys(k_codes, k_scales, table, length, start=start)
    assert got_codes.tolist() == codes[start:].tolist() and got_scales.tolist() == scales[start:].tolist()
    flat = layout.read_keys(k_codes, k_scales, table, length, bend=False)[1]
    assert flat.tolist() != scales.tolist()


def test_query_scales_round_trip_and_pad_with_zero() -> None:
    for heads in (16, 32, 64, 80, 128):
        scales = random_bytes(3, heads, 8).clamp(min=1)
        plane = layout.write_query_scales(scales)
        assert plane.shape == (3, 2, 4, 16, -(-heads // 64) * 4)
        assert layout.read_query_scales(plane, heads).tolist() == scales.tolist()
        want = [
            int(scales[token, head, ktile * 4 + group]) if head < heads else 0
            for token, ktile, group, head in scalar.query_scale_places(3, 2, heads)
        ]
        assert plane.flatten().tolist() == want


def test_page_bytes_of_the_specification() -> None:
    """4352 bytes a page; over 21 layers 102,144 bytes less than the FP8 page of 64 * 144."""
    page = len(list(scalar.key_places(1, 1))) + len(list(scalar.scale_places(1, 1)))
    assert page == 4352 and 21 * (64 * 144 - page) == 102_144


def test_slots_and_tables_out_of_range_are_refused() -> None:
    k_codes, k_scales = (
        torch.zeros(2, 1, 4, 64, 16, dtype=torch.uint8),
        torch.zeros(2, 1, 4, 64, dtype=torch.uint8),
    )
    codes, scales = random_bytes(2, 128, high=16), random_bytes(2, 4)
    with pytest.raises(ValueError, match="slots reaches 128, allowed are slots below 128"):
        layout.write_keys(k_codes, k_scales, codes, scales, torch.tensor([0, 128]))
    with pytest.raises(ValueError, match="slots names a slot twice"):
        layout.write_keys(k_codes, k_scales, codes, scales, torch.tensor([3, 3]))
    with pytest.raises(ValueError, match="length is 65, allowed are 0 to 64"):
        layout.read_keys(k_codes, k_scales, torch.tensor([1]), 65)
    with pytest.raises(ValueError, match="block_tables names a block outside 0 to 1"):
        layout.read_keys(k_codes, k_scales, torch.tensor([2]), 1)
    with pytest.raises(ValueError, match="heads is 24, allowed are positive multiples of 16"):
        layout.tile_pad(24)
    with pytest.raises(ValueError, match="order is 'big'"):
        layout.pack_nibbles(codes, order="big")
