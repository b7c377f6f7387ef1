"""Every access to global memory is checked, and each finding says exactly what, where and how often."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from harness.emulator.allocation import FLAGS, Allocation, null
from harness.emulator.lanes import dtype_of
from harness.emulator.program import Type, UnsupportedOperation
from harness.findings import Finding
from suites.self.emulator_builder import (
    BF16,
    F32,
    I1,
    I8,
    I16,
    I32,
    I64,
    I128,
    RESOURCE,
    Builder,
    Ran,
    Values,
    run,
    vector,
)

KINDS = (
    I8,
    I16,
    I32,
    I64,
    I128,
    F32,
    BF16,
    vector(I32, 4),
    vector(I32, 3),
    vector(I32, 8),
    vector(I16, 3),
    vector(I8, 3),
    vector(I8, 16),
    vector(I64, 2),
)
LINE = "kernel.py:11 < kernel.py:30"


def octets(count: int) -> Tensor:
    """Bytes that differ from their neighbours: 1, 2, 3, ... 250, 1, ..."""
    return (torch.arange(count) % 250 + 1).to(torch.uint8)


def poke(
    data: Tensor | Allocation,
    offsets: Sequence[int],
    kind: Type,
    store: bool = False,
    records: int | None = None,
    active: Sequence[bool] | None = None,
    grid: int = 0,
    slab_lanes: int = 0,
) -> tuple[list[bytes], Ran]:
    """Lane i loads (or stores its number in each byte) at byte ``offsets[i]``; the bytes loaded, and the run.

    With ``records`` through a buffer descriptor of that many bytes. ``active`` switches lanes off.
    """
    build = Builder("poke")
    target, places, flags, out = (build.argument() for _ in range(4))
    lane = build.global_lane(64)
    width = kind.total_bytes

    def body() -> Values:
        offset = build.load(I64, build.at(places, lane, 8))
        if records is not None:
            none = build.const(0, I64)
            descriptor = build.op(
                "resource", RESOURCE, target, none, build.const(records, I64), build.const(FLAGS)
            )
            offset = build.op("truncate", I32, offset)
        if store:
            filler = build.load(kind, build.at(out, lane, width))
            if records is None:
                build.store(filler, build.at(target, offset), at=LINE)
            else:
                build.do("buffer_store", filler, descriptor, offset, build.const(0), at=LINE)
        else:
            if records is None:
                loaded = build.load(kind, build.at(target, offset), at=LINE)
            else:
                loaded = build.op("buffer_load", kind, descriptor, offset, build.const(0), at=LINE)
            build.store(loaded, build.at(out, lane, width))
        return ()

    def inside() -> Values:
        flag = build.load(I8, build.at(flags, lane))
        build.branch(build.op("truncate", I1, flag), body)
        return ()

    count = len(offsets)
    build.branch(build.compare("slt", lane, build.const(count, I64)), inside)
    results = torch.zeros((count, width), dtype=torch.uint8)
    if store:
        results[:] = torch.arange(1, count + 1, dtype=torch.uint8)[:, None]
    switches = (
        torch.ones(count, dtype=torch.int8) if active is None else torch.tensor([*active]).to(torch.int8)
    )
    arguments = [data, torch.tensor([*offsets]), switches, results]
    ran = run(build, arguments, (grid or -(-count // 64), 1, 1), (64, 1, 1), slab_lanes)
    return [bytes(row) for row in results.tolist()], ran


def found(kind: str, count: int, first: dict[str, object], operand: str = "arg0") -> tuple[Finding, ...]:
    return (Finding(kind, "poke", operand, LINE, count, first),)


def spot(cta: int, lane: int, offset: int, extent: int) -> dict[str, object]:
    return {"cta": cta, "lane": lane, "offset": offset, "extent": extent}


# bounds


@pytest.mark.parametrize("start", (0, 1, 2, 3, 4), ids="start{}".format)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_loads_and_stores_inside_are_exact_at_every_alignment(kind: Type, start: int) -> None:
    """Every offset of a tensor that may itself start anywhere in its storage; nothing else changes."""
    width = kind.total_bytes
    storage = octets(80)
    data = storage[start : start + 61]
    offsets = [*range(61 - width + 1)]
    values, ran = poke(data, offsets, kind)
    assert ran.findings == ()
    assert values == [bytes(data[offset : offset + width].tolist()) for offset in offsets]
    apart = [*range(0, 61 - width + 1, width)]
    before = storage.clone()
    _, ran = poke(data, apart, kind, store=True)
    assert ran.findings == ()
    for number, offset in enumerate(apart):
        before[start + offset : start + offset + width] = number + 1
    assert storage.tolist() == before.tolist()


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("far", (1, 2**33), ids=("by-one", "far"))
def test_a_load_one_byte_outside_is_found_and_reads_all_ones(kind: Type, far: int) -> None:
    """Either end, in the second workgroup; the finding carries the first lane, the offset and the extent."""
    data, width = octets(100)[10:74], kind.total_bytes
    for offset in (-far, 64 - width + far):
        offsets = [0] * 64 + [0, 0, 0, offset, 0, offset]
        values, ran = poke(data, offsets, kind)
        assert ran.findings == found("out-of-bounds-load", 2, spot(1, 3, offset, 64))
        assert values[67] == values[69] == b"\xff" * width
        assert values[66] == bytes(data[:width].tolist())


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("far", (1, 2**33), ids=("by-one", "far"))
def test_a_store_one_byte_outside_is_found_and_changes_nothing(kind: Type, far: int) -> None:
    """A store that straddles an end is dropped whole; the bytes beyond the tensor are another tensor's."""
    storage, width = octets(100), kind.total_bytes
    data = storage[10:74]
    for offset in (-far, 64 - width + far):
        before = storage.tolist()
        _, ran = poke(data, [offset], kind, store=True)
        assert ran.findings == found("out-of-bounds-store", 1, spot(0, 0, offset, 64))
        assert storage.tolist() == before


@pytest.mark.parametrize("store", (False, True), ids=("load", "store"))
def test_lanes_that_are_off_are_never_reported(store: bool) -> None:
    """Outside, undefined or racing: what a switched-off lane would touch does not count."""
    data = octets(64)
    defined = torch.ones(64, dtype=torch.bool)
    defined[8:] = False
    for offsets in ([0, 64, -1, 2**40], [0, 9, 10, 11], [0, 0, 0, 0]):
        allocation = Allocation.of(data, "arg0", defined)
        _, ran = poke(allocation, offsets, I8, store, active=[True, False, False, False])
        assert ran.findings == ()


def test_counts_are_lanes_over_all_workgroups_and_slabs() -> None:
    """A uniform address of 5 workgroups counts for each of their lanes, however the slabs are cut."""
    for slab_lanes in (64, 128, 65536):
        build = Builder("poke")
        target = build.argument()
        build.load(I32, build.at(target, build.const(3, I64), 4), at=LINE)
        ran = run(build, [octets(12)], (5, 1, 1), (64, 1, 1), slab_lanes)
        assert ran.findings == found("out-of-bounds-load", 320, spot(0, 0, 12, 12))


def test_empty_and_absent_tensors_have_no_inside() -> None:
    """An empty tensor, an empty slice of a full one, and a null pointer."""
    for data in (torch.empty(0, dtype=torch.uint8), octets(64)[8:8], torch.empty((4, 0, 2))):
        for kind in (I8, I32, I128):
            values, ran = poke(data, [0], kind)
            assert ran.findings == found("out-of-bounds-load", 1, spot(0, 0, 0, 0))
            assert values == [b"\xff" * kind.total_bytes]
            _, ran = poke(data, [0], kind, store=True)
            assert ran.findings == found("out-of-bounds-store", 1, spot(0, 0, 0, 0))
    _, ran = poke(null("absent").allocation, [0], I32)
    assert ran.findings == found("out-of-bounds-load", 1, spot(0, 0, 0, 0), "absent")


def test_a_strided_tensor_reaches_from_its_first_to_its_last_element() -> None:
    """Bytes between its rows are inside (a kernel may stride over them), one past its last element is not."""
    pool = torch.arange(64, dtype=torch.int32).view(8, 8)
    data = pool[1:4, 2:5]
    extent = (2 * 8 + 3) * 4
    values, ran = poke(data, [0, 32, extent - 4, 20], I32)
    assert ran.findings == ()
    assert [struct.unpack("<i", value)[0] for value in values] == [10, 18, 28, 15]
    _, ran = poke(data, [extent], I32)
    assert ran.findings == found("out-of-bounds-load", 1, spot(0, 0, extent, extent))
    transposed = pool.t()[:, :2]
    values, ran = poke(transposed, [0, 15 * 4], I32)
    assert [struct.unpack("<i", value)[0] for value in values] == [0, 15]
    _, ran = poke(transposed, [16 * 4], I32)
    assert ran.kinds == ["out-of-bounds-load"]


def test_a_load_outside_is_reported_once_though_byte_0_is_undefined() -> None:
    """What stands in for the address outside must not be blamed as well."""
    defined = torch.ones(64, dtype=torch.bool)
    defined[:4] = False
    _, ran = poke(Allocation.of(octets(64), "arg0", defined), [64, -4], I32)
    assert ran.findings == found("out-of-bounds-load", 2, spot(0, 0, 64, 64))


# undefined bytes


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_load_that_touches_one_undefined_byte_is_found(kind: Type) -> None:
    """Exactly the accesses that cover byte 37; the value is whatever lies there."""
    data, width = octets(64), kind.total_bytes
    defined = torch.ones(64, dtype=torch.bool)
    defined[37] = False
    offsets = [*range(64 - width + 1)]
    touching = [offset for offset in offsets if offset <= 37 < offset + width]
    values, ran = poke(Allocation.of(data, "arg0", defined), offsets, kind)
    assert ran.findings == found("undefined-load", len(touching), spot(0, touching[0], touching[0], 64))
    assert values == [bytes(data[offset : offset + width].tolist()) for offset in offsets]


def test_undefined_elements_cover_all_their_bytes_at_their_own_strides() -> None:
    """The mask has the tensor's shape; bytes between the elements of a strided tensor are undefined."""
    pool = torch.arange(64, dtype=torch.int16).view(8, 8)
    data, defined = pool[:, ::2], torch.ones((8, 4), dtype=torch.bool)
    defined[2, 1] = False
    undefined = {2 * (8 * row + column) for row in range(8) for column in range(1, 8, 2)} - {126}
    undefined |= {2 * (8 * 2 + 2)}
    for offset in range(0, 124, 2):
        _, ran = poke(Allocation.of(data, "arg0", defined), [offset], I16)
        assert ran.kinds == (["undefined-load"] if offset in undefined else [])


def test_a_mask_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match=r"mask has shape \(3,\), the tensor \(4,\)"):
        Allocation.of(torch.zeros(4), "arg0", torch.ones(3, dtype=torch.bool))


def test_what_the_launch_stored_is_defined() -> None:
    """Scratch memory that nobody wrote before may be read back after it was stored, and only there."""
    build = Builder("poke")
    scratch, out = build.argument(), build.argument()
    lane = build.lane()
    build.load(I32, build.at(scratch, lane, 4), at="kernel.py:1")
    build.store(build.op("truncate", I32, lane), build.at(scratch, lane, 4))
    build.store(build.load(I32, build.at(scratch, lane, 4), at="kernel.py:2"), build.at(out, lane, 4))
    build.load(I32, build.at(scratch, lane, 4, 1), at="kernel.py:3")
    data = torch.zeros(65, dtype=torch.int32)
    allocation = Allocation.of(data, "scratch", torch.zeros(65, dtype=torch.bool))
    ran = run(build, [allocation, torch.zeros(64, dtype=torch.int32)])
    assert [(f.location, f.count, f.first["lane"]) for f in ran.findings] == [
        ("kernel.py:1", 64, 0),
        ("kernel.py:3", 1, 63),
    ]


@pytest.mark.parametrize("start", range(4))
def test_a_store_is_seen_by_the_next_load_at_every_storage_offset(start: int) -> None:
    """Also where words of the storage do not line up with words of the tensor."""
    build = Builder()
    data, out = build.argument(), build.argument()
    lane = build.lane()
    spot_ = build.at(data, lane, 4)
    before = build.load(I32, spot_)
    build.store(build.op("xor", I32, before, build.const(-1)), spot_)
    build.store(build.load(I32, spot_), build.at(out, lane, 4))
    storage, result = octets(64 * 4 + start), torch.zeros(64, dtype=torch.int32)
    want = [255 - value for value in storage[start:].tolist()]
    assert run(build, [storage[start:], result]).findings == ()
    assert result.view(torch.uint8).tolist() == want
    assert storage[start:].tolist() == want


# writers


def races(
    offsets: Sequence[int], kind: Type, slab_lanes: int = 0, extent: int = 64, data: Tensor | None = None
) -> Ran:
    return poke(octets(extent) if data is None else data, offsets, kind, store=True, slab_lanes=slab_lanes)[1]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_two_lanes_that_store_one_byte_race(kind: Type) -> None:
    """Whole overlaps and overlaps of a single byte, in one operation; neighbours do not race."""
    width = kind.total_bytes
    for distance in {0, width - 1}:
        if distance == 0 or width > 1:
            ran = races([0, distance], kind)
            assert (ran.only.kind, ran.only.operand, ran.only.location) == ("write-race", "arg0", LINE)
            assert ran.only.count == 1
            lanes = {ran.only.first["lane"], ran.only.first["other"]["lane"]}
            assert lanes == {0, 1} and ran.only.first["extent"] == 64
            assert ran.only.first["offset"] == (distance if ran.only.first["lane"] == 1 else 0)
    assert races([0, width], kind).findings == ()


def test_a_race_names_the_lane_and_its_rival_across_workgroups_and_slabs() -> None:
    """Lane 5 of workgroup 0 and lane 2 of workgroup 1; one slab or two."""
    offsets = [4 * lane for lane in range(64)] + [4 * lane + 256 for lane in range(64)]
    offsets[66] = 4 * 5
    for slab_lanes in (64, 65536):
        ran = races(offsets, I32, slab_lanes, 512)
        assert (ran.only.kind, ran.only.count) == ("write-race", 1)
        first = ran.only.first
        ends = {(first["cta"], first["lane"]), (first["other"]["cta"], first["other"]["lane"])}
        assert ends == {(0, 5), (1, 2)} and first["offset"] == 20


@pytest.mark.parametrize("slab_lanes", (64, 128, 65536))
def test_the_count_of_a_race_is_the_lanes_that_came_second(slab_lanes: int) -> None:
    """320 lanes on one cell: 319, however the slabs are cut."""
    assert races([8] * 200, I32, slab_lanes).only.count == 199


def two_stores(first: Type, first_offset: int, second: Type, second_offset: int, same: bool) -> list[str]:
    """Lane 3 stores twice, or lane 3 and then lane 4, in two operations."""
    build = Builder("poke")
    data = build.argument()
    lane = build.lane()

    def by(number: int, kind: Type, offset: int) -> None:
        def body() -> Values:
            build.store(build.const(0, kind), build.at(data, build.const(offset, I64)), at=LINE)
            return ()

        build.branch(build.compare("eq", lane, build.const(number, I64)), body)

    by(3, first, first_offset)
    by(3 if same else 4, second, second_offset)
    return run(build, [octets(64)]).kinds


def test_races_across_operations() -> None:
    """The same lane may rewrite; another may not, whatever the widths; sharing a word is no race."""
    for first, second in ((I32, I32), (I32, I8), (I8, I32), (I64, I16), (I16, I64), (I8, I8)):
        assert two_stores(first, 8, second, 8, same=True) == []
        assert two_stores(first, 8, second, 8, same=False) == ["write-race"]
        assert two_stores(first, 8, second, 16, same=False) == []
    assert two_stores(I8, 8, I8, 9, same=False) == []
    assert two_stores(I16, 8, I16, 10, same=False) == []
    assert two_stores(I32, 8, I8, 11, same=False) == ["write-race"]
    assert two_stores(I32, 8, I8, 12, same=False) == []
    assert two_stores(I8, 12, I32, 8, same=False) == []
    assert two_stores(I64, 8, I32, 12, same=False) == ["write-race"]
    assert two_stores(I32, 5, I32, 8, same=False) == ["write-race"]


def test_neighbouring_bytes_of_a_word_stored_whole_before_are_told_apart() -> None:
    """The record of writers gets finer when narrow stores follow wide ones: bytes 9 and 10 do not race."""
    build = Builder("poke")
    data = build.argument()
    lane = build.lane()

    def first() -> Values:
        build.store(build.const(0), build.at(data, build.const(0, I64)))
        return ()

    def pair() -> Values:
        build.store(build.const(0, I8), build.at(data, lane, 1, 5))
        return ()

    build.branch(build.compare("eq", lane, build.const(0, I64)), first)
    build.branch(build.compare("uge", build.const(1, I64), lane), pair)
    expected = torch.zeros(16, dtype=torch.bool)
    expected[[0, 1, 2, 3, 5, 6]] = True
    ran = run(build, [Allocation.of(octets(16), "arg0", None, expected)])
    assert ran.findings == ()


def test_the_rival_of_a_lane_that_rewrites_its_own_cell_is_the_other_lane() -> None:
    build = Builder("poke")
    data = build.argument()
    lane = build.lane()

    def twice() -> Values:
        build.store(build.const(1), build.at(data, lane, 4))
        build.store(build.const(2), data, at=LINE)
        return ()

    build.branch(build.compare("slt", lane, build.const(2, I64)), twice)
    first = run(build, [octets(8)]).only.first
    assert {first["lane"], first["other"]["lane"]} == {0, 1}


# cells that must be stored


@pytest.mark.parametrize(
    ("dtype", "kind", "per"),
    [
        (torch.uint8, I8, 1),
        (torch.uint8, I32, 4),
        (torch.bfloat16, BF16, 1),
        (torch.bfloat16, I32, 2),
        (torch.bfloat16, I8, 0.5),
        (torch.float32, F32, 1),
        (torch.float32, vector(I32, 4), 4),
        (torch.float32, I16, 0.5),
        (torch.int64, I64, 1),
        (torch.int64, I32, 0.5),
    ],
)
def test_expected_cells_that_stay_unwritten_are_counted(dtype: torch.dtype, kind: Type, per: float) -> None:
    """Whatever the width of the stores: a cell is written when all its bytes are."""
    data = torch.zeros(16, dtype=dtype)
    expected = torch.ones(16, dtype=torch.bool)
    expected[4:8] = False
    width = kind.total_bytes
    offsets = list(range(0, 16 * data.element_size(), width))
    assert poke(Allocation.of(data, "out", None, expected), offsets, kind, store=True)[1].findings == ()
    # Without the stores to cell 10's last bytes (and those that share a wide store with it).
    last = 10 * data.element_size() + data.element_size() - 1
    kept = [offset for offset in offsets if not offset <= last < offset + width]
    ran = poke(Allocation.of(data, "out", None, expected), kept, kind, store=True)[1]
    first = int(10 // per * per) if per >= 1 else 10
    count = int(per) if per >= 1 else 1
    detail = {"offset": first * data.element_size(), "extent": 16 * data.element_size()}
    assert ran.findings == (Finding("unwritten", "poke", "out", "end of launch", count, detail),)


def test_unwritten_cells_of_a_strided_tensor() -> None:
    """Nothing stored at all; only expected cells count, at their place in the tensor's own span."""
    pool = torch.zeros((4, 8))
    data = pool[:, 2:4]
    expected = torch.tensor([[False, False], [False, True], [True, True], [False, False]])
    ran = poke(Allocation.of(data, "out", None, expected), [0], I32, store=True)[1]
    assert ran.only == Finding(
        "unwritten", "poke", "out", "end of launch", 3, {"offset": 36, "extent": 26 * 4}
    )


def test_a_race_does_not_hide_that_the_rest_was_written() -> None:
    """Two lanes store the same 16 bytes: one race, and no cell is left over."""
    data = torch.zeros(4, dtype=torch.int32)
    allocation = Allocation.of(data, "arg0", None, torch.ones(4, dtype=torch.bool))
    assert poke(allocation, [0, 0], vector(I32, 4), store=True)[1].kinds == ["write-race"]


def test_a_dropped_store_leaves_its_cell_unwritten() -> None:
    """Out of bounds, clipped by a descriptor, or by a lane that is off: not written."""
    expected = torch.ones(2, dtype=torch.bool)
    for offsets, records, active in (([0, 6], None, None), ([0, 4], 4, None), ([0, 4], None, [True, False])):
        data = torch.zeros(2, dtype=torch.int32)
        allocation = Allocation.of(data, "arg0", None, expected)
        ran = poke(allocation, offsets, I32, store=True, records=records, active=active)[1]
        assert ran.kinds[-1] == "unwritten" and ran.findings[-1].first["offset"] == 4


def test_a_launch_of_no_workgroups_writes_nothing() -> None:
    build = Builder("poke")
    build.argument()
    data = torch.zeros(4)
    allocation = Allocation.of(data, "out", None, torch.ones(4, dtype=torch.bool))
    ran = run(build, [allocation], grid=(0, 1, 1))
    assert (ran.only.kind, ran.only.count) == ("unwritten", 4)


# buffers


@pytest.mark.parametrize("kind", (I8, I16, I32, I64, vector(I32, 4), BF16), ids=str)
def test_a_descriptor_clips_without_a_finding(kind: Type) -> None:
    """Beyond the records a load gives zero and a store is dropped, though the tensor goes on."""
    width = kind.total_bytes
    storage = octets(128)
    offsets = [0, 32 - width, 32, 32 + width, 100, 2**31, 2**32 - width]
    values, ran = poke(storage, offsets, kind, records=32)
    assert ran.findings == ()
    want = [bytes(storage[offset : offset + width].tolist()) for offset in offsets[:2]]
    assert values == [*want, *[b"\0" * width] * 5]
    before = storage.tolist()
    _, ran = poke(storage, offsets[2:], kind, store=True, records=32)
    assert ran.findings == () and storage.tolist() == before
    _, ran = poke(storage, offsets[:2], kind, store=True, records=32)
    assert ran.findings == () and storage[32 - width : 32].tolist() == [2] * width


@pytest.mark.parametrize("store", (False, True), ids=("load", "store"))
@pytest.mark.parametrize("records", (100, 2**31, 0xFFFFFFFF, -1), ids=str)
def test_records_that_reach_beyond_the_tensor_do_not_protect_it(records: int, store: bool) -> None:
    """An unbounded descriptor clips nothing: the access is out of bounds and found."""
    _, ran = poke(octets(64), [60, 62], I32, store, records=records)
    kind = f"out-of-bounds-{'store' if store else 'load'}"
    assert ran.findings == found(kind, 1, spot(0, 1, 62, 64))


def test_buffer_offsets_are_unsigned() -> None:
    """An offset with its top bit set is far beyond the tensor, not before it."""
    _, ran = poke(octets(64), [2**31 + 8], I32, records=0xFFFFFFFF)
    assert ran.findings == found("out-of-bounds-load", 1, spot(0, 0, 2**31 + 8, 64))
    _, ran = poke(octets(64), [-16], I32, records=0xFFFFFFFF)
    assert ran.findings == found("out-of-bounds-load", 1, spot(0, 0, 2**32 - 16, 64))


@pytest.mark.parametrize("uniform", (True, False), ids=("uniform", "lanes"))
def test_base_offset_and_scalar_offset_add_up(uniform: bool) -> None:
    """Records count from the base of the descriptor; the scalar offset counts against them."""
    for scalar, want in ((0, 12), (16, 28), (20, 0), (-4, 8)):
        build = Builder()
        data, out = build.argument(), build.argument()
        lane = build.lane()
        none = build.const(0, I64)
        base = build.at(data, build.const(8, I64), 1)
        descriptor = build.op("resource", RESOURCE, base, none, build.const(24, I64), build.const(FLAGS))
        offset = build.const(4)
        if not uniform:
            offset = build.op(
                "iadd", I32, offset, build.op("truncate", I32, build.op("imul", I64, lane, none))
            )
        loaded = build.op("buffer_load", I32, descriptor, offset, build.const(scalar))
        build.store(loaded, build.at(out, lane, 4))
        result = torch.zeros(64, dtype=torch.int32)
        assert run(build, [torch.arange(0, 64, dtype=torch.uint8), result]).findings == ()
        word = struct.unpack("<i", bytes(range(want, want + 4)))[0] if want else 0
        assert result.tolist() == [word] * 64


def test_records_may_vary_by_lane() -> None:
    build = Builder()
    data, out = build.argument(), build.argument()
    lane, none = build.lane(), build.const(0, I64)
    records = build.op("and", I64, lane, build.const(7, I64))
    descriptor = build.op("resource", RESOURCE, data, none, records, build.const(FLAGS))
    build.store(
        build.op("buffer_load", I32, descriptor, build.const(0), build.const(0)), build.at(out, lane, 4)
    )
    result = torch.zeros(64, dtype=torch.int32)
    assert run(build, [torch.tensor([77], dtype=torch.int32), result]).findings == ()
    assert result.tolist() == [77 if lane_number % 8 >= 4 else 0 for lane_number in range(64)]


def test_wide_integers_are_moved_and_not_computed_with() -> None:
    """128-bit constants keep their words; arithmetic on them is refused, not done word by word."""
    build = Builder()
    out = build.argument()
    value = (5 << 96) | (2**32 - 1) << 32 | 7
    build.store(build.const(value, I128), build.at(out, build.lane(), 16))
    result = torch.zeros(64 * 4, dtype=torch.int32)
    assert run(build, [result]).findings == ()
    assert result.tolist() == [7, -1, 0, 5] * 64
    for code, kind in (("iadd", I128), ("truncate", I64), ("zero_extend", I128)):
        build = Builder()
        operand = build.const(1, I64 if code == "zero_extend" else I128)
        build.op(code, kind, *[operand] * (2 if code == "iadd" else 1), at="kernel.py:1")
        with pytest.raises(UnsupportedOperation, match=rf"{code} of i128 at kernel\.py:1"):
            run(build)
    build = Builder()
    build.load(vector(I128, 2), build.argument())
    with pytest.raises(UnsupportedOperation, match="vector<2xi128>"):
        run(build, [octets(64)])


def test_structured_descriptors_and_strangers_are_refused() -> None:
    """A stride, a descriptor from a number, a buffer access through a pointer, a load through a number."""
    build = Builder()
    data = build.argument()
    build.op(
        "resource", RESOURCE, data, build.const(16), build.const(64), build.const(FLAGS), at="kernel.py:5"
    )
    with pytest.raises(UnsupportedOperation, match=r"descriptor with a stride at kernel\.py:5"):
        run(build, [octets(64)])
    build = Builder()
    build.op("resource", RESOURCE, *(build.const(0) for _ in range(3)), build.const(FLAGS))
    with pytest.raises(UnsupportedOperation, match="no pointer"):
        run(build)
    build = Builder()
    data = build.argument()
    build.op("resource", RESOURCE, data, build.const(0), build.const(64), build.const(FLAGS + 1), at="k.py:9")
    with pytest.raises(UnsupportedOperation, match=r"flags 159745, known are 159744 and 131072 at k\.py:9"):
        run(build, [octets(64)])
    build = Builder()
    build.op("buffer_load", I32, build.argument(), build.const(0), build.const(0))
    with pytest.raises(UnsupportedOperation, match="no descriptor"):
        run(build, [octets(64)])
    build = Builder()
    build.load(I32, build.const(64, I64), at="kernel.py:6")
    with pytest.raises(UnsupportedOperation, match=r"no pointer at kernel\.py:6"):
        run(build)


def test_a_boolean_is_one_byte_and_packed_booleans_are_refused() -> None:
    build = Builder()
    data, out = build.argument(), build.argument()
    lane = build.lane()
    build.store(build.load(I1, build.at(data, lane)), build.at(out, lane))
    bits = torch.arange(64, dtype=torch.int8) % 2
    result = torch.full((64,), 9, dtype=torch.int8)
    assert run(build, [bits, result]).findings == ()
    assert result.tolist() == bits.tolist()
    build = Builder()
    build.load(vector(I1, 8), build.argument())
    with pytest.raises(UnsupportedOperation, match="memory access of type vector<8xi1>"):
        run(build, [octets(64)])


def test_static_and_scaled_parts_of_an_address() -> None:
    """(index + static) * scale, also without an index, also with a negative one."""
    build = Builder()
    data, out = build.argument(), build.argument()
    lane = build.lane()
    middle = build.op("offset", build.types[data], data, static=10, scale=4)
    back = build.at(middle, build.const(-3), 4, 1)
    build.store(build.load(I32, back), build.at(out, lane, 4))
    result = torch.zeros(64, dtype=torch.int32)
    run(build, [torch.arange(64, dtype=torch.int32), result])
    assert result.tolist() == [8] * 64


def test_helper_reads_what_it_says() -> None:
    """`poke` itself: 64-bit values come out little-endian, and storing writes the lane's number."""
    values, _ = poke(torch.tensor([2**40 + 1]), [0], I64)
    assert struct.unpack("<q", values[0]) == (2**40 + 1,)
    data = torch.zeros(3, dtype=dtype_of(I16))
    poke(data, [0, 2, 4], I16, store=True)
    assert data.tolist() == [0x0101, 0x0202, 0x0303]
