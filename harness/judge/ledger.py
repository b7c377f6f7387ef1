"""The one list of findings that are known, each with a reason: ``ledger.toml``.

A finding is matched on path, kernel, kind, operand and the end of its source file, never on
line numbers, which move. An entry that outlives its defect would hide the next one of its
kind, so a run that ran all suites of an entry without meeting it is red.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.case.cases import SUITES
from harness.findings import KINDS, Finding
from harness.judge.verdict import Status, Verdict, without_faults
from harness.paths import registry

FILE = Path(__file__).with_name("ledger.toml")
TEXTS = ("path", "kernel", "kind", "operand", "file", "reason")
HITS = "ledger"
"""Key of `Verdict.facts` that holds the keys of the entries a case met."""
BLIND = ("torch", "device")
"""Executors (first word) that see no memory accesses, hence can neither meet nor clear an entry."""


class LedgerError(ValueError):
    """A ledger that cannot be read; one sentence naming the entry and the field."""


@dataclass(frozen=True)
class Entry:
    """One known finding; see the head of ``ledger.toml``."""

    path: str
    kernel: str
    kind: str
    operand: str
    file: str
    suites: tuple[str, ...]
    reason: str

    @property
    def key(self) -> str:
        return "/".join((self.path, self.kernel, self.kind, self.operand, self.file))

    def matches(self, finding: Finding, path: str) -> bool:
        """Whether ``finding`` on ``path`` is this one; a path also meets those of the path beneath it."""
        if self.path not in (path, registry.beneath(path)):
            return False
        wanted = (self.kernel, self.kind, self.operand)
        got = (finding.kernel, finding.kind, finding.operand)
        return wanted == got and f"/{finding.file}".endswith(f"/{self.file}")


@dataclass(frozen=True)
class Ledger:
    """The known findings."""

    entries: tuple[Entry, ...] = ()

    def split(
        self, findings: Iterable[Finding], path: str
    ) -> tuple[tuple[tuple[Finding, Entry], ...], tuple[Finding, ...]]:
        """(known, each with its entry; new) of ``findings`` on ``path``."""
        path = without_faults(path)
        known: list[tuple[Finding, Entry]] = []
        new: list[Finding] = []
        for finding in findings:
            entry = next((entry for entry in self.entries if entry.matches(finding, path)), None)
            if entry is None:
                new.append(finding)
            else:
                known.append((finding, entry))
        return tuple(known), tuple(new)

    def stale(self, verdicts: Iterable[Verdict]) -> tuple[Entry, ...]:
        """Entries that none of ``verdicts`` met although all their suites ran where accesses are seen.

        Call it on whole listings only: a run of hand-picked cases clears nothing.
        """
        ran: set[tuple[str, str]] = set()
        hits: set[str] = set()
        for verdict in verdicts:
            if verdict.status in (Status.AGREE, Status.DIFFER, Status.MISTRUSTED) and not is_blind(
                verdict.executor
            ):
                ran.add((verdict.path, verdict.suite))
                hits.update(verdict.facts.get(HITS, ()))
        return tuple(
            entry
            for entry in self.entries
            if entry.key not in hits and all((entry.path, suite) in ran for suite in entry.suites)
        )


def is_blind(executor: str) -> bool:
    """Whether ``executor`` cannot see memory accesses."""
    return executor.split(" ")[0] in BLIND


def load(file: Path = FILE) -> Ledger:
    """Read a ledger. Raises `LedgerError` naming entry and field."""
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise LedgerError(f"{file.name} is no TOML: {error}") from error
    unknown = set(content) - {"known"}
    if unknown:
        raise LedgerError(f"{file.name} has a table {sorted(unknown)[0]!r}, allowed is 'known'")
    entries = tuple(_entry(number, record) for number, record in enumerate(content.get("known", []), 1))
    keys = [entry.key for entry in entries]
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice:
        raise LedgerError(f"{file.name} lists {twice} twice, allowed is once")
    return Ledger(entries)


def _entry(number: int, record: dict[str, object]) -> Entry:
    """Entry ``number`` from its TOML table."""
    wanted = {*TEXTS, "suites"}
    for name in sorted(wanted ^ set(record)):
        word = "lacks" if name in wanted else "has an unknown"
        raise LedgerError(
            f"ledger entry {number} {word} field {name}, allowed are exactly {', '.join(sorted(wanted))}"
        )
    for name in TEXTS:
        if not isinstance(record[name], str) or not str(record[name]).strip():
            raise LedgerError(
                f"ledger entry {number} has field {name} {record[name]!r}, allowed is a non-empty text"
            )
    if record["kind"] not in KINDS:
        raise LedgerError(
            f"ledger entry {number} has kind {record['kind']!r}, allowed are {', '.join(KINDS)}"
        )
    suites = record["suites"]
    if not isinstance(suites, list) or not suites or not set(suites) <= set(SUITES):
        raise LedgerError(
            f"ledger entry {number} has suites {suites!r}, allowed are some of {', '.join(SUITES)}"
        )
    texts = {name: str(record[name]) for name in TEXTS}
    return Entry(suites=tuple(suites), **texts)
