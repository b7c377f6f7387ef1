"""Suite gate: is FP4 taken exactly where it may be, with one warning otherwise, and does the rest raise?

Whoever asks must get one verdict (a cache of one kind and a scorer of the other is found out much
later), so the builder and several indexers are asked. Every way a configuration has to say "not set"
is tried. A refusal must name what blocked, and the same request without the blocker must pass,
so that a path that refuses everything is found out too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch

from harness.case.cases import Case
from harness.checks.book import Book
from harness.judge.compare import Difference
from harness.judge.verdict import Grade, Verdict
from harness.paths.base import Path
from harness.paths.requests.gating import Gated, Predicate, Refusal
from oracles import gate

LAYERS = 3
"""Indexers that ask after the builder."""
ATTRIBUTES = {"index_topk": "k", "index_head_dim": "d", "index_n_heads": "h", "index_kpool": "kpool"}
UNSET = ("absent", "None", "0")
OTHER_PAGES = (1, 16, 32, 63, 65, 128, 256)
"""Page sizes that must be refused: half and double, one either side, and the page of other caches."""


def check(case: Case, path: Path) -> Verdict:
    """Ask the gate of the path, and compare with the rule of its family."""
    book = Book(case, path)
    wrong = _refused(book) if case.kind == "refusal" else _decided(book)
    return wrong or book.agree(Grade.EXACT)


def _decided(book: Book) -> Verdict | None:
    case = book.case
    asked = None if case.ask == "none" else case.ask
    for how, config in spellings(case):
        got = book.ask(Predicate(case.rule, asked, config, case.chip, LAYERS))
        shape = gate.Shape(*(config.get(name) for name in ATTRIBUTES))
        want = gate.decide(gate.RULES[case.rule], asked, shape, case.chip)
        if want.taken is None and isinstance(got, Gated):
            want = gate.settled(want, taken=got.taken[:1] == (True,))
            verdict = "taken" if want.taken else "not taken"
            book.note(f"FP4 is {verdict} on {case.chip}, which rule {case.rule} leaves open")
        wrong = judged(got, want, case.chip)
        if wrong is not None:
            where: dict[str, int | str] = {"unset": how} if how else {}
            if wrong.cells.numel():
                where["asked by"] = _asker(wrong.first[0])
            return book.differ(wrong, Grade.EXACT, where=where, step=f"{case.ask} on {case.chip}")
        book.total += len(got.taken) + 2
    return None


def spellings(case: Case) -> Iterator[tuple[str, Mapping[str, int | None]]]:
    """The configurations that ``case`` can stand for, and how each says that something is not set."""
    values = {name: getattr(case, field) for name, field in ATTRIBUTES.items()}
    is_set: dict[str, int | None] = {name: value for name, value in values.items() if value}
    if len(is_set) == len(values):
        yield "", is_set
        return
    for how in UNSET:
        rest = dict.fromkeys(values.keys() - is_set.keys(), None if how == "None" else 0)
        yield how, is_set if how == "absent" else {**is_set, **rest}


def judged(got: object, want: gate.Decision, chip: str) -> Difference | None:
    """The first thing that is wrong with an answer: verdicts, then look-ups of the chip, then warnings."""
    if not isinstance(got, Gated) or not all(isinstance(one, bool) for one in got.taken):
        return _differs("shape", f"the answer is {got!r}, no verdicts", "", "")
    if len(got.taken) != 1 + LAYERS:
        return _differs("shape", "not one verdict a question", str(len(got.taken)), str(1 + LAYERS))
    others = [place for place, taken in enumerate(got.taken) if taken != want.taken]
    if others:
        reason = "FP4 is not taken" if want.taken else f"FP4 is taken in spite of {_listed(want, chip)}"
        if len(others) < len(got.taken):
            reason = f"{reason}, and not by all who ask"
        count = len(others)
        return _differs("bits", reason, str(got.taken[others[0]]), str(want.taken), others, count)
    if want.probes is not None and got.probes != want.probes:
        return _differs("bits", "the chip is looked up for nothing", str(got.probes), str(want.probes))
    if len(got.warnings) != want.warnings:
        return _differs("bits", "not as many warnings as are due", str(len(got.warnings)), str(want.warnings))
    unnamed = [text for text in got.warnings if not gate.named(text, want.blockers, chip)]
    if unnamed:
        return _differs("bits", "the warning does not name what blocks", unnamed[0], _listed(want, chip))
    return None


def _refused(book: Book) -> Verdict | None:
    case = book.case
    served = book.ask(Refusal(case.rule, case.by, blocked=False, page=gate.PAGE))
    if served is not None:
        wrong = _differs("refusal", "refused what it serves", str(served), "no refusal")
        return book.differ(wrong, Grade.EXACT, step=f"without {case.by}")
    pages = OTHER_PAGES if case.by == "page" else (gate.PAGE,)
    for page in pages:
        step = f"{case.by}, pages of {page} rows"
        message = book.ask(Refusal(case.rule, case.by, blocked=True, page=page))
        if message is None:
            return book.refuse(f"FP4 in spite of {case.by}", step)
        if not gate.named(str(message), (case.by,)):
            wrong = _differs("refusal", "the refusal does not name what blocks", str(message), case.by)
            return book.differ(wrong, Grade.EXACT, step=step)
    book.total += 1 + len(pages)
    return None


def _listed(want: gate.Decision, chip: str) -> str:
    names = [chip if name == "chip" else name for name in want.blockers]
    return ", ".join(names) or "another dtype asked for"


def _asker(place: int) -> str:
    return f"indexer {place - 1}" if place else "builder"


def _differs(
    layer: str, reason: str, got: str, want: str, places: list[int] | None = None, count: int = 1
) -> Difference:
    cells = torch.tensor(places or [], dtype=torch.int64).reshape(-1, 1)
    return Difference(layer, reason, cells, got=got, want=want, count=count, total=1 + LAYERS)
