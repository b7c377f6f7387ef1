"""What is said of a red case once its commit is known: the fault it looks like, and its smallest form.

Both are asked of the harness that gave the verdicts, in a process each, at the commit that is named; one that
takes too long, or that a commit of this project has not, is a sentence and ends nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.bisect.evaluating import Evaluator
from harness.exits import DIFFER, UNPROVEN, USAGE

NO_COMMAND = "invalid choice"
FROM = {"diagnose": "", "reduce": "smallest"}
"""Command to the head of the line from which on its output is the answer."""
ANSWERED = {"diagnose": (0, DIFFER, UNPROVEN), "reduce": (0,)}


@dataclass(frozen=True)
class Explained:
    """``text``: what the command said, or a sentence about why it said nothing."""

    command: str
    text: str


def explain(evaluator: Evaluator, case: str, directory: Path, seconds: float) -> list[Explained]:
    """The diagnosis and the reduction of ``case`` at the commit that is checked out.

    ``directory`` keeps the script of the reduction; ``seconds``: for each of the two, 0 for none.
    """
    if not seconds:
        return []
    more: dict[str, Sequence[str]] = {"diagnose": (), "reduce": ("--dir", str(directory.resolve()))}
    return [
        Explained(command, _said(evaluator, command, [case, *more[command]], seconds)) for command in FROM
    ]


def _said(evaluator: Evaluator, command: str, words: Sequence[str], seconds: float) -> str:
    with tempfile.TemporaryDirectory(prefix="harness-bisect-") as name:
        code, text = evaluator.call([command, *words], Path(name), seconds)
    lines = text.strip().splitlines()
    if code is None:
        return f"harness {command} took longer than {seconds:g} s (--explain)"
    if code == USAGE and NO_COMMAND in text:
        return f"this harness has no command {command}"
    if code not in ANSWERED[command]:
        return f"harness {command} came to nothing: {lines[-1] if lines else f'exit code {code}'}"
    first = next((place for place, line in enumerate(lines) if line.startswith(FROM[command])), 0)
    return "\n".join(lines[first:])


def text(explained: Sequence[Explained]) -> str:
    """As people read it: a paragraph each."""
    parts = []
    for one in explained:
        lines = (f"  {line}".rstrip() for line in one.text.splitlines())
        parts.append("\n".join([one.command, *lines]))
    return "\n\n".join(parts)


def markdown(explained: Sequence[Explained]) -> str:
    """A section each."""
    return "".join(f"\n## harness {one.command}\n\n```\n{one.text}\n```\n" for one in explained)
