"""Suite rotate: codes and scales of V4's kernels, byte for byte, buffers and pools whole.

Everything that is written holds noise before. Queries have one right value unless subnormals are flushed
between two products; a key has more where float32's sum of squares decides, and how many bytes do is in the
verdict. A path whose kernel may come out in several ways is right in a byte where one of them is. Subnormals
are kept or flushed throughout: the path says which, or else its whole answer must be right in one of the two.
The grade is ordered where sums of the transform round: only the declared order of additions gives the bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from harness.case.cases import Case
from harness.checks.book import Book
from harness.checks.fp8.stages import floats, named
from harness.checks.rotate.asked import Request, build
from harness.judge import compare, several
from harness.judge.compare import Difference
from harness.judge.verdict import Grade, Verdict
from harness.paths.base import Path
from harness.paths.requests.eightbit import SUBNORMALS
from harness.paths.requests.rotating import ROTATED, RotateKeys, RotateQueries
from oracles import layout, rotate, rotate_codes
from oracles.eightbit_subnormals import MODES
from oracles.normalise import Range
from oracles.rotate import Turn
from oracles.rotate_codes import Rule, Settled

FEW_CODES = {"fp4": 12, "fp8": 100}
SHOWING = ("natural", "spread")
"""Fills of which nearly every code is expected."""
Judged = tuple[list[Difference | None], Settled, str]


def check(case: Case, path: Path) -> Verdict:
    """Compare what the path wrote, and what it left alone, with the oracle."""
    book, asked = Book(case, path), build(case)
    before = [tensor.clone() for tensor in asked.outputs]
    got = book.ask(asked)
    wrong = _arity(book, got, asked)
    if wrong is not None:
        return wrong
    answers = (asked.outputs, *book.others)
    differences, right, mode = _judged(asked, before, answers, book.facts.get(SUBNORMALS))
    grade = grade_of(asked, right)
    for name, difference in zip(ROTATED, differences, strict=True):
        if difference is not None:
            book.note(f"{name}: {difference.count} of {difference.total} differ")
    for name, difference in reversed(list(zip(ROTATED, differences, strict=True))):
        if difference is not None:  # a wrong scale makes the codes below it wrong as well
            return book.differ(difference, grade, where=_where(name, difference, asked))
    book.total += sum(tensor.numel() for tensor in asked.outputs)
    book.facts |= {SUBNORMALS: mode, "bytes with several right values": right.open_bytes}
    if apart := book.facts.get("bytes with several results", 0):
        book.note(f"{apart} bytes came out in several ways, one of them right in each")
    to = asked.to if isinstance(asked, RotateQueries) else "fp4"
    shown = len(right.codes.unique())
    book.doubt(case.f in SHOWING and shown < FEW_CODES[to], f"{shown} codes occur")
    return book.agree(grade)


def turn_of(asked: Request) -> Turn:
    return Turn(asked.cos, asked.sin, asked.hadamard)


def values_of(asked: Request, turn: Turn, mode: str) -> Range:
    """The rows that are quantised, after everything before: [T, H, D] of queries, [kept, D] of keys."""
    if isinstance(asked, RotateQueries):
        return rotate.turned(turn, rotate.plain(asked.x), asked.positions, mode=mode)
    kept = asked.slots >= 0
    normal = rotate.normal(asked.x[kept, 0], asked.norm_weight, asked.epsilon, mode=mode)
    return rotate.turned(turn, normal, asked.positions[kept], mode=mode)


def want(
    asked: Request, before: Sequence[Tensor], found: Sequence[Tensor], *, mode: str
) -> tuple[list[Tensor], Settled]:
    """(codes and scales as they must be in ``mode``, what they hold): as near to ``found`` as is right."""
    made, values = [tensor.clone() for tensor in before], values_of(asked, turn_of(asked), mode)
    if isinstance(asked, RotateQueries):
        rule = Rule(asked.to, asked.group)
        codes = layout.unpack_nibbles(found[0]) if asked.to == "fp4" else found[0]
        held = rotate_codes.read_query_scales(found[1], asked.x.shape[1], shuffled=asked.shuffled)
        right = rotate_codes.settle(rule, values, codes, held, mode=mode)
        made[0] = layout.pack_nibbles(right.codes) if asked.to == "fp4" else right.codes
        made[1] = rotate_codes.query_scales(right.scales, shuffled=asked.shuffled)
        return made, right
    slots, rule = asked.slots[asked.slots >= 0], Rule("fp4", asked.group)
    codes, held = rotate_codes.read_keys(found[0], found[1], slots, shuffled=asked.shuffled)
    right = rotate_codes.settle(rule, values, codes, held, mode=mode)
    rotate_codes.write_keys(made[0], made[1], right.codes, right.scales, slots, shuffled=asked.shuffled)
    return made, right


def grade_of(asked: Request, right: Settled) -> Grade:
    """What equality was required; exact where any order of the transform's additions gives the bits."""
    if right.open_bytes:
        return Grade.BOUNDED
    if not asked.hadamard:
        return Grade.EXACT
    turn = turn_of(asked)
    added = values_of(asked, Turn(turn.cos, turn.sin, hadamard=False), "kept")
    return Grade.EXACT if bool(rotate.exactly(added).all()) else Grade.ORDERED


def _judged(
    asked: Request, before: Sequence[Tensor], answers: Sequence[Sequence[Tensor]], stated: str | None
) -> Judged:
    """(what is wrong with each output, what is right, the mode): in ``stated``, else in the better."""
    tried: list[Judged] = []
    for mode in MODES if stated is None else (stated,):
        wanted = [want(asked, before, answer, mode=mode) for answer in answers]
        wrong = []
        for place in range(len(ROTATED)):
            right = [one[0][place] for one in wanted]
            found = several.met([answer[place] for answer in answers], right)
            wrong.append(_compared(found, right[0]))
        tried.append((wrong, wanted[0][1], mode))
        if not any(wrong):
            break
    return min(tried, key=lambda one: sum(difference.count for difference in one[0] if difference))


def _arity(book: Book, got: object, asked: Request) -> Verdict | None:
    """The answer must be the request's own buffers."""
    if not isinstance(got, tuple) or len(got) != len(ROTATED):
        return book.differ(compare.arity(got, len(ROTATED)), Grade.EXACT)
    for name, mine, own in zip(ROTATED, got, asked.outputs, strict=True):
        wrong = compare.shape(mine, own.shape, own.dtype) or _compared(mine, own)
        if wrong is not None:
            shared = "the answer is not what is in the caller's buffer"
            return book.differ(wrong, Grade.EXACT, where={"tensor": name}, shared=shared)
    return None


def _compared(found: Tensor, right: Tensor) -> Difference | None:
    return (floats if right.dtype == torch.float32 else compare.integers)(found, right)


def _where(name: str, wrong: Difference, asked: Request) -> dict[str, int | str]:
    """Coordinates of the first difference, and the key whose byte it is."""
    shape = dict(zip(ROTATED, asked.outputs, strict=True))[name].shape
    last = "byte" if name == "codes" else "group"
    axes = {
        2: ("row", last),
        3: ("row", "head", "byte"),
        4: ("block", "tile", "group", "place"),
        5: ("block", "tile", "group", "row", "byte") if isinstance(asked, RotateKeys) else
        ("row", "tile", "group", "head % 16", "head // 16"),
    }  # fmt: skip
    spot: dict[str, int | str] = {"tensor": name, **named(wrong, *axes[len(shape)])}
    if not isinstance(asked, RotateKeys) or not wrong.first:
        return spot
    slot = wrong.first[0]
    if asked.shuffled:
        row = wrong.first[3]
        row = row if name == "codes" else layout.flat_row(row, page_rows=asked.page)
        slot = slot * asked.page + row
    owner = (asked.slots == slot).nonzero().flatten()
    return spot | {"slot": slot, "key": int(owner[0]) if len(owner) else "none, it must stay as it was"}
