"""Suite identity: whatever the schedule, the split size or the chunking, the same bits.

A schedule only decides who writes which chunk. Besides the builder's schedules one is made by
hand: one chunk a slot, slots shuffled, idle ones in between. Compared with the oracle and so
with each other. Proves nothing when all units lead to one and the same split; that is
mistrusted.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from harness.case.cases import Case
from harness.checks import decode, prefill, scores
from harness.checks.book import Book
from harness.fill import noise
from harness.fill.inputs import Inputs, build
from harness.judge import wanted
from harness.judge.bits import SENTINEL
from harness.judge.verdict import Verdict
from harness.paths.base import Path
from oracles import schedule


def check(case: Case, path: Path) -> Verdict:
    """Score one case under many schedules."""
    book, inputs = Book(case, path), build(case)
    ask = _decode if case.kind == "decode" else _prefill
    answers, splits = ask(book, inputs)
    book.facts["schedules"] = len(splits)
    book.doubt(len(splits) < 2, "all schedules split the work the same way")
    tree = path.tree(inputs.decode() if case.kind == "decode" else inputs.prefill())
    return scores.judge(book, inputs, wanted.want(inputs, tree), answers)


def _decode(book: Book, inputs: Inputs) -> tuple[list[scores.Answer], set[bytes]]:
    answers, splits = [], set()
    for units in inputs.case.u:
        step = f"with {units or 'its own number of'} units"
        answers.append(scores.Answer(step, book.ask(inputs.decode(units=units or None))))
        entries = decode.given_schedule(inputs, units)
        splits.add(_split(entries[entries[:, 3] > 0][:, [0, 1, 2]]))
    entries = by_hand_decode(inputs)
    splits.add(_split(entries[entries[:, 3] > 0][:, [0, 1, 2]]))
    out = inputs.buffer()
    value = scores.placed(out, book.ask(inputs.decode(schedule=entries, out=out)))
    answers.append(scores.Answer("with a schedule made by hand", value, SENTINEL))
    return answers, splits


def _prefill(book: Book, inputs: Inputs) -> tuple[list[scores.Answer], set[bytes]]:
    answers, splits = [], set()
    for units in inputs.case.u:
        step = f"with {units or 'its own number of'} units"
        answers.append(scores.Answer(step, book.ask(inputs.prefill(units=units or None))))
        entries = prefill.given_schedule(inputs, slice(None), units)
        splits.add(_split(entries[entries[:, 4] < entries[:, 5]][:, [0, 2, 3]]))
    for chunk in inputs.case.c:
        value = prefill.in_chunks(book, inputs, chunk, inputs.buffer())
        answers.append(scores.Answer(f"in chunks of {chunk or inputs.case.rows} rows", value, SENTINEL))
    entries = by_hand_prefill(inputs)
    splits.add(_split(entries[entries[:, 4] < entries[:, 5]][:, [0, 2, 3]]))
    out = inputs.buffer()
    value = scores.placed(out, book.ask(inputs.prefill(schedule=entries, out=out)))
    answers.append(scores.Answer("with a schedule made by hand", value, SENTINEL))
    return answers, splits


def _split(entries: Tensor) -> bytes:
    """A fingerprint of which (row, first chunk, count) there are, whatever their order."""
    return repr(sorted(entries.tolist())).encode()


def by_hand_decode(inputs: Inputs) -> Tensor:
    """int32 [P, 4]: one chunk a slot in shuffled order, an idle slot after every third."""
    lengths = inputs.context_lens.tolist()
    next_n = inputs.case.n
    busy = [
        (seq * next_n + n, chunk, 1, length)
        for seq, length in enumerate(lengths)
        for n in range(next_n)
        for chunk in range(-(-length // schedule.BLOCK_K))
    ]
    return _shuffled(busy, (0, 0, 1, 0), inputs.case.s)


def by_hand_prefill(inputs: Inputs) -> Tensor:
    """int32 [P, 6]: one chunk a slot, only chunks that hold a visible key, shuffled, idle ones between."""
    rows = zip(inputs.seq.tolist(), inputs.start.tolist(), inputs.end.tolist(), strict=True)
    busy = [
        (row, seq, chunk, 1, start, end)
        for row, (seq, start, end) in enumerate(rows)
        if start < end
        for chunk in range(start // schedule.BLOCK_K, -(-end // schedule.BLOCK_K))
    ]
    return _shuffled(busy, (0, 0, 0, 1, 0, 0), inputs.case.s)


def _shuffled(busy: Sequence[tuple[int, ...]], idle: tuple[int, ...], seed: int) -> Tensor:
    order = noise.permutation(seed, "schedule", len(busy)).tolist()
    entries: list[tuple[int, ...]] = []
    for place, index in enumerate(order):
        entries.append(busy[index])
        if place % 3 == 2:
            entries.append(idle)
    return torch.tensor(entries or [idle], dtype=torch.int32)
