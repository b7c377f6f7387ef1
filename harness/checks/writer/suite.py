"""Suite writer: the fused FP4 writer, byte for byte, each of its five outputs by itself.

Query codes, query scales with their zero pad tiles, weights, and both key planes whole: what no row owns
must be as it was, and so must query rows without a slot. A key byte may have more than one right value
where float32's order of summation decides; how many do is in the verdict, and the grade is exact where
none does. Fill `far` is asked over a pool past 2^31 bytes (`harness.checks.writer.far`). More rows than
slots must be refused, or the rest left alone (field report B15); slots of int32 too are refused, or read as
what they are (`harness.checks.writer.narrow`). A path whose kernel may come out in several
ways is right in a byte where one of them is. Subnormal numbers are kept or flushed throughout
(`oracles.eightbit_subnormals`): the path says which, or else its whole answer must be right in one of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from harness.case.cases import Case
from harness.checks.book import Book
from harness.checks.writer import far as writer_far
from harness.checks.writer import inputs as writer_inputs
from harness.checks.writer import names as writer_names
from harness.checks.writer import narrow
from harness.checks.writer import where as writer_where
from harness.checks.writer.wanted import ORDER, Wanted, as_bits, key_range, nearest, settle
from harness.judge import compare
from harness.judge.verdict import Grade, Verdict
from harness.paths.base import Path, Unsupported
from harness.paths.requests.eightbit import SUBNORMALS
from harness.paths.requests.writing import WRITTEN_TOKENS, WriteTokens
from oracles import prepare
from oracles.formats import PRODUCTION, quantise

PER_ROW = ("q_codes", "q_scales", "weights_out")
"""Outputs that have a row for each token; the others are pools."""
FEW_CODES = 12
DENSE = ("natural", "spread", "boundary")
"""Fills that are meant to show nearly all codes."""


def check(case: Case, path: Path) -> Verdict:
    """Compare what the path's writer wrote, and what it left alone, with the oracle."""
    book = Book(case, path)
    asked = writer_inputs.build(case)
    _agree_with_oracle(asked)
    before = [tensor.clone() for tensor in asked.outputs]
    try:
        wrong = _compared(book, asked, before)
    except narrow.Refused as refusal:
        return narrow.refused(book, asked, before, refusal)
    if wrong is not None:
        return wrong
    if case.p and case.f != narrow.FILL:
        wrong = _too_many_rows(book, replace(writer_inputs.build(case), slots=asked.slots[: case.r].clone()))
        if wrong is not None:
            return wrong
    grade = Grade.EXACT if not book.facts["bytes with several right values"] else Grade.BOUNDED
    return book.agree(grade)


def _agree_with_oracle(asked: WriteTokens) -> None:
    """The writer oracle's own keys must lie in the ranges. Raises AssertionError."""
    kept = asked.slots >= 0
    normal = prepare.layer_norm(asked.k[kept], asked.norm_weight, asked.norm_bias, eps=asked.epsilon)
    turned = prepare.rope(normal, asked.cos, asked.sin, asked.positions[kept], pairing=asked.pairing)
    codes, scales = quantise(prepare.without_nans(turned), PRODUCTION)
    held = settle(key_range(asked, kept), codes, scales)
    if not torch.equal(held.codes, codes) or not torch.equal(held.scales, scales):
        raise AssertionError("the writer oracle's keys lie outside the ranges of its LayerNorm")


def _compared(book: Book, asked: WriteTokens, before: Sequence[Tensor]) -> Verdict | None:
    """Ask for ``asked`` and compare all five outputs; a verdict when something differs."""
    wrong = _shaped(book, _answer(book, asked), asked)
    if wrong is not None:
        return wrong
    answers = (asked.outputs, *_others(book))
    found, want, mode = nearest(asked, before, answers, book.facts.get(SUBNORMALS))
    counts = {name: int((found[name] != want.outputs[name]).sum()) for name in ORDER}
    book.facts["outputs"] = {name: f"{count} differ" if count else "right" for name, count in counts.items()}
    for name in ORDER:
        wrong = _judged(book, name, found, want, asked, before)
        if wrong is not None:
            return wrong
        book.total += want.outputs[name].numel()
    book.facts[SUBNORMALS] = mode
    if apart := book.facts.get("bytes with several results", 0):
        book.note(f"{apart} bytes came out in several ways, one of them right in each")
    _witness(book, want, asked)
    return None


def _others(book: Book) -> tuple[Sequence[Tensor], ...]:
    """The last request's outputs as its kernel may have left them as well; a pool of 2 GiB has no copies."""
    return () if book.case.f == "far" else book.others


def _answer(book: Book, asked: WriteTokens) -> object:
    """The path's answer, its outputs in those of ``asked``; raises what the path raises."""
    if book.case.f == narrow.FILL:
        return narrow.asked_of(book, asked)
    if book.case.f != "far":
        return book.ask(asked)
    sent = writer_far.spread(asked)
    try:
        got = book.ask(sent)
    finally:
        writer_far.gather(sent, asked)
    if not isinstance(got, tuple) or [*map(id, got)] != [*map(id, sent.outputs)]:
        return got
    return asked.outputs


def _shaped(book: Book, got: object, asked: WriteTokens) -> Verdict | None:
    """The answer must be the request's own buffers."""
    if not isinstance(got, tuple) or len(got) != len(WRITTEN_TOKENS):
        return book.differ(compare.arity(got, len(WRITTEN_TOKENS)), Grade.EXACT)
    for name, mine, own in zip(WRITTEN_TOKENS, got, asked.outputs, strict=True):
        wrong = compare.shape(mine, own.shape, own.dtype)
        wrong = wrong or compare.integers(as_bits(mine), as_bits(own))
        if wrong is not None:
            shared = "the answer is not what is in the caller's buffer"
            return book.differ(wrong, Grade.EXACT, where={"tensor": name}, shared=shared)
    return None


def _judged(
    book: Book,
    name: str,
    found: dict[str, Tensor],
    want: Wanted,
    asked: WriteTokens,
    before: Sequence[Tensor],
) -> Verdict | None:
    wrong = compare.integers(found[name], want.outputs[name])
    if wrong is None:
        return None
    told = [f"{other} {text}" for other, text in book.facts["outputs"].items()]
    book.note("; ".join(told))
    shared = narrow.SAID if book.case.f == narrow.FILL else ""
    shared = (
        shared or writer_where.pattern(name, wrong, asked) or writer_names.name(name, asked, before, found)
    )
    if not shared and name.endswith("scales"):
        shared = writer_where.stepped(found[name], want.outputs[name])
    where = _place(book, name, wrong.first, asked)
    side = want.keys if name.startswith("k_") else want.queries
    grade = Grade.BOUNDED if side.open_bytes and name != "weights_out" else Grade.EXACT
    return book.differ(wrong, grade, where=where, shared=shared)


def _witness(book: Book, want: Wanted, asked: WriteTokens) -> None:
    """Keep what the case showed."""
    kept = asked.slots >= 0
    book.facts |= {
        "bytes with several right values": want.open_bytes,
        "rows written": int(kept.sum()),
        "rows without a slot": int((~kept).sum()),
        "groups with a NaN": want.keys.lost + want.queries.lost,
    }
    few = int((torch.bincount(want.queries.codes.flatten(), minlength=16) > 0).sum())
    book.doubt(book.case.f in DENSE and few < FEW_CODES, f"{few} of 16 query codes occur")


def _too_many_rows(book: Book, asked: WriteTokens) -> Verdict | None:
    """Rows past the last slot: refused with everything as it was, or left alone as if they had none."""
    step = f"{len(asked.q)} rows with {len(asked.slots)} slots"
    before = [tensor.clone() for tensor in asked.outputs]
    try:
        _answer(book, asked)
    except Unsupported:
        raise
    except (ValueError, RuntimeError) as refusal:
        book.facts["more rows than slots"] = f"refused: {refusal}"
    else:
        book.facts["more rows than slots"] = "ignored"
    ignored = book.facts["more rows than slots"] == "ignored"
    rows, others = (len(asked.slots), _others(book)) if ignored else (0, ())
    answers = [_first_rows(outputs, rows) for outputs in (asked.outputs, *others)]
    found, want, _ = nearest(
        _first(asked, rows), _first_rows(before, rows), answers, book.facts.get(SUBNORMALS)
    )
    for name, own, old in zip(WRITTEN_TOKENS, asked.outputs, before, strict=True):
        got, right = found[name], want.outputs[name]
        if name in PER_ROW:
            got, right = (
                torch.cat(pair) for pair in ((got, as_bits(own)[rows:]), (right, as_bits(old)[rows:]))
            )
        wrong = compare.integers(got, right)
        if wrong is not None:
            rest = torch.full((len(asked.q) - len(asked.slots),), -1)
            padded = replace(asked, slots=torch.cat((asked.slots, rest)))
            return book.differ(wrong, Grade.EXACT, where=_place(book, name, wrong.first, padded), step=step)
    return None


def _first(asked: WriteTokens, rows: int) -> WriteTokens:
    """``asked`` with its first ``rows`` rows only."""
    given = ("q", "k", "weights", "positions", "slots", *PER_ROW)
    return replace(asked, **{name: getattr(asked, name)[:rows] for name in given})


def _first_rows(outputs: Sequence[Tensor], rows: int) -> list[Tensor]:
    """``outputs`` of which those that have a row for each token lose the rows past ``rows``."""
    return [
        tensor[:rows] if name in PER_ROW else tensor
        for name, tensor in zip(WRITTEN_TOKENS, outputs, strict=True)
    ]


def _place(book: Book, name: str, first: tuple[int, ...], asked: WriteTokens) -> dict[str, int | str]:
    """Coordinates of cell ``first`` of output ``name``, as the path knows them."""
    where = writer_where.where(name, first, asked)
    return writer_far.named(where, asked) if book.case.f == "far" else where
