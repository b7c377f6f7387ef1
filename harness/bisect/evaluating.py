"""One evaluation: a process of its own, with a limit of time, whose verdicts are read from its JSON file.

A word comes from verdicts and never from an exit code: Python's own code for an import that fails is 1,
which would be taken for a difference.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.bisect import packages
from harness.bisect.judging import Answer
from harness.bisect.subject import Subject

SUITE = "suite "
DROPPED = ("heat", "facts")
"""Of a record, what nobody reads here."""


@dataclass(frozen=True)
class Evaluator:
    """Asks the commit that is checked out in ``tree``. ``limit``: seconds an evaluation may take.

    ``ahead``: a folder with a package that is imported instead of the installed one.
    """

    subject: Subject
    tree: Path
    limit: int
    ahead: Path | None = None

    def ask(self, commit: str, asked: str) -> Answer:
        """``asked``: a case id, or ``suite NAME``. Raises nothing of what the process does."""
        began = time.monotonic()
        lacking = self.subject.lacks(self.tree)
        if lacking:
            return Answer(commit, asked, failure=lacking)
        with tempfile.TemporaryDirectory(prefix="harness-bisect-") as name:
            folder = Path(name)
            failure = self._run(asked, folder)
            records, incomplete = _read(folder / "verdicts.json")
        failure = failure if not records else incomplete
        place = {str(self.tree): self.subject.kind, str(folder): "folder"}
        place |= {str(tree): option for option, tree in self.subject.others.given().items()}
        for directory, word in place.items():
            failure = failure.replace(directory, word)
        return Answer(commit, asked, records, failure, time.monotonic() - began)

    def _run(self, asked: str, folder: Path) -> str:
        """Run to the end; why there is no verdict, in case there is none."""
        if asked.startswith(SUITE):
            words = ["verify", "--suite", asked.removeprefix(SUITE), "--results", str(folder / "results")]
        else:
            words = ["check", asked]
        code, said = self.call([*words, "--json", str(folder / "verdicts.json")], folder, self.limit)
        if code is None:
            return f"it took longer than {self.limit} s (--limit)"
        if code < 0:
            return f"the process was ended by {signal.Signals(-code).name}"
        last = said.strip().splitlines()
        return last[-1].removeprefix("harness: ") if last else f"it ended with code {code} and said nothing"

    def call(self, words: Sequence[str], folder: Path, limit: float) -> tuple[int | None, str]:
        """(exit code, all that was said) of the harness asked with ``words``.

        No code where it took longer than ``limit`` seconds. ``folder``: an empty one for the process.
        """
        line = self.subject.command(self.tree, words)
        (folder / "empty").mkdir()
        cwd, environment = self.subject.surroundings(self.tree, folder / "empty")
        if self.ahead is not None:
            environment = packages.environment(self.ahead, environment)
        code: int | None = None
        with open(folder / "log", "wb") as log:
            process = subprocess.Popen(
                line, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
            try:
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                pass
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return code, (folder / "log").read_text(encoding="utf-8", errors="replace")


def _read(file: Path) -> tuple[tuple[dict[str, Any], ...], str]:
    """(records, what is wrong with them) of a JSON document of verdicts; none when there is no such file."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        records = tuple(
            {key: value for key, value in record.items() if key not in DROPPED}
            for record in document["records"]
        )
        return records, "" if document["complete"] else "the run did not get to its end"
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return (), ""
