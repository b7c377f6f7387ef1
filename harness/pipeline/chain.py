"""Runs a pipeline: as one chain, or stage by stage on the oracle's inputs.

As a chain, a wrong stage spoils what follows; alone, each stage is given what the oracle left, so the
one at fault is the one that differs on its own. Where none does and the chain still goes wrong, the
fault lies in something the stages do not pass on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.judge.verdict import Grade
from harness.paths.base import Path, Unsupported
from harness.paths.oracle import OraclePath
from harness.pipeline import eightbit, stages
from harness.pipeline.judging import Wrong, first_wrong, grade
from harness.pipeline.raw import Raw
from harness.pipeline.stages import Ask, Held, Stage


@dataclass(frozen=True)
class Done:
    """A stage that ran: what differs (None: nothing), values compared and how; or why it was not asked."""

    stage: Stage
    wrong: Wrong | None
    compared: int = 0
    grade: Grade = Grade.EXACT
    refused: str = ""


def oracle(raw: Raw) -> list[tuple[Stage, Held, Held]]:
    """(stage, what it was given, what it left) of the oracle's chain."""
    answer, held = OraclePath(), Held()
    steps = []
    for stage in (eightbit if raw.case.kind == "fp8" else stages).of(raw):
        left = stages.run(stage, raw, held, lambda request: answer.run(request).value)
        steps.append((stage, dict(held), left))
        held |= left
    return steps


def chained(raw: Raw, ask: Ask, path: Path) -> Iterator[Done]:
    """Each stage on what ``ask`` itself left, up to the first that differs; ``path`` is who is asked."""
    held = Held()
    for stage, _, want in oracle(raw):
        got = stages.run(stage, raw, held, ask)
        wrong = first_wrong(raw, stage, got, want, held, path)
        compared = 0 if wrong else sum(tensor.numel() for tensor in want.values())
        yield Done(stage, wrong, compared, grade(raw, stage, held, path))
        if wrong is not None:
            return
        held |= got
        if stage.free:  # any right choice is right, and those after it are compared with the oracle's
            held |= {name: want[name] for name in want}


def alone(raw: Raw, ask: Ask, path: Path) -> Iterator[Done]:
    """Each stage by itself, in order."""
    for stage, before, want in oracle(raw):
        try:
            got = stages.run(stage, raw, before, ask)
        except Unsupported as refusal:
            yield Done(stage, None, refused=str(refusal))
            continue
        compared = sum(tensor.numel() for tensor in want.values())
        wrong = first_wrong(raw, stage, got, want, before, path)
        yield Done(stage, wrong, compared, grade(raw, stage, before, path))
