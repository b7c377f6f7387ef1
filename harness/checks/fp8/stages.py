"""Stages of suite fp8 before the scorer: queries, pages, gather; each compared byte for byte.

A page is compared whole: the poison between its scales and its end, rows nobody wrote and pages of
nobody must be as they were. Keys with a negative slot are among those given.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from harness.checks.book import Book
from harness.fill import pages
from harness.fill.fill_eightbit import Filled, Shape
from harness.judge import compare, several
from harness.judge.compare import Difference
from harness.judge.verdict import Grade, Verdict
from harness.paths.requests.eightbit import GatherKeys8, QuantiseQueries8, WriteKeys8
from oracles import eightbit_pages

POISON = 0xFF
"""A NaN code in E4M3FN, -240 in E4M3FNUZ, and a NaN scale when four of it are read as a float32."""
SKIPPED = 3
"""Keys with a negative slot at the end of those written."""


def queries(book: Book, shape: Shape, filled: Filled) -> Verdict | None:
    """Codes and folded weights of the queries; None when they agree, or when the fill has no values."""
    if filled.q is None or filled.raw is None:
        return None
    request = QuantiseQueries8(filled.q, filled.raw, filled.weights_scale, shape.fmt, shape.ue)
    got = book.stage(request)
    if not isinstance(got, tuple) or len(got) != 2:
        return book.differ(compare.arity(got, 2), Grade.EXACT, step="for query codes and weights")
    wrong = compare.integers(got[0], filled.q_codes)
    if wrong is not None:
        where = named(wrong, "row", "head", "column")
        return book.differ(wrong, Grade.EXACT, where=where, step="for query codes")
    wrong = floats(got[1], filled.weights)
    if wrong is not None:
        return book.differ(wrong, Grade.EXACT, where=named(wrong, "row", "head"), step="for folded weights")
    book.total += got[0].numel() + got[1].numel()
    return None


def empty_cache(blocks: int, row_bytes: int, *, strided: bool) -> Tensor:
    """A pool of poison, uint8 [blocks, 64, row_bytes]; ``strided``: a slice of a larger one."""
    extra = pages.MARGIN if strided else 0
    whole = torch.full((blocks + 2 * extra, pages.PAGE, row_bytes), POISON, dtype=torch.uint8)
    return whole[extra : extra + blocks]


def written(
    book: Book, shape: Shape, filled: Filled, cache: Tensor, spare: Tensor, slots: Tensor, tile: str
) -> Verdict | None:
    """Fill ``cache`` with the keys, and hold the path's writer against it where the fill has values.

    ``spare`` is a pool of poison like ``cache``, for the writer.
    """
    eightbit_pages.write_keys(cache, filled.k_codes, filled.k_scales, slots, tile)
    if filled.k is None:
        return None
    step = f"to write pages of {cache.shape[2]} bytes a row"
    k = torch.cat([filled.k, filled.k[:SKIPPED] * 2])
    all_slots = torch.cat([slots, -1 - torch.arange(len(k) - len(filled.k))])
    got = book.stage(WriteKeys8(k, all_slots, spare, shape.fmt, shape.ue, tile))
    if isinstance(got, Tensor) and got.shape == cache.shape:
        got = several.met([got, *book.others], [cache] * (1 + len(book.others)))
        spare.copy_(got if book.others else spare)
    wrong = compare.integers(got, cache) or compare.integers(spare, cache)
    if wrong is None:
        book.total += cache.numel()
        return None
    where, said = named(wrong, "block", "row", "byte"), ""
    if wrong.layer == "bits":
        where |= _owner(wrong, cache.shape[2], slots, tile)
        other = "tiled" if tile == "flat" else "flat"
        moved = torch.full_like(cache, POISON)
        eightbit_pages.write_keys(moved, filled.k_codes, filled.k_scales, slots, other)
        said = f"right if pages were to be {other}" if torch.equal(got, moved) else ""
    return book.differ(wrong, Grade.EXACT, where=where, shared=said, step=step)


def gathered(
    book: Book, filled: Filled, cache: Tensor, tables: Tensor, cu_lens: Tensor, tile: str
) -> Verdict | None:
    """Codes and scales read back in the order of the sequences."""
    got = book.stage(GatherKeys8(cache, tables, cu_lens, tile))
    if not isinstance(got, tuple) or len(got) != 2:
        return book.differ(compare.arity(got, 2), Grade.EXACT, step="to gather keys")
    wrong = compare.integers(got[0], filled.k_codes)
    if wrong is not None:
        return book.differ(wrong, Grade.EXACT, where=named(wrong, "key", "column"), step="to gather codes")
    wrong = floats(got[1], filled.k_scales)
    if wrong is not None:
        return book.differ(wrong, Grade.EXACT, where=named(wrong, "key"), step="to gather scales")
    book.total += got[0].numel() + got[1].numel()
    return None


def floats(got: object, want: Tensor) -> Difference | None:
    """Compare float32 tensors of any shape by their bits."""
    wrong = compare.shape(got, tuple(want.shape), torch.float32)
    if wrong is not None:
        return wrong
    assert isinstance(got, Tensor)
    flat = [part.contiguous().view(torch.int32) for part in (got, want)]
    wrong = compare.integers(*flat)
    if wrong is None:
        return None
    return replace(wrong, got=repr(float(got[wrong.first])), want=repr(float(want[wrong.first])))


def named(wrong: Difference, *axes: str) -> dict[str, int | str]:
    """Coordinates of the first difference."""
    return dict(zip(axes, wrong.first, strict=True)) if wrong.first else {}


def _owner(wrong: Difference, row_bytes: int, slots: Tensor, tile: str) -> dict[str, int | str]:
    """Which key the differing byte of a page belongs to."""
    block, row, byte = wrong.first
    part = eightbit_pages.named(row * row_bytes + byte, tile)
    if not isinstance(part["slot"], int):
        return part
    key = (slots == block * pages.PAGE + part["slot"]).nonzero().flatten()
    return part | {"key": int(key[0]) if len(key) else "none"}
