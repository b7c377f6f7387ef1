"""Suite pipeline: raw tokens to selected keys in one chain, each stage on what the path's own left.

Stages that a path does not have, or cannot run here, are the oracle's, and the verdict says which; a path
that has none of them is out of scope, not green. `harness localize` runs the stages apart.
"""

from __future__ import annotations

from harness.case.cases import Case
from harness.checks.book import Book
from harness.judge.verdict import SUBJECTS, Grade, Verdict
from harness.paths.base import OutOfScope, Path
from harness.pipeline import chain, raw
from harness.pipeline.judging import Wrong


def check(case: Case, path: Path) -> Verdict:
    """Compare the path's chain with the oracle's, stage for stage."""
    book = Book(case, path)
    wrong, compared = chain.chained(raw.build(case), book.stage)
    own = set(book.facts[SUBJECTS]) - book.stood_in
    if not own:
        raise OutOfScope(f"path {path.name} has no stage of the pipeline")
    book.facts["stages of the path"] = sorted(own)
    book.total += compared
    if wrong is not None:
        return book.differ(wrong.difference, Grade.EXACT, where=where(wrong), step=f"for stage {wrong.stage}")
    book.doubt(max(case.ctx) <= case.k, "no sequence has more than k keys, so nothing is selected")
    return book.agree(Grade.EXACT)


def where(wrong: Wrong) -> dict[str, int | str]:
    """Stage, tensor, rank and the place in it."""
    name, _, rank = wrong.tensor.rpartition(" ")
    place: dict[str, int | str] = {"stage": wrong.stage, "tensor": name or wrong.tensor, "rank": rank}
    return place | {f"axis {axis}": index for axis, index in enumerate(wrong.difference.first)}
