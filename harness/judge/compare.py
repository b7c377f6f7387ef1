"""Compare a result with what it must be, in fixed order: shape, then mask, then bits.

The first layer that fails ends the comparison, so a wrong mask is never reported as a wrong
value. Two NaNs are equal whatever their payload; -0 is not +0. A window that a wrong mask
moved onto a fill value of the same bits would pass, so callers poison the buffer with a
value that no score takes (`bits.SENTINEL`). Works through the rows in blocks; of a large
difference every cell is counted and the first ones are kept for the pattern.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.judge import gathered
from harness.judge.bits import MINUS_INFINITY, SENTINEL, bits_of, decimal, same, ulps
from harness.judge.gathered import Gathered, heat_of

__all__ = [
    "MINUS_INFINITY",
    "SENTINEL",
    "Difference",
    "arity",
    "bounded",
    "integers",
    "mask",
    "scores",
    "shape",
]

BLOCK_CELLS = 1 << 22


@dataclass(frozen=True)
class Difference:
    """Where a result differs.

    ``cells`` int64 [n, axes]: indices of differing cells in row-major order (the first `gathered.KEPT`).
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
    return _masked(got, want, starts, ends, outside, want.numel())


def shape(got: object, size: tuple[int, ...], dtype: torch.dtype) -> Difference | None:
    """Layer shape: a tensor of ``size`` and ``dtype``, else a Difference saying what came instead."""
    wanted = f"{_name(dtype)} {list(size)}"
    if not isinstance(got, Tensor):
        return Difference(
            "shape", "wrong-type", torch.empty(0, 0), type(got).__name__, wanted, count=1, total=1
        )
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
        cells[: gathered.KEPT],
        _integer(int(got[first])),
        _integer(int(want[first])),
        count=len(cells),
        total=want.numel(),
        heat=heat_of(cells, want.shape),
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
        cells[: gathered.KEPT],
        decimal(int(bits_of(got[row, column]))),
        want,
        count=len(cells),
        total=int(inside.sum()),
        heat=heat_of(cells, got.shape),
    )


def _masked(
    got: Tensor, want: Tensor, starts: Tensor, ends: Tensor, outside: int, total: int
) -> Difference | None:
    """Layer mask: stores where none may be, and windows with holes."""
    met = Gathered(got.shape)
    for rows in _blocks(got.shape):
        inside = _inside(starts[rows], ends[rows], got.shape[1])
        kept = bits_of(got[rows]) == outside
        extra, missing = ~inside & ~kept, inside & kept & (bits_of(want[rows]) != outside)
        met.add(extra | missing, rows.start, extra.to(torch.int8) - missing.to(torch.int8))
    if not met.count:
        return None
    cells, sign = met.cells(), met.values()
    row, column = cells[0].tolist()
    left = f"untouched ({decimal(outside)})"
    wanted = left if int(sign[0]) > 0 else decimal(int(bits_of(want[row, column])))
    came = decimal(int(bits_of(got[row, column]))) if int(sign[0]) > 0 else left
    reason = _mask_reason(sign)
    return Difference("mask", reason, cells, came, wanted, None, met.count, total, sign, met.heat())


def _mask_reason(sign: Tensor) -> str:
    if bool((sign > 0).all()):
        return "written-outside-window"
    return "missing-inside-window" if bool((sign < 0).all()) else "mask-differs-both-ways"


def _valued(got: Tensor, want: Tensor, starts: Tensor, ends: Tensor, total: int) -> Difference | None:
    """Layer bits: values inside the windows."""
    met = Gathered(got.shape)
    for rows in _blocks(got.shape):
        inside = _inside(starts[rows], ends[rows], got.shape[1])
        wrong = inside & ~same(got[rows], want[rows])
        met.add(wrong, rows.start, torch.zeros_like(wrong, dtype=torch.int8))
    if not met.count:
        return None
    cells = met.cells()
    row, column = cells[0].tolist()
    one, other = int(bits_of(got[row, column])), int(bits_of(want[row, column]))
    return Difference(
        "bits",
        "bits-differ",
        cells,
        decimal(one),
        decimal(other),
        ulps(one, other),
        met.count,
        total,
        met.values(),
        met.heat(),
    )


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
