"""Candidates in a child process, each with a time limit: a crash or a hang is a verdict like any other.

Contract: the verdict of a case is the one `harness check` gives; one that ends the child, or takes longer
than the limit, is an ``error`` that says so, and the next candidate gets a new child. Nothing of the path is
imported in this process. How this would fail silently: a child that outlives its parent would go on
computing, so it ends where the pipe does.
"""

from __future__ import annotations

import multiprocessing
import signal
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

from harness.case import cases
from harness.case.cases import Case
from harness.judge.verdict import Status, Verdict
from harness.paths import registry


class Child:
    """Judges cases on one path in a process of its own; a context manager, so that none is left behind."""

    def __init__(self, choice: registry.Choice, timeout: float) -> None:
        self._choice, self._timeout = choice, timeout
        self._process: Any = None
        self._pipe: Connection | None = None

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def verdict(self, case: Case) -> Verdict:
        """The verdict of ``case``, whatever becomes of the child."""
        answer = self._asked("verdict", case.id, "")
        return self._lost(case, answer) if isinstance(answer, str) else Verdict.from_record(answer)

    def script(self, case: Case, folder: Path) -> tuple[Verdict, str]:
        """Write a script of ``case`` into ``folder``: (verdict, why there is none). See `script.write`."""
        answer = self._asked("script", case.id, str(folder))
        if isinstance(answer, str):
            return self._lost(case, answer), f"{answer} before it could hand over its tensors"
        return Verdict.from_record(answer["record"]), str(answer["without"])

    def _asked(self, *message: str) -> Any:
        """What the child answers, or a sentence about its end."""
        if self._process is None:
            self._begin()
        assert self._pipe is not None
        try:
            self._pipe.send(message)
            if self._pipe.poll(self._timeout):
                return self._pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            code = self._process.exitcode
            self._end()
            name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            return f"the process ended with {name}"
        self._end()
        return f"the process gave no answer within {self._timeout:g} s"

    def _begin(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, self._choice))
        self._process.start()
        theirs.close()

    def _end(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
        if self._process is not None:
            self._process.join(timeout=1)
            if self._process.is_alive():
                self._process.kill()
                self._process.join()
        self._process = self._pipe = None

    def _lost(self, case: Case, said: str) -> Verdict:
        return Verdict(case.id, case.suite, self._choice.name, "child process", Status.ERROR, reason=said)


def serve(pipe: Connection, choice: registry.Choice) -> None:
    """Answer until the pipe closes. An interrupt is the parent's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    path = registry.create(choice)

    from harness import runner
    from harness.judge import ledger

    known = ledger.load()
    while True:
        try:
            what, text, folder = pipe.recv()
        except EOFError:
            return
        case = cases.parse(text)
        if what == "verdict":
            pipe.send(runner.run(case, path, known).to_record())
            continue

        from harness.reduce import script

        verdict, without = script.write(Path(folder), case, path, choice, known)
        pipe.send({"record": verdict.to_record(), "without": without})
