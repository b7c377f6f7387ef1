"""The path's packing and merge, asked about candidates that a step hardly brings.

A merge that packs score and id into one number is right as long as ids are small or scores lie
apart, which they do in every step that is small enough to be emulated. So it is asked here by itself: scores
one bit apart on both sides of the cut with the smallest and the largest ids there can be the wrong way
round, both signs, padding between them, a rank that sends nothing; and two candidates alone, one bit apart
with the two ends of the ids, of which one is chosen. What is packed holds ids at the
end of a rank's keys and past it, which a top-k that is right never leaves.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from harness.case.cases import Case
from harness.checks.book import Book
from harness.fill import noise
from harness.judge import compare
from harness.judge.compare import Difference
from harness.judge.verdict import Grade, Verdict
from harness.paths.oracle import OraclePath
from harness.paths.requests import sharding as asked
from harness.paths.requests.sharding import Place
from oracles import dcp

TOP = (1 << 20) - 1
"""The largest id there can be: contexts end at 2^20."""
WIDTH = 12
"""Candidates that a rank sends, and that are to be chosen."""
BASES = (1.0, -1.0, 0.0, 3.0e38, -3.0e38, 1.0e-45)
"""What the scores of a row lie around: the next numbers up and down, as many as there are candidates."""


def check(book: Book) -> Verdict | None:
    """Packing and both merges, as far as the path has them, on every rank."""
    case = book.case
    red = packed(book) if asked.PackCandidates in book.path.table else None
    if red is not None:
        return red
    scores, ids = candidates(case)
    for rank in range(case.world):
        place = Place(case.world, case.inter, rank)
        for step, request, names in (
            ("by score and id", asked.MergeCandidates(scores, ids, WIDTH, place), _flat(ids)),
            ("by score alone", asked.MergeColumns(scores, WIDTH, place), _columns(ids)),
        ):
            if type(request) not in book.path.table:
                continue
            got = book.ask(request)
            wrong = compare.shape(got, (len(BASES), WIDTH), torch.int32) or chosen(
                got.long(), _flat(scores), names
            )
            if wrong is not None:
                where: dict[str, int | str] = {"rank": rank, "scores around": str(BASES[wrong.first[0]])}
                return book.differ(wrong, Grade.EXACT, where=where, step=f"to merge {step}")
            book.total += got.numel()
    return pairs(book)


def pairs(book: Book) -> Verdict | None:
    """Two neighbours alone for one place: the better has id `TOP`, the other id 0.

    A score and an id in one number choose the wrong one as soon as the id has too few bits.
    """
    case = book.case
    if asked.MergeCandidates not in book.path.table:
        return None
    scores = torch.full((case.world, len(BASES), 2), -torch.inf)
    ids = torch.full(scores.shape, dcp.PAD, dtype=torch.int32)
    for row, base in enumerate(BASES):
        scores[-1, row], ids[-1, row] = torch.tensor([*_around(base, 2)]), torch.tensor([0, TOP])
    for rank in range(case.world):
        place = Place(case.world, case.inter, rank)
        got = book.ask(asked.MergeCandidates(scores.contiguous(), ids.contiguous(), 1, place))
        wrong = compare.shape(got, (len(BASES), 1), torch.int32) or compare.integers(
            got, torch.full((len(BASES), 1), TOP, dtype=torch.int32)
        )
        if wrong is not None:
            where: dict[str, int | str] = {"rank": rank, "scores around": str(BASES[wrong.first[0]])}
            return book.differ(wrong, Grade.EXACT, where=where, step="to merge two neighbours for one place")
        book.total += got.numel()
    return None


def packed(book: Book) -> Verdict | None:
    """Ids of keys, of padding, and past the end of what the rank holds, a rank without keys among them."""
    scores = torch.arange(24, dtype=torch.float32).reshape(3, 8) - 11
    lengths = torch.tensor([5, 0, 8], dtype=torch.int32)
    ids = torch.tensor(
        [[4, 0, dcp.PAD, 5, 6, 7], [0, dcp.PAD, 1, 2, 3, 7], [7, 0, dcp.PAD, 6, 1, 2]], dtype=torch.int32
    )
    start, end = torch.zeros_like(lengths), torch.full_like(lengths, ids.shape[1])
    for rank in range(book.case.world):
        request = asked.PackCandidates(scores, ids, lengths, Place(book.case.world, book.case.inter, rank))
        got, want = book.ask(request), OraclePath().run(request).value
        if not isinstance(got, tuple) or len(got) != len(want):
            wrong: Difference | None = compare.arity(got, len(want))
        else:
            wrong = compare.scores(got[0], want[0], start, end, None) or compare.integers(got[1], want[1])
        if wrong is not None:
            where: dict[str, int | str] = {"rank": rank}
            if wrong.first:
                where |= {"row": wrong.first[0], "local id": int(ids[tuple(wrong.first)])}
            return book.differ(wrong, Grade.EXACT, where=where, step="to pack candidates")
        book.total += ids.numel()
    return None


def candidates(case: Case) -> tuple[Tensor, Tensor]:
    """(scores float32, ids int32) [W, T, WIDTH], a row for each of `BASES`; a third of it is padding.

    The better of two neighbours has the larger id throughout, so that an id that leaks into the score
    turns the order around. The last of many ranks has nothing to send.
    """
    count = case.world * WIDTH
    place = torch.arange(count)
    scores = torch.stack([torch.tensor(list(_around(base, count))) for base in BASES])
    ids = (place * TOP // (count - 1)).to(torch.int32).repeat(len(BASES), 1)
    padding = place % 3 == 1
    scores[:, padding], ids[:, padding] = -torch.inf, dcp.PAD
    order = noise.permutation(case.s, "candidates of a merge", count)
    shaped = [part[:, order].reshape(len(BASES), case.world, WIDTH).transpose(0, 1) for part in (scores, ids)]
    if case.world > 2:
        shaped[0][-1], shaped[1][-1] = -torch.inf, dcp.PAD
    return shaped[0].contiguous(), shaped[1].contiguous()


def _around(base: float, count: int) -> Iterator[float]:
    """``count`` float32 in rising order about ``base``; about 0 that is -0, of which 0 is no neighbour."""
    value = torch.tensor(base)
    for _ in range(count // 2):
        value = torch.nextafter(value, torch.tensor(-torch.inf))
    for _ in range(count):
        yield float(value)
        value = torch.nextafter(value, torch.tensor(torch.inf))


def _flat(part: Tensor) -> Tensor:
    """[W, T, k'] as [T, W * k']."""
    return part.transpose(0, 1).flatten(1)


def _columns(ids: Tensor) -> Tensor:
    """The columns of real candidates, padding elsewhere."""
    flat = _flat(ids)
    return torch.arange(flat.shape[1]).expand_as(flat).where(flat >= 0, dcp.PAD)


def chosen(got: Tensor, scores: Tensor, names: Tensor) -> Difference | None:
    """What is wrong with the selections int64 [T, WIDTH] of the candidates ``names`` with ``scores``."""
    for row, (mine, values, known) in enumerate(zip(got, scores, names, strict=True)):
        real = known >= 0
        by_name = dict(zip(known[real].tolist(), (values[real] + 0.0).tolist(), strict=True))
        picked = [name for name in mine.tolist() if name != dcp.PAD]
        want = sorted(by_name.values(), reverse=True)[:WIDTH]
        strange = [name for name in picked if name not in by_name]
        have = sorted((by_name[name] for name in set(picked) - set(strange)), reverse=True)
        if strange or len(set(picked)) < len(picked) or have != want:
            reason = "candidate-of-nobody" if strange else "not-the-best-candidates"
            said = f"{len(picked)} candidates, the worst {min(have, default=None)}"
            cell = torch.tensor([[row]])
            wanted = f"{len(want)} candidates, the worst {min(want, default=None)}"
            return Difference("bits", reason, cell, said, wanted, count=1, total=len(got))
    return None
