"""Kind writer of suite fp8: the fused writer, byte for byte: query codes, folded weights, pages whole.

Everything that is written holds noise before, so a byte that is written though it must not be shows; rows
without a slot, padding rows with positions past any table among them, leave theirs as they were. Queries
have one right value; a key has more where float32's order of summation decides, and how many bytes do is
in the verdict. A path whose kernel may come out in several ways is right in a byte where one of them is.
Subnormal numbers are kept or flushed throughout (`oracles.eightbit_subnormals`): the path says which, or else
its whole answer must be right in one of the two. All outputs are compared before a verdict, which names each
that differs: queries that are wrong beside keys that are right are another fault than both.
Slots may come as int32 (`harness.checks.writer.narrow`). Inputs of even seeds have gaps between their rows,
and pages rows of 144 bytes instead of 132.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from harness.case.cases import Case
from harness.checks.book import Book
from harness.checks.fp8.stages import floats, named
from harness.checks.writer import inputs as writer_inputs
from harness.checks.writer import narrow
from harness.fill import fill_writer, noise
from harness.judge import compare, several
from harness.judge.compare import Difference
from harness.judge.verdict import Grade, Verdict
from harness.paths.base import Path
from harness.paths.requests.eightbit import SUBNORMALS, WRITTEN_TOKENS8, WriteTokens8
from oracles import eightbit, eightbit_pages, eightbit_writer
from oracles.eightbit_subnormals import MODES
from oracles.eightbit_writer import Settled8, Writer8

ROW_BYTES = (144, 132)
FEW_CODES = 200
"""Of 254 codes that are numbers; spread queries show more (a test says so)."""
AXES = {
    "q_codes": ("row", "head", "column"),
    "weights_out": ("row", "head"),
    "cache": ("block", "row", "byte"),
}


def check(case: Case, path: Path) -> Verdict:
    """Compare what the path's writer wrote, and what it left alone, with the oracle."""
    book, asked = Book(case, path), build(case)
    before = [tensor.clone() for tensor in asked.outputs]
    try:
        got = narrow.asked_of(book, asked) if case.f == narrow.FILL else book.ask(asked)
    except narrow.Refused as refusal:
        return narrow.refused(book, asked, before, refusal)
    wrong = _arity(book, got, asked)
    if wrong is not None:
        return wrong
    answers = (asked.outputs, *book.others)
    found, right, keys, mode = nearest(asked, before, answers, book.facts.get(SUBNORMALS))
    differences = compared(found, right)
    wrong_ones = {name: difference for name, difference in differences.items() if difference is not None}
    if wrong_ones:
        for name, difference in differences.items():
            book.note(
                f"{name}: {difference.count} of {difference.total} differ" if difference else f"{name}: right"
            )
        name, first = next(iter(wrong_ones.items()))
        shared = narrow.SAID if case.f == narrow.FILL else ""
        return book.differ(first, _grade(keys), where=_where(name, first, asked), shared=shared)
    book.total += sum(tensor.numel() for tensor in asked.outputs)
    book.facts[SUBNORMALS] = mode
    if apart := book.facts.get("bytes with several results", 0):
        book.note(f"{apart} bytes came out in several ways, one of them right in each")
    kept = asked.slots >= 0
    book.facts |= {
        "bytes with several right values": keys.open_bytes,
        "rows written": int(kept.sum()),
        "rows without a slot": int((~kept).sum()),
    }
    shown = len(asked.q_codes[kept].unique())
    book.doubt(case.f == "spread" and shown < FEW_CODES, f"{shown} of 254 query codes occur")
    return book.agree(_grade(keys))


def build(case: Case) -> WriteTokens8:
    """The request of a case: ``case.r`` rows, every fifth without a slot, and ``case.p`` padding rows."""
    rows = case.r + case.p
    slots, blocks = writer_inputs.slots_of(case)
    positions = writer_inputs.positions_of(case, slots)
    clamped = torch.where(slots < 0, positions.clamp(0, writer_inputs.POSITIONS - 1), positions)
    drawn = fill_writer.fill(case.f, fill_writer.Asked(case.h, clamped, case.s))
    weights = noise.gaussian(case.s, "writer/weights", (rows, case.h)).bfloat16()
    q, k, (cos, sin) = drawn.q, drawn.k, writer_inputs.tables()
    if case.s % 2 == 0:
        weights, k = writer_inputs.gapped(weights, 16), writer_inputs.gapped(k, 64)
        q = writer_inputs.gapped_queries(q)
        cos, sin = writer_inputs.gapped(cos, 32), writer_inputs.gapped(sin, 96)
    sizes = ((rows, case.h, case.d), (rows, 4 * case.h), (blocks, 64, ROW_BYTES[case.s % 2]))
    before = [noise.octets(case.s, f"writer/before/{place}", size) for place, size in enumerate(sizes)]
    return WriteTokens8(
        q, k, weights, drawn.norm_weight, drawn.norm_bias, cos, sin, positions, slots,
        writer_inputs.EPSILON, case.d**-0.5 * case.h**-0.5, case.pair, case.fmt, bool(case.ue), case.tile,
        before[0], before[1].view(torch.float32), before[2],
    )  # fmt: skip


def writer_of(asked: WriteTokens8) -> Writer8:
    """The oracle's writer of a request."""
    return Writer8(
        asked.norm_weight, asked.norm_bias, asked.cos, asked.sin, asked.pairing,
        eightbit.FORMATS[asked.fmt], asked.ue, asked.tile, asked.weights_scale, asked.epsilon,
    )  # fmt: skip


def nearest(
    asked: WriteTokens8, before: Sequence[Tensor], answers: Sequence[Sequence[Tensor]], stated: str | None
) -> tuple[dict[str, Tensor], dict[str, Tensor], Settled8, str]:
    """(what was found, what is right, the keys, the mode): in the ``stated`` mode, or in the better of both.

    What was found is the first of ``answers``, with what is right in every cell where another is right.
    """
    tried = []
    for mode in MODES if stated is None else (stated,):
        wanted = [want(asked, before, answer, mode=mode) for answer in answers]
        right = dict(zip(WRITTEN_TOKENS8, wanted[0][0], strict=True))
        found = {
            name: several.met([answer[place] for answer in answers], [one[0][place] for one in wanted])
            for place, name in enumerate(WRITTEN_TOKENS8)
        }
        wrong = sum(difference.count for difference in compared(found, right).values() if difference)
        tried.append((wrong, found, right, wanted[0][1], mode))
        if not wrong:
            break
    return min(tried, key=lambda one: one[0])[1:]


def compared(found: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> dict[str, Difference | None]:
    """What is wrong with each output."""
    return {name: _compared(found[name], right[name]) for name in right}


def want(
    asked: WriteTokens8, before: Sequence[Tensor], found: Sequence[Tensor], *, mode: str = "kept"
) -> tuple[list[Tensor], Settled8]:
    """(the three outputs as they must be in ``mode``, the keys): as near to ``found`` as is right."""
    writer, kept = writer_of(asked), asked.slots >= 0
    made = [tensor.clone() for tensor in before]
    place, slots = asked.positions[kept], asked.slots[kept]
    if bool(kept.any()):
        made[0][kept], made[1][kept] = eightbit_writer.settle_queries(
            writer, asked.q[kept], asked.weights[kept], place, found[0][kept], mode=mode
        )
    values = eightbit_writer.key_range(writer, asked.k[kept], place, mode=mode)
    held = eightbit_pages.read_slots(found[2], slots, asked.tile)
    right = eightbit_writer.settle(writer, values, *held)
    eightbit_pages.write_keys(made[2], right.codes, right.scales, slots, asked.tile)
    return made, right


def _arity(book: Book, got: object, asked: WriteTokens8) -> Verdict | None:
    """The answer must be the request's own buffers."""
    if not isinstance(got, tuple) or len(got) != len(WRITTEN_TOKENS8):
        return book.differ(compare.arity(got, len(WRITTEN_TOKENS8)), Grade.EXACT)
    for name, mine, own in zip(WRITTEN_TOKENS8, got, asked.outputs, strict=True):
        wrong = compare.shape(mine, own.shape, own.dtype) or _compared(mine, own)
        if wrong is not None:
            shared = "the answer is not what is in the caller's buffer"
            return book.differ(wrong, Grade.EXACT, where={"tensor": name}, shared=shared)
    return None


def _compared(found: Tensor, right: Tensor) -> Difference | None:
    return (floats if right.dtype == torch.float32 else compare.integers)(found, right)


def _grade(keys: Settled8) -> Grade:
    return Grade.BOUNDED if keys.open_bytes else Grade.EXACT


def _where(name: str, wrong: Difference, asked: WriteTokens8) -> dict[str, int | str]:
    """Coordinates of the first difference and whose it is."""
    spot: dict[str, int | str] = {"tensor": name, **named(wrong, *AXES[name])}
    if not wrong.first:
        return spot
    if name != "cache":
        row = wrong.first[0]
        return spot | {"position": int(asked.positions[row]), "slot of the row": int(asked.slots[row])}
    block, row, byte = wrong.first
    spot |= eightbit_pages.named(row * asked.cache.shape[2] + byte, asked.tile)
    slot = spot["slot"]
    place = block * eightbit_pages.PAGE_ROWS + slot if isinstance(slot, int) else -1
    owners = [row for row, held in enumerate(asked.slots.tolist()) if held == place >= 0]
    if not owners:
        return spot | {"written by row": "none, it must stay as it was"}
    return spot | {"written by row": owners[0], "position": int(asked.positions[owners[0]])}
