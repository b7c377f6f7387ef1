"""Suite pipeline: raw tokens to selected keys in one chain, each stage on what the path's own left.

Stages that a path does not have, or cannot run here, are the oracle's, and the verdict says which; a path
that has none of them is out of scope, not green. ``facts["stages"]`` has who ran what in each stage. What a
kernel did besides is told with its stage, whose values may be right all the same. `harness localize` runs the
stages apart.
"""

from __future__ import annotations

from typing import Any

from harness.case.cases import Case
from harness.checks.book import Book, merged, weakest
from harness.judge.verdict import SUBJECTS, Grade, Verdict
from harness.paths.base import OutOfScope, Path
from harness.paths.requests.eightbit import SUBNORMALS
from harness.pipeline import chain, raw
from harness.pipeline.judging import Wrong
from harness.pipeline.unfused import Unfused
from harness.pipeline.witness import Witness
from harness.pipeline.written import Written
from harness.record.stages import STAGES

OPEN_BYTES = "bytes with several right values"
"""Fact of a verdict: of all that its fused writer wrote."""


def check(case: Case, path: Path) -> Verdict:
    """Compare the path's chain with the oracle's, stage for stage."""
    witness = Witness(path)
    book = Book(case, Unfused(witness))
    wrong, grades, told = None, [Grade.EXACT], 0
    records: list[dict[str, Any]] = []
    for done in chain.chained(raw.build(case), book.staged, path):
        found, told = merged(book.findings[told:]), len(book.findings)
        records += witness.took(done.stage.name, found)
        book.total += done.compared
        grades.append(done.grade)
        wrong = done.wrong
        if done.written is not None:
            told_of(book, done.stage.name, done.written)
    for one in records:
        for finding in one["findings"]:
            what = f"{finding['kind']} of {finding['operand']}"
            book.note(f"{what} came up in stage {one['stage']}")
    own = set(book.facts[SUBJECTS]) - book.stood_in
    if not own:
        raise OutOfScope(f"path {path.name} has no stage of the pipeline")
    book.facts |= {"stages of the path": sorted(own), STAGES: records}
    if wrong is not None:
        return book.differ(wrong.difference, grades[-1], where=where(wrong), step=f"for stage {wrong.stage}")
    book.doubt(max(case.ctx) <= case.k, "no sequence has more than k keys, so nothing is selected")
    return book.agree(weakest(grades))


def told_of(book: Book, stage: str, written: Written) -> None:
    """Keep how many bytes of a fused writer have several right values, or came out in several ways."""
    open_bytes = book.facts.get(OPEN_BYTES, 0)
    book.facts |= {SUBNORMALS: written.mode, OPEN_BYTES: open_bytes + written.open_bytes}
    if written.apart:
        book.note(f"{written.apart} bytes of stage {stage} came out in several ways")


def where(wrong: Wrong) -> dict[str, int | str]:
    """Stage, tensor, rank and the place in it."""
    name, _, rank = wrong.tensor.rpartition(" ")
    place: dict[str, int | str] = {"stage": wrong.stage, "tensor": name or wrong.tensor, "rank": rank}
    return place | {f"axis {axis}": index for axis, index in enumerate(wrong.difference.first)}
