"""Runs a pipeline: as one chain, or stage by stage on the oracle's inputs.

As a chain, a wrong stage spoils what follows; each is held against the oracle on what the stages before it
left, since more than one outcome of those may be right. Alone, each stage is given what the oracle left, so
the one at fault is the one that differs on its own. Where none does and the chain still goes wrong, the
fault lies in something the stages do not pass on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.judge.verdict import Grade
from harness.paths.base import Path, Unsupported
from harness.paths.oracle import OraclePath
from harness.pipeline import eightbit, stages
from harness.pipeline.judging import Wrong, judged
from harness.pipeline.raw import Raw
from harness.pipeline.stages import Answer, Held, Ran, Stage
from harness.pipeline.written import Written

ORACLE = OraclePath()


@dataclass(frozen=True)
class Done:
    """A stage that ran: what differs (None: nothing), values compared and how; or why it was not asked."""

    stage: Stage
    wrong: Wrong | None
    compared: int = 0
    grade: Grade = Grade.EXACT
    refused: str = ""
    written: Written | None = None


def chained(raw: Raw, answer: Answer, path: Path) -> Iterator[Done]:
    """Each stage on what ``answer`` itself left, up to the first that differs; ``path`` is who is asked."""
    held = Held()
    for stage in _stages(raw):
        ran = stages.run(stage, raw, held, answer)
        want = stages.run(stage, raw, held, ORACLE.run).left
        done = _done(raw, stage, ran, want, held, path)
        yield done
        if done.wrong is not None:
            return
        # Of a selection any order is right, and the stages after it are asked for the oracle's.
        held |= want if stage.free else ran.left


def alone(raw: Raw, answer: Answer, path: Path) -> Iterator[Done]:
    """Each stage by itself, in order, on what the oracle's chain left."""
    held = Held()
    for stage in _stages(raw):
        want = stages.run(stage, raw, held, ORACLE.run).left
        try:
            ran = stages.run(stage, raw, held, answer)
        except Unsupported as refusal:
            yield Done(stage, None, refused=str(refusal))
        else:
            yield _done(raw, stage, ran, want, held, path)
        held |= want


def _stages(raw: Raw) -> tuple[Stage, ...]:
    return (eightbit if raw.case.kind == "fp8" else stages).of(raw)


def _done(raw: Raw, stage: Stage, ran: Ran, want: Held, held: Held, path: Path) -> Done:
    found = judged(raw, stage, ran, want, held, path)
    compared = 0 if found.wrong else sum(tensor.numel() for tensor in want.values())
    return Done(stage, found.wrong, compared, found.grade, written=found.written)
