"""Runs a pipeline: as one chain, or stage by stage on the oracle's inputs.

As a chain, a wrong stage spoils what follows; alone, each stage is given what the oracle left, so the
one at fault is the one that differs on its own. Where none does and the chain still goes wrong, the
fault lies in something the stages do not pass on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.paths.base import Unsupported
from harness.paths.oracle import OraclePath
from harness.pipeline import stages
from harness.pipeline.judging import Wrong, first_wrong
from harness.pipeline.raw import Raw
from harness.pipeline.stages import Ask, Held, Stage


@dataclass(frozen=True)
class Alone:
    """One stage on the oracle's inputs: what differs (None: nothing), or why it could not be asked."""

    stage: Stage
    wrong: Wrong | None
    refused: str = ""


def oracle(raw: Raw) -> list[tuple[Stage, Held, Held]]:
    """(stage, what it was given, what it left) of the oracle's chain."""
    answer, held = OraclePath(), Held()
    steps = []
    for stage in stages.of(raw):
        left = stages.run(stage, raw, held, lambda request: answer.run(request).value)
        steps.append((stage, dict(held), left))
        held |= left
    return steps


def chained(raw: Raw, ask: Ask) -> tuple[Wrong | None, int]:
    """(first difference of the chain that ``ask`` answers, values compared)."""
    held, compared = Held(), 0
    for stage, before, want in oracle(raw):
        got = stages.run(stage, raw, held, ask)
        wrong = first_wrong(raw, stage, got, want, {**before, **want})
        if wrong is not None:
            return wrong, compared
        compared += sum(tensor.numel() for tensor in want.values())
        held |= got
        if stage.free:  # any right choice is right, and those after it are compared with the oracle's
            held |= {name: want[name] for name in want}
    return None, compared


def alone(raw: Raw, ask: Ask) -> Iterator[Alone]:
    """Each stage by itself, in order."""
    for stage, before, want in oracle(raw):
        try:
            got = stages.run(stage, raw, before, ask)
        except Unsupported as refusal:
            yield Alone(stage, None, str(refusal))
            continue
        yield Alone(stage, first_wrong(raw, stage, got, want, {**before, **want}))
