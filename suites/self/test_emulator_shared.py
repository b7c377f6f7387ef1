"""Shared memory belongs to one workgroup, starts undefined, and is handed over by barriers only."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch

from harness.findings import Finding
from suites.self.emulator_builder import I8, I32, I64, SHARED, Builder, Ran, Values, run, vector

SLABS = (64, 256, 65536)
LINE = "kernel.py:21"


class Exchange:
    """A kernel of 3 workgroups of 2 waves with 512 bytes of shared memory, and one output cell a lane."""

    def __init__(self, size: int = 512) -> None:
        self.build = Builder("exchange")
        self.out = self.build.argument()
        self.lane = self.build.lane()
        self.shared = self.build.op("shared_base", SHARED, name="tile", bytes=size)

    def lane32(self) -> int:
        return self.build.op("truncate", I32, self.build.global_lane(128))

    def put(self, value: int, index: int, scale: int = 4, at: str = "") -> None:
        self.build.store(value, self.build.at(self.shared, index, scale), at=at)

    def get(self, index: int, at: str = LINE) -> int:
        return self.build.load(I32, self.build.at(self.shared, index, 4), at=at)

    def keep(self, value: int) -> None:
        self.build.store(value, self.build.at(self.out, self.build.global_lane(128), 4))

    def mirrored(self) -> int:
        return self.build.op("isub", I64, self.build.const(127, I64), self.lane)

    def when(self, predicate: str, value: int, limit: int, what: list[tuple[str, int]]) -> None:
        """Under ``value predicate limit``: put pairs ("put", index) or ("barrier", 0)."""

        def body() -> Values:
            for action, index in what:
                if action == "put":
                    self.put(self.build.const(1), self.build.const(index, I64), at=LINE)
                else:
                    self.build.do("barrier", at=LINE)
            return ()

        self.build.branch(self.build.compare(predicate, value, self.build.const(limit, I64)), body)

    def run(self, slab_lanes: int = 0) -> tuple[list[int], Ran]:
        result = torch.full((3 * 128,), -1, dtype=torch.int32)
        ran = run(self.build, [result], (3, 1, 1), (128, 1, 1), slab_lanes)
        return result.tolist(), ran


def found(kind: str, count: int, first: Mapping[str, object]) -> tuple[Finding, ...]:
    return (Finding(kind, "exchange", "tile", LINE, count, first),)


@pytest.mark.parametrize("slab_lanes", SLABS)
def test_lanes_exchange_through_a_barrier(slab_lanes: int) -> None:
    """Each workgroup sees its own values, mirrored, whatever runs beside it."""
    kernel = Exchange()
    kernel.put(kernel.lane32(), kernel.lane)
    kernel.build.do("barrier")
    kernel.keep(kernel.get(kernel.mirrored()))
    values, ran = kernel.run(slab_lanes)
    assert ran.findings == ()
    assert values == [128 * cta + 127 - lane for cta in range(3) for lane in range(128)]


@pytest.mark.parametrize("slab_lanes", SLABS)
def test_a_read_that_needs_a_barrier_and_has_none_is_found(slab_lanes: int) -> None:
    """Cells of the other wave only: within a wave, stores come before the loads that follow them."""
    kernel = Exchange()
    kernel.put(kernel.lane32(), kernel.lane)
    kernel.keep(kernel.get(kernel.mirrored()))
    _, ran = kernel.run(slab_lanes)
    assert ran.findings == found("missing-barrier", 384, {"cta": 0, "lane": 0, "offset": 508, "extent": 512})
    kernel = Exchange()
    kernel.put(kernel.lane32(), kernel.lane)
    kernel.keep(kernel.get(kernel.build.op("xor", I64, kernel.lane, kernel.build.const(63, I64))))
    values, ran = kernel.run(slab_lanes)
    assert ran.findings == ()
    assert values[:3] == [63, 62, 61]


def test_a_wide_read_needs_a_barrier_for_every_word() -> None:
    """Lane 63 reads 16 bytes, of which only the last belong to the other wave."""
    kernel = Exchange()
    kernel.put(kernel.lane32(), kernel.lane)
    last = kernel.build.op("imin_signed", I64, kernel.lane, kernel.build.const(61, I64))
    kernel.build.load(vector(I32, 4), kernel.build.at(kernel.shared, last, 4), at=LINE)
    _, ran = kernel.run()
    # Lane 61 reads words 61 to 64, as do lanes 62 and 63; every lane of the second wave reads the first's.
    assert ran.only.kind == "missing-barrier" and ran.only.count == 3 * (3 + 64)
    assert ran.only.first == {"cta": 0, "lane": 61, "offset": 244, "extent": 512}


@pytest.mark.parametrize("slab_lanes", SLABS)
def test_shared_memory_starts_undefined(slab_lanes: int) -> None:
    """Half of it is stored; reading the other half is found at its offset in the workgroup's own."""
    kernel = Exchange()
    kernel.put(kernel.lane32(), kernel.build.op("and", I64, kernel.lane, kernel.build.const(63, I64)), at="x")
    kernel.build.do("barrier")
    kernel.get(kernel.lane)
    _, ran = kernel.run(slab_lanes)
    undefined = [finding for finding in ran.findings if finding.kind == "undefined-load"]
    assert tuple(undefined) == found(
        "undefined-load", 192, {"cta": 0, "lane": 64, "offset": 256, "extent": 512}
    )


@pytest.mark.parametrize("slab_lanes", SLABS)
def test_bounds_are_those_of_one_workgroup(slab_lanes: int) -> None:
    """One cell further would be the next workgroup's in a slab; it is outside, for loads and stores."""
    kernel = Exchange()
    kernel.put(kernel.lane32(), kernel.lane)
    kernel.build.do("barrier")
    next_one = kernel.build.op("iadd", I64, kernel.lane, kernel.build.const(1, I64))
    kernel.keep(kernel.get(next_one))
    values, ran = kernel.run(slab_lanes)
    spot = {"cta": 0, "lane": 127, "offset": 512, "extent": 512}
    assert ran.findings == found("out-of-bounds-load", 3, spot)
    assert values[127] == values[255] == -1
    kernel = Exchange()
    kernel.put(
        kernel.lane32(), kernel.build.op("iadd", I64, kernel.lane, kernel.build.const(1, I64)), at=LINE
    )
    assert kernel.run(slab_lanes)[1].findings == found("out-of-bounds-store", 3, spot)


@pytest.mark.parametrize("slab_lanes", SLABS)
def test_two_lanes_that_store_one_cell_between_barriers_race(slab_lanes: int) -> None:
    kernel = Exchange()
    kernel.when("eq", kernel.lane, 5, [("put", 9)])
    kernel.when("eq", kernel.lane, 70, [("put", 9)])
    _, ran = kernel.run(slab_lanes)
    assert ran.only.kind == "write-race" and ran.only.count == 3
    assert ran.only.first == {
        "cta": 0,
        "lane": 70,
        "offset": 36,
        "extent": 512,
        "other": {"cta": 0, "lane": 5},
    }
    kernel = Exchange()
    kernel.when("eq", kernel.lane, 5, [("put", 9)])
    kernel.build.do("barrier")
    kernel.when("eq", kernel.lane, 70, [("put", 9)])
    assert kernel.run(slab_lanes)[1].findings == ()


@pytest.mark.parametrize("slab_lanes", SLABS)
def test_offsets_of_findings_are_those_within_the_workgroup(slab_lanes: int) -> None:
    """A race, an undefined load and a missing barrier of workgroup 2 alone."""
    kernel = Exchange()
    last = kernel.build.compare("eq", kernel.build.cta(), kernel.build.const(2, I64))

    def wrong() -> Values:
        kernel.get(kernel.build.const(3, I64))
        kernel.when("sge", kernel.lane, 126, [("put", 9)])
        kernel.when("eq", kernel.lane, 70, [("put", 5)])
        kernel.get(kernel.build.const(5, I64), at="later")
        return ()

    kernel.build.branch(last, wrong)
    _, ran = kernel.run(slab_lanes)
    seen = {(f.kind, f.first["cta"], f.first["offset"], f.first["extent"]) for f in ran.findings}
    assert seen == {
        ("undefined-load", 2, 12, 512),
        ("write-race", 2, 36, 512),
        ("missing-barrier", 2, 20, 512),
    }


def test_a_barrier_of_one_workgroup_is_none_for_the_others() -> None:
    """Workgroup 1 alone passes a barrier: workgroups 0 and 2 still race."""
    kernel = Exchange()
    kernel.when("eq", kernel.lane, 5, [("put", 9)])
    kernel.when("eq", kernel.build.cta(), 1, [("barrier", 0)])
    kernel.when("eq", kernel.lane, 70, [("put", 9)])
    _, ran = kernel.run()
    assert (ran.only.kind, ran.only.count, ran.only.first["cta"]) == ("write-race", 2, 0)


@pytest.mark.parametrize("slab_lanes", SLABS)
def test_a_barrier_that_a_wave_never_reaches_is_found(slab_lanes: int) -> None:
    """The second wave of every workgroup goes round it: hardware would wait for ever."""
    kernel = Exchange()
    kernel.when("slt", kernel.lane, 64, [("barrier", 0)])
    _, ran = kernel.run(slab_lanes)
    first = {"cta": 0, "lane": 64}
    assert ran.findings == (Finding("divergent-lanes", "exchange", "", LINE, 3, first),)


def test_two_names_are_two_memories_and_one_name_is_one() -> None:
    """A second look at the same name sees what was stored; another name does not."""
    kernel = Exchange()
    build = kernel.build
    again = build.op("shared_base", SHARED, name="tile", bytes=512)
    other = build.op("shared_base", SHARED, name="other", bytes=512)
    kernel.put(kernel.lane32(), kernel.lane)
    build.store(build.const(7), build.at(other, kernel.lane, 4))
    build.do("barrier")
    sum_ = build.op("iadd", I32, *(build.load(I32, build.at(p, kernel.lane, 4)) for p in (again, other)))
    kernel.keep(sum_)
    values, ran = kernel.run()
    assert ran.findings == ()
    assert values == [lane + 7 for lane in range(384)]


def test_bytes_of_shared_memory_are_defined_one_by_one() -> None:
    """Three of four bytes stored leave the word undefined; the fourth completes it."""
    kernel = Exchange()
    cell = kernel.build.at(kernel.shared, kernel.lane, 4)
    for byte in range(4):
        if byte == 3:
            kernel.get(kernel.lane)
        place = kernel.build.op("offset", SHARED, cell, static=byte, scale=1)
        kernel.build.store(kernel.build.const(byte + 1, I8), place)
    kernel.keep(kernel.get(kernel.lane, at="later"))
    values, ran = kernel.run()
    assert ran.findings == found("undefined-load", 384, {"cta": 0, "lane": 0, "offset": 0, "extent": 512})
    assert values == [0x04030201] * 384


def test_no_shared_memory_at_all_is_all_outside() -> None:
    kernel = Exchange(size=0)
    kernel.keep(kernel.get(kernel.lane))
    values, ran = kernel.run()
    assert ran.findings == found("out-of-bounds-load", 384, {"cta": 0, "lane": 0, "offset": 0, "extent": 0})
    assert values == [-1] * 384
