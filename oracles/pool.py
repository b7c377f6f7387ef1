"""What the index cache of all layers takes, and whose every byte is (spec indexer.md 3 and 10).

Contract: a page holds ``page_rows`` keys of one layer in one plane (fp8: 128 data bytes and a float32
scale for each 128 columns, rows padded to 16 bytes) or two (fp4: packed codes, scale bytes). No byte
belongs to two of them, whichever order layers, planes and pages have in memory. It fails silently
when the bytes that sizing charges are not the bytes that are allocated: the pool is then too small by
a few pages, or the last ones lie over something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np

FORMS = ("fp4", "fp8")
K_TILE = 128
GROUPS = 4
GROUP_BYTES = 16
FP8_ALIGN = 16
ALIGNED = {"codes": 16, "scales": 4, "rows": 16}
"""What one load of a kernel takes at once from each plane: its addresses are multiples of that."""


@dataclass(frozen=True)
class Extent:
    """One plane of one layer: ``shape`` and ``strides`` in bytes, from byte ``offset`` of ``arena``.

    Its elements are single bytes, its first axis the pages.
    """

    plane: str
    layer: int
    arena: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Pool:
    """``arenas``: bytes of each allocation; ``entry_bytes``: what sizing charges for a page of all layers."""

    extents: tuple[Extent, ...]
    arenas: tuple[int, ...]
    entry_bytes: int


def page_shapes(form: str, page_rows: int, dim: int) -> dict[str, tuple[int, ...]]:
    """Shape in bytes of each plane of one page and layer, by plane. Raises ValueError."""
    if form not in FORMS:
        raise ValueError(f"form is {form!r}, allowed are {', '.join(FORMS)}")
    if dim % K_TILE or dim < K_TILE:
        raise ValueError(f"dim is {dim}, allowed are positive multiples of {K_TILE}")
    if form == "fp4":
        tiles = dim // K_TILE
        return {"codes": (tiles, GROUPS, page_rows, GROUP_BYTES), "scales": (tiles, GROUPS, page_rows)}
    row = dim + 4 * (dim // K_TILE)
    return {"rows": (page_rows, -(-row // FP8_ALIGN) * FP8_ALIGN)}


def page_bytes(form: str, page_rows: int, dim: int) -> int:
    """Bytes of one page and layer: 4352 for fp4 and 9216 for fp8 at 64 rows of 128."""
    return sum(int(np.prod(shape)) for shape in page_shapes(form, page_rows, dim).values())


def saved(layers: int, page_rows: int, dim: int) -> int:
    """Bytes by which a page of all layers is smaller in fp4 than in fp8: 102,144 over 21 layers."""
    return layers * (page_bytes("fp8", page_rows, dim) - page_bytes("fp4", page_rows, dim))


def pages_for(budget: int, entry_bytes: int) -> int:
    """Pages that ``budget`` bytes hold."""
    return budget // entry_bytes


def layer_major(form: str, layers: int, page_rows: int, blocks: int, dim: int) -> Pool:
    """A pool in one allocation: all layers of a plane, then all of the next, each layer's pages in a row."""
    extents, offset = [], 0
    for plane, shape in page_shapes(form, page_rows, dim).items():
        size = blocks * int(np.prod(shape))
        for layer in range(layers):
            whole = (blocks, *shape)
            extents.append(Extent(plane, layer, 0, offset, whole, dense(whole)))
            offset += size
    return Pool(tuple(extents), (offset,), layers * page_bytes(form, page_rows, dim))


def dense(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in bytes of a contiguous plane of ``shape``."""
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.insert(0, strides[0] * extent)
    return tuple(strides)


@dataclass(frozen=True)
class Ownership:
    """Bytes that two planes claim, with the first two claimants; bytes outside; bytes of nobody, by arena."""

    shared: int
    between: tuple[str, ...]
    outside: int
    unowned: tuple[int, ...]


def label(extent: Extent) -> str:
    return f"{extent.plane} of layer {extent.layer}"


def by_enumeration(pool: Pool) -> Ownership:
    """Every byte of every plane is put down in a map of its arena. For small pools."""
    owner = [np.full(size, -1, dtype=np.int64) for size in pool.arenas]
    shared, outside = 0, 0
    between: tuple[str, ...] = ()
    for number, extent in enumerate(pool.extents):
        places = addresses(extent)
        inside = (places >= 0) & (places < pool.arenas[extent.arena])
        outside += int((~inside).sum())
        mine, counts = np.unique(places[inside], return_counts=True)
        before = owner[extent.arena][mine]
        twice = int((counts - 1).sum())
        taken = before[before >= 0]
        if not between and (twice or len(taken)):
            other = pool.extents[int(taken[0])] if len(taken) else extent
            between = (label(other), label(extent))
        shared += twice + len(taken)
        owner[extent.arena][mine] = number
    return Ownership(shared, between, outside, tuple(int((places < 0).sum()) for places in owner))


def addresses(extent: Extent) -> np.ndarray:
    """Byte offsets int64 of every element, flat."""
    places = np.array([extent.offset], dtype=np.int64)
    for size, stride in zip(extent.shape, extent.strides, strict=True):
        places = (places[:, None] + np.arange(size, dtype=np.int64) * stride).reshape(-1)
    return places


def by_arithmetic(pool: Pool) -> Ownership:
    """The same from intervals, for pools of any size whose pages are runs of bytes.

    Pages of a layer either follow each other, so that a plane is one interval, or all planes of an
    arena step by one stride, so that they share the interval of a page. Raises ValueError for others.
    """
    shared, outside = 0, 0
    between: tuple[str, ...] = ()
    unowned = []
    for arena, size in enumerate(pool.arenas):
        mine = [extent for extent in pool.extents if extent.arena == arena]
        runs = _runs(mine)
        covered, twice = _tally(runs, size, mine)
        for (_, end, one), (start, _, other) in pairwise(runs):
            if start < end and twice and not between:
                between = (one, other)
        shared += twice
        outside += sum(_beyond(extent, size) for extent in mine)
        unowned.append(size - covered)
    return Ownership(shared, between, outside, tuple(unowned))


Run = tuple[int, int, str]
"""Bytes [start, end) and whose they are."""


def _tally(runs: Sequence[Run], size: int, extents: Sequence[Extent]) -> tuple[int, int]:
    """Bytes of an arena of ``size`` that planes cover, and bytes they cover again, over all pages."""
    if not runs or _follow(extents):
        return _cover(runs, size, 0)
    step, pages = extents[0].strides[0], extents[0].shape[0]
    inside = max(0, min(pages, (size - max(end for _, end, _ in runs)) // step + 1))
    counted = [_cover(runs, size, page * step) for page in range(inside, pages)]
    covered, twice = _cover(runs, size, 0) if inside else (0, 0)
    return inside * covered + sum(one for one, _ in counted), inside * twice + sum(two for _, two in counted)


def _cover(runs: Sequence[Run], size: int, shift: int) -> tuple[int, int]:
    """(covered, covered again) of sorted ``runs`` moved by ``shift``, as far as ``size`` reaches."""
    covered, claimed, reached = 0, 0, 0
    for start, end, _ in runs:
        first, last = min(start + shift, size), min(end + shift, size)
        claimed += last - first
        covered += max(0, last - max(first, reached))
        reached = max(reached, last)
    return covered, claimed - covered


def _page_run(extent: Extent) -> int:
    """Bytes of a page of the plane, which must be a run."""
    if extent.strides[1:] != dense(extent.shape[1:]):
        raise ValueError(f"the bytes of a page of {label(extent)} are no run")
    return prod(extent.shape[1:])


def _follow(extents: Sequence[Extent]) -> bool:
    """Whether the pages of every plane follow each other without a gap."""
    return all(extent.strides[0] == _page_run(extent) for extent in extents)


def _runs(extents: Sequence[Extent]) -> list[Run]:
    """The run of each plane of an arena, or of its first page where all planes step by one stride; sorted."""
    lengths = [_page_run(extent) for extent in extents]
    if _follow(extents):
        lengths = [run * extent.shape[0] for run, extent in zip(lengths, extents, strict=True)]
    elif not _step_together(extents):
        raise ValueError("the planes of an arena neither follow each other nor step by one stride")
    runs = [
        (extent.offset, extent.offset + run, label(extent))
        for run, extent in zip(lengths, extents, strict=True)
    ]
    return sorted(runs, key=lambda run: run[:2])


def _step_together(extents: Sequence[Extent]) -> bool:
    """Whether all planes have as many pages, one stride apart, within which the page of each ends."""
    steps = {(extent.strides[0], extent.shape[0]) for extent in extents}
    first = min(extent.offset for extent in extents)
    within = (extent.offset + _page_run(extent) <= first + extent.strides[0] for extent in extents)
    return len(steps) == 1 and all(within)


def _beyond(extent: Extent, size: int) -> int:
    """Bytes of the plane past the ``size`` of its arena."""
    run, step, pages = _page_run(extent), extent.strides[0], extent.shape[0]
    over = extent.offset + (pages - 1) * step + run - size  # of the last page
    past = range(max(0, over), 0, -step) if step else ()
    return sum(min(run, bytes_past) for bytes_past in list(past)[:pages])
