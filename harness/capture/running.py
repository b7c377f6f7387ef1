"""Run a capture on paths and on what it holds of its engine; the exit code that this comes to.

What the engine made must not vouch for a path: a path that refuses the capture leaves it unproven
although the captured logits agree, so the two are weighed apart.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from harness import exits, runner
from harness.capture import judging
from harness.capture.format import SUITE
from harness.capture.inputs import case_of
from harness.capture.loading import Capture
from harness.judge.ledger import Ledger
from harness.judge.verdict import Verdict
from harness.paths.base import Path

WORST_FIRST = (exits.DIFFER, exits.ERROR, exits.UNPROVEN, exits.AGREE)


def subjects(capture: Capture, paths: Sequence[Path]) -> list[Path]:
    """Who is judged: what was captured first, then each path."""
    return [*([judging.Captured()] if judging.has_subject(capture) else []), *paths]


def verdicts(capture: Capture, paths: Sequence[Path], ledger: Ledger) -> Iterator[Verdict]:
    """One verdict for each of `subjects`, as they end."""
    case = case_of(capture)
    for path in subjects(capture, paths):
        yield runner.run(case, path, ledger).but(rerun=rerun(capture, path))


def rerun(capture: Capture, path: Path) -> str:
    """The command line that runs the capture again; the captured results need no kernels for it."""
    extra: tuple[str, ...] = getattr(path, "rerun_args", ())
    name = "oracle" if isinstance(path, judging.Captured) else path.name
    words = ["python", "-m", "harness", "check", "--capture", str(capture.folder), "--path", name, *extra]
    return shlex.join(words)


def exit_code(records: Iterable[Mapping[str, Any]]) -> int:
    """The worse of what the paths come to and what the captured results come to."""
    of_paths: list[Mapping[str, Any]] = []
    of_engine: list[Mapping[str, Any]] = []
    for record in records:
        (of_engine if record["path"] == judging.Captured.name else of_paths).append(record)
    codes = [exits.of_records(of_paths, asked={SUITE})]
    if of_engine:
        codes.append(exits.of_records(of_engine, asked={SUITE}))
    return next(code for code in WORST_FIRST if code in codes)


def about(capture: Capture) -> dict[str, Any]:
    """What provenance keeps of a capture."""
    manifest = capture.manifest
    return {
        "capture": str(capture.folder),
        "id": capture.id,
        "sha256": capture.digest,
        "versions": dict(manifest.versions),
        "note": manifest.note,
    }
