"""Kind decode of suite fp8: rows of B sequences over pages, written by one stage and read by the next."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from harness.case.cases import Case
from harness.checks import scores
from harness.checks.book import Book
from harness.checks.decode import SPILLED
from harness.checks.fp8 import hints as fp8_hints
from harness.checks.fp8 import scores as fp8_scores
from harness.checks.fp8 import stages as fp8_stages
from harness.fill import fill_eightbit, pages
from harness.fill.fill_eightbit import Filled, Shape
from harness.judge import compare
from harness.judge.bits import MINUS_INFINITY, SENTINEL, bits_of
from harness.judge.verdict import Grade, Verdict
from harness.paths.base import Path
from harness.paths.requests.eightbit import PagedScores8
from oracles import windows
from oracles.windows import Windows

ROW_BYTES = (132, 144)
"""Without padding, and padded to 16 as servers allocate it."""
CHUNK = 256
GAP = 37
HUGE = 2.0**120


@dataclass(frozen=True)
class Paged:
    """A decode case as tensors: windows, block tables, slots of all keys in turn."""

    case: Case
    shape: Shape
    filled: Filled
    rows: Windows
    tables: Tensor
    blocks: int
    slots: Tensor
    lens: Tensor

    @property
    def strided(self) -> bool:
        return self.case.t == "strided"

    def buffer(self) -> Tensor:
        """The caller's score buffer, float32 [T, width] of `SENTINEL`; with gaps where strided."""
        stride = self.case.width + (GAP if self.strided else 0)
        whole = torch.full((self.rows.rows, stride), SENTINEL, dtype=torch.int32).view(torch.float32)
        return whole[:, : self.case.width]


def build(case: Case) -> Paged:
    """The tensors of a case. Rows that see no key are poison."""
    rows = windows.decode_windows(torch.tensor(case.ctx), case.n)
    shape = Shape(case.rows, case.h, case.ctx, case.fmt, bool(case.ue), case.s)
    filled = fill_eightbit.fill(case.f, shape)
    placement = pages.place(case.ctx, case.t, case.s)
    slots = pages.slots(case.ctx, placement.tables)
    lens = torch.tensor(case.ctx, dtype=torch.int32)
    return Paged(case, shape, filled, rows, placement.tables, placement.blocks, slots, lens)


def check(case: Case, path: Path) -> Verdict:
    """Compare quantiser, writer, gather and paged scorer with the oracle."""
    book, made = Book(case, path), build(case)
    wrong = fp8_stages.queries(book, made.shape, made.filled)
    if wrong is not None:
        return wrong
    want = None
    first = None
    for row_bytes in ROW_BYTES:
        cache, spare = (
            fp8_stages.empty_cache(made.blocks, row_bytes, strided=made.strided) for _ in range(2)
        )
        wrong = fp8_stages.written(book, made.shape, made.filled, cache, spare, made.slots, case.tile)
        if wrong is None and row_bytes == ROW_BYTES[0]:
            cu_lens = torch.tensor([0, *case.ctx]).cumsum(0).to(torch.int32)
            wrong = fp8_stages.gathered(book, made.filled, cache, made.tables, cu_lens, case.tile)
        if wrong is not None:
            return wrong
        step = f"for scores over pages of {row_bytes} bytes a row"
        out = made.buffer()
        request = ask(made, cache, out)
        value = scores.placed(out, book.ask(request))
        if made.strided and bool((bits_of(_gap(out)) != SENTINEL).any()):
            return book.differ(SPILLED, Grade.NONE, step=step)
        got = settled(value, made, book)
        want = want or fp8_scores.wanted(made.shape, made.filled, made.rows, made.tables, case.width, path)
        difference = want.compare(got, SENTINEL)
        if difference is not None:
            fp8_hints.note(book, made, want, got, difference)
            return book.differ_on(difference, want.grade, want.grid, step=step)
        assert isinstance(got, Tensor)
        first = got if first is None else first
        difference = fp8_scores.same_bits(got, first, want)
        if difference is not None:
            return book.differ_on(difference, want.grade, want.grid, step=f"{step}, against 132")
        book.total += int(want.inside.sum())
    assert want is not None
    return fp8_scores.doubted(book, want, made.filled, fp8_scores.seen_keys(made.shape, made.rows))


def ask(made: Paged, cache: Tensor, out: Tensor) -> PagedScores8:
    """The request; rows without a key hold what would spoil any result they reached."""
    q_codes, weights, tables = made.filled.q_codes.clone(), made.filled.weights.clone(), made.tables
    idle = made.rows.end <= made.rows.start
    q_codes[idle], weights[idle] = fp8_stages.POISON, HUGE
    if made.strided:
        q_codes, weights = pages.embedded(q_codes, fp8_stages.POISON), pages.embedded(weights, HUGE)
        tables = pages.embedded(tables, int(tables[0, -1]))
    case = made.case
    return PagedScores8(
        q_codes, weights, cache, tables, made.lens, case.n, case.width, case.fmt, case.tile, out
    )


def settled(value: object, made: Paged, book: Book) -> object:
    """``value`` with the minus infinities that the scorer may store put back to `SENTINEL`.

    Allowed are cells a row does not see, up to the end of its context's last chunk.
    """
    if compare.shape(value, (made.rows.rows, made.case.width), torch.float32) is not None:
        return value
    assert isinstance(value, Tensor)
    column = torch.arange(made.case.width)
    chunks = ((made.lens.long() + CHUNK - 1) // CHUNK * CHUNK)[made.rows.seq]
    masked = (column >= made.rows.end[:, None]) & (column < chunks[:, None])
    masked &= bits_of(value) == MINUS_INFINITY
    book.facts["cells masked"] = int(masked.sum())
    return torch.where(masked, torch.tensor(SENTINEL, dtype=torch.int32).view(torch.float32), value)


def _gap(out: Tensor) -> Tensor:
    """The columns between the rows of a strided buffer."""
    return out.as_strided((out.shape[0], GAP), (out.stride(0), 1), out.storage_offset() + out.shape[1])
