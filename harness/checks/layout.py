"""Suite layout: where every code and every scale lies, byte by byte and through the path's scorer.

First the oracle's planes are held against its scalar twin. Then single codes are planted: a
key has a value in one dim only, at tokens and dims on both sides of every tile, group, nibble
and page edge, and a scorer reads it back with queries that look at one dim a head. The answer
is written down from the definition (weight times value times scales), no score oracle is
asked. Any byte that is read from another place gives zero, another weight or another exponent.
"""

from __future__ import annotations

import torch
from torch import Tensor

from harness.case.cases import Case
from harness.checks.book import Book
from harness.fill import noise, pages
from harness.fill.inputs import build
from harness.judge import compare
from harness.judge.bits import MINUS_INFINITY
from harness.judge.coordinates import Grid, pattern
from harness.judge.verdict import Grade, Verdict
from harness.paths.base import Path
from harness.paths.requests.scoring import DecodeScores, Planes
from oracles import formats, layout
from oracles.scalar import layout as scalar

DIMS = (0, 1, 15, 16, 31, 32, 63, 64, 95, 96, 126, 127)
HIGH_DIMS = (128, 159, 160, 255)
TOKENS = (0, 1, 15, 16, 17, 31, 32, 47, 48, 63)
VALUE_CODES = (2, 3, 4, 5, 6, 7)
TWIN_BLOCKS = 16


def check(case: Case, path: Path) -> Verdict:
    """Read single planted codes back through the scorer of the path."""
    book = Book(case, path)
    _agree_with_twin(case)
    planted = Planted(case)
    got = book.ask(planted.request())
    want, grid = planted.scores(), planted.grid()
    wrong = compare.scores(got, want, grid.start, grid.end, MINUS_INFINITY)
    if wrong is not None:
        where = grid.where(*wrong.first) if len(wrong.cells) else {}
        if len(wrong.cells):
            where |= planted.at(*wrong.first)
        return book.differ(wrong, Grade.EXACT, where=where, shared=pattern(wrong, grid))
    book.total += int(grid.end.sum())
    book.facts["planted codes"] = int((want[want.isfinite()] != 0).sum())
    book.doubt(book.facts["planted codes"] == 0, "no code was planted")
    book.doubt(case.t == "identity", "the page table is the identity")
    return book.agree(Grade.EXACT)


class Planted:
    """Single codes in an empty pool. One sequence a (length, dim): every token meets every dim."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.dims = DIMS + (HIGH_DIMS if case.d == 256 else ())
        kept = [length for length in case.ctx if length]
        self.lengths = tuple(length for length in kept for _ in self.dims)
        self.heads = noise.permutation(case.s, "layout/heads", case.h)[: len(self.dims)]
        self.placement = pages.place(self.lengths, case.t, case.s)

    def dim_of(self, sequence: int, token: int) -> int | None:
        """Dim that ``token`` of ``sequence`` has its code in; None where the key is all zero."""
        if token % pages.PAGE not in TOKENS:
            return None
        turn = sequence % len(self.dims) + TOKENS.index(token % pages.PAGE) + token // pages.PAGE
        return self.dims[turn % len(self.dims)]

    def keys(self) -> tuple[Tensor, Tensor]:
        """(codes uint8 [L, D], scales uint8 [L, G]); every group of every key has a scale of its own."""
        total, groups = sum(self.lengths), self.case.d // 32
        codes = torch.zeros(total, self.case.d, dtype=torch.uint8)
        position = torch.cat([torch.arange(length) for length in self.lengths])
        scales = (120 + (position[:, None] * 3 + position[:, None] // 16 + torch.arange(groups) * 5) % 11).to(
            torch.uint8
        )
        first = 0
        for sequence, length in enumerate(self.lengths):
            for token in range(length):
                dim = self.dim_of(sequence, token)
                if dim is not None:
                    codes[first + token, dim] = VALUE_CODES[(token + dim) % len(VALUE_CODES)]
            first += length
        return codes, scales

    def queries(self) -> tuple[Tensor, Tensor, Tensor]:
        """(codes uint8 [H, D], scales uint8 [H, G], weights float32 [H]): head of dim i has weight 2^i."""
        heads, dim = self.case.h, self.case.d
        codes, weights = torch.zeros(heads, dim, dtype=torch.uint8), torch.zeros(heads)
        codes[self.heads, torch.tensor(self.dims)] = 2
        weights[self.heads] = torch.exp2(torch.arange(len(self.dims)).float())
        scales = (
            124
            + (torch.arange(heads)[:, None] // 16 + torch.arange(heads)[:, None] + torch.arange(dim // 32))
            % 4
        )
        return codes, scales.to(torch.uint8), weights

    def request(self) -> DecodeScores:
        rows, strided = len(self.lengths), self.case.t == "strided"
        k_codes, k_scales = pages.poisoned_pool(self.placement.blocks, self.case.d, strided=strided)
        layout.write_keys(k_codes, k_scales, *self.keys(), pages.slots(self.lengths, self.placement.tables))
        codes, scales, weights = (part.expand(rows, *part.shape).contiguous() for part in self.queries())
        planes = Planes(
            layout.pack_nibbles(codes),
            layout.write_query_scales(scales),
            k_codes,
            k_scales,
            self.placement.tables,
            weights.bfloat16(),
        )
        lengths = torch.tensor(self.lengths, dtype=torch.int32)
        return DecodeScores(planes, lengths, 1, 1.0, self.width)

    @property
    def width(self) -> int:
        return -(-max(self.lengths) // 256) * 256

    def scores(self) -> Tensor:
        """What must come out, float32 [rows, width], minus infinity past each length."""
        want = torch.full((len(self.lengths), self.width), -torch.inf)
        codes, scales = self.keys()
        _, q_scales, weights = self.queries()
        values = formats.decode(formats.E2M1, codes)
        first = 0
        for sequence, length in enumerate(self.lengths):
            want[sequence, :length] = 0.0
            for token in range(length):
                dim = self.dim_of(sequence, token)
                if dim is None:
                    continue
                head = self.heads[self.dims.index(dim)]
                exponent = int(scales[first + token, dim // 32]) + int(q_scales[head, dim // 32]) - 254
                want[sequence, token] = float(weights[head] * values[first + token, dim]) * 2.0**exponent
            first += length
        return want

    def grid(self) -> Grid:
        rows, end = torch.arange(len(self.lengths)), torch.tensor(self.lengths)
        zero = torch.zeros_like(rows)
        return Grid(rows, zero, end, zero, self.placement.tables.long())

    def at(self, sequence: int, token: int) -> dict[str, int | str]:
        """What was planted there."""
        dim = self.dim_of(sequence, token)
        return {"planted dim": "none" if dim is None else dim}


def _agree_with_twin(case: Case) -> None:
    """Hold the packed planes of the case against the scalar layout. Raises AssertionError."""
    inputs = build(case)
    planes, filled = inputs.planes, inputs.filled
    k_tiles = case.d // 128
    blocks = min(TWIN_BLOCKS, planes.k_codes.shape[0])
    owner = {slot: key for key, slot in enumerate(pages.slots(case.ctx, planes.block_tables).tolist())}
    codes, scales = filled.k_codes.tolist(), filled.k_scales.tolist()
    packed = planes.k_codes[:blocks].flatten().tolist()
    for byte, (block, k, group, row, place) in zip(packed, scalar.key_places(blocks, k_tiles), strict=True):
        key = owner.get(block * pages.PAGE + row)
        column = scalar.column(k, group, place, 0)
        want = 0xFF if key is None else codes[key][column] + 16 * codes[key][column + 1]
        assert byte == want, f"the key plane and its scalar twin differ in block {block}, row {row}"
    for byte, (block, k, group, row) in zip(
        planes.k_scales[:blocks].flatten().tolist(), scalar.scale_places(blocks, k_tiles), strict=True
    ):
        key = owner.get(block * pages.PAGE + row)
        assert byte == (255 if key is None else scales[key][4 * k + group]), (
            f"the scale plane differs in block {block}, row {row}"
        )
