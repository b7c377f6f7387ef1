"""Compare a result with what it must be, in fixed order: shape, then mask, then bits.

The first layer that fails ends the comparison, so a wrong mask is never reported as a wrong
value. Two NaNs are equal whatever their payload; -0 is not +0. A window that a wrong mask
moved onto a fill value of the same bits would pass, so callers poison the buffer with a
value that no score takes (`SENTINEL`). Works through the rows in blocks; of a large
difference every cell is counted and the first `KEPT` are kept for the pattern.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

SENTINEL = 0x7FC0DEAD
"""Bit pattern of the poison in a caller's score buffer: a NaN with a payload nobody computes."""
MINUS_INFINITY = 0xFF800000
KEPT = 1 << 18
BLOCK_CELLS = 1 << 22
HEAT_ROWS, HEAT_COLUMNS = 32, 64


@dataclass(frozen=True)
class Difference:
    """Where a result differs.

    ``cells`` int64 [n, axes]: indices of differing cells in row-major order (the first `KEPT`).
    ``got``/``want`` are "hex decimal" of the first one. ``sign`` [n]: -1 a cell is missing, +1 it
    was written though it must not be, 0 its value differs (layer bits).
    """

    layer: str
    reason: str
    cells: Tensor
    got: str = ""
    want: str = ""
    ulps: int | None = None
    count: int = 0
    total: int = 0
    sign: Tensor | None = None
    heat: tuple[tuple[int, ...], ...] = ()

    @property
    def first(self) -> tuple[int, ...]:
        return tuple(int(i) for i in self.cells[0]) if len(self.cells) else ()


def scores(got: object, want: Tensor, starts: Tensor, ends: Tensor, outside: int | None) -> Difference | None:
    """Compare a score matrix with the oracle's, None when equal.

    got, want float32 [T, W]; starts, ends int64 [T]: row r's window is starts <= column < ends.
    Cells outside must hold the bit pattern ``outside`` (None: anything goes), cells inside must
    have been stored: one that still holds ``outside`` while ``want`` is something else is missing.
    """
    wrong = mask(got, want, starts, ends, outside)
    if wrong is not None:
        return wrong
    assert isinstance(got, Tensor)
    return _valued(got, want, starts, ends, int((ends - starts).clamp(min=0).sum()))


def mask(got: object, want: Tensor, starts: Tensor, ends: Tensor, outside: int | None) -> Difference | None:
    """The first two layers of `scores`: shape, then which cells were stored."""
    wrong = shape(got, want.shape, torch.float32)
    if wrong is not None or outside is None:
        return wrong
    assert isinstance(got, Tensor)
    return _masked(got, want, starts, ends, outside, int((ends - starts).clamp(min=0).sum()))


def shape(got: object, size: tuple[int, ...], dtype: torch.dtype) -> Difference | None:
    """Layer shape: a tensor of ``size`` and ``dtype``, else a Difference saying what came instead."""
    wanted = f"{_name(dtype)} {list(size)}"
    if not isinstance(got, Tensor):
        return Difference("shape", "wrong-type", torch.empty(0, 0), type(got).__name__, wanted, count=1, total=1)
    if tuple(got.shape) != tuple(size) or got.dtype != dtype:
        came = f"{_name(got.dtype)} {list(got.shape)}"
        return Difference("shape", "wrong-shape", torch.empty(0, 0), came, wanted, count=1, total=1)
    return None


def arity(got: object, parts: int) -> Difference:
    """Layer shape: something else came where a tuple of ``parts`` tensors must."""
    came = f"{type(got).__name__} of {len(got)}" if isinstance(got, tuple | list) else type(got).__name__
    return Difference("shape", "wrong-arity", torch.empty(0, 0), came, f"tuple of {parts}", count=1, total=1)


def integers(got: object, want: Tensor) -> Difference | None:
    """Compare integer tensors of one shape and type exactly, any number of axes; None when equal."""
    wrong = shape(got, want.shape, want.dtype)
    if wrong is not None:
        return wrong
    assert isinstance(got, Tensor)
    cells = (got.cpu() != want.cpu()).nonzero()
    if not len(cells):
        return None
    first = tuple(cells[0].tolist())
    return Difference(
        "bits",
        "values-differ",
        cells[:KEPT],
        _integer(int(got[first])),
        _integer(int(want[first])),
        count=len(cells),
        total=want.numel(),
        heat=_heat_of(cells, want.shape),
    )


def bounded(got: Tensor, exact: Tensor, allowed: Tensor, starts: Tensor, ends: Tensor) -> Difference | None:
    """Layer bound: |got - exact| <= allowed in every window; got float32, the others float64 [T, W].

    A NaN or infinity must be met by the same in ``exact``. The mask is compared elsewhere.
    """
    inside = _inside(starts, ends, got.shape[1])
    wide = got.double()
    close = ((wide - exact).abs() <= allowed) | (wide == exact) | (wide.isnan() & exact.isnan())
    cells = (inside & ~close).nonzero()
    if not len(cells):
        return None
    row, column = cells[0].tolist()
    want = f"{float(exact[row, column])!r} within {float(allowed[row, column])!r}"
    return Difference(
        "bound",
        "beyond-bound",
        cells[:KEPT],
        decimal(int(bits_of(got[row, column]))),
        want,
        count=len(cells),
        total=int(inside.sum()),
        heat=_heat_of(cells, got.shape),
    )


def _masked(got: Tensor, want: Tensor, starts: Tensor, ends: Tensor, outside: int, total: int) -> Difference | None:
    """Layer mask: stores where none may be, and windows with holes."""
    gathered = _Gathered(got.shape)
    for rows in _blocks(got.shape):
        inside = _inside(starts[rows], ends[rows], got.shape[1])
        kept = bits_of(got[rows]) == outside
        extra, missing = ~inside & ~kept, inside & kept & (bits_of(want[rows]) != outside)
        gathered.add(extra | missing, rows.start, extra.to(torch.int8) - missing.to(torch.int8))
    if not gathered.count:
        return None
    cells, sign = gathered.cells(), gathered.values()
    row, column = cells[0].tolist()
    left = f"untouched ({decimal(outside)})"
    wanted = left if int(sign[0]) > 0 else decimal(int(bits_of(want[row, column])))
    came = decimal(int(bits_of(got[row, column]))) if int(sign[0]) > 0 else left
    reason = _mask_reason(sign)
    return Difference("mask", reason, cells, came, wanted, None, gathered.count, total, sign, gathered.heat())


def _mask_reason(sign: Tensor) -> str:
    if bool((sign > 0).all()):
        return "written-outside-window"
    return "missing-inside-window" if bool((sign < 0).all()) else "mask-differs-both-ways"


def _valued(got: Tensor, want: Tensor, starts: Tensor, ends: Tensor, total: int) -> Difference | None:
    """Layer bits: values inside the windows."""
    gathered = _Gathered(got.shape)
    for rows in _blocks(got.shape):
        inside = _inside(starts[rows], ends[rows], got.shape[1])
        wrong = inside & ~same(got[rows], want[rows])
        gathered.add(wrong, rows.start, torch.zeros_like(wrong, dtype=torch.int8))
    if not gathered.count:
        return None
    cells = gathered.cells()
    row, column = cells[0].tolist()
    one, other = int(bits_of(got[row, column])), int(bits_of(want[row, column]))
    apart = ulps(one, other)
    return Difference("bits", "bits-differ", cells, decimal(one), decimal(other), apart, gathered.count, total,
                      gathered.values(), gathered.heat())  # fmt: skip


def same(got: Tensor, want: Tensor) -> Tensor:
    """Bool, elementwise: equal bits, or both NaN. float32 in."""
    return (got.view(torch.int32) == want.view(torch.int32)) | (got.isnan() & want.isnan())


def bits_of(values: Tensor) -> Tensor:
    """Bit patterns of float32 as int64 0..2^32-1."""
    return values.contiguous().view(torch.int32).long() & 0xFFFFFFFF


def decimal(pattern: int) -> str:
    """``0x40440000 3.0625``: a float32 bit pattern in hex and in decimal."""
    value = struct.unpack("<f", struct.pack("<I", pattern))[0]
    return f"0x{pattern:08x} {value:.9g}"


def ulps(one: int, other: int) -> int | None:
    """Distance of two float32 bit patterns in steps of the format; None when either is NaN. -0 to +0 is 1."""
    if any(pattern & 0x7FFFFFFF > 0x7F800000 for pattern in (one, other)):
        return None
    return abs(_rank(one) - _rank(other))


def _rank(pattern: int) -> int:
    """Position on the line of all floats, -0 just below +0."""
    return pattern if pattern < 1 << 31 else (1 << 31) - 1 - pattern


def _integer(value: int) -> str:
    return f"{hex(value)} {value}"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _inside(starts: Tensor, ends: Tensor, width: int) -> Tensor:
    column = torch.arange(width, device=starts.device)
    return (column >= starts[:, None]) & (column < ends[:, None])


def _blocks(size: tuple[int, ...]) -> Iterator[slice]:
    step = max(1, BLOCK_CELLS // max(1, size[1]))
    for start in range(0, size[0], step):
        yield slice(start, min(size[0], start + step))


def _heat_of(cells: Tensor, size: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """At most 32 x 64 counts of ``cells`` over the first axis and the last one."""
    rows, columns = (size[0], size[-1]) if len(size) > 1 else (1, size[0] if size else 1)
    high, wide = min(HEAT_ROWS, rows), min(HEAT_COLUMNS, columns)
    down = cells[:, 0] * high // rows if len(size) > 1 else torch.zeros(len(cells), dtype=torch.long)
    index = down * wide + cells[:, -1] * wide // columns
    counts = torch.bincount(index, minlength=high * wide).reshape(high, wide)
    return tuple(tuple(row) for row in counts.tolist())


class _Gathered:
    """Differing cells met block by block: all counted, the first `KEPT` kept, heat over all."""

    def __init__(self, size: tuple[int, ...]) -> None:
        self.size, self.count, self.room = tuple(size), 0, KEPT
        self.kept: list[Tensor] = []
        self.kept_values: list[Tensor] = []
        self.warm: Tensor | None = None

    def add(self, wrong: Tensor, first_row: int, values: Tensor) -> None:
        cells = wrong.nonzero()
        if not len(cells):
            return
        self.count += len(cells)
        found = values[cells[:, 0], cells[:, 1]]
        cells = cells + torch.tensor([first_row, 0], device=cells.device)
        heat = torch.tensor(_heat_of(cells, self.size))
        self.warm = heat if self.warm is None else self.warm + heat
        self.kept.append(cells[: self.room])
        self.kept_values.append(found[: self.room])
        self.room -= len(self.kept[-1])

    def cells(self) -> Tensor:
        return torch.cat(self.kept)

    def values(self) -> Tensor:
        return torch.cat(self.kept_values)

    def heat(self) -> tuple[tuple[int, ...], ...]:
        return () if self.warm is None else tuple(tuple(row) for row in self.warm.tolist())
