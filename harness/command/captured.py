"""``harness verify --capture DIR``: one capture, in this process, recorded like any other run."""

from __future__ import annotations

import argparse

from harness import exits
from harness.capture import running
from harness.capture.format import SUITE
from harness.capture.loading import load
from harness.command.cli_check import trees_of
from harness.command.cli_verify import write_files
from harness.command.console import console_for_people
from harness.judge import ledger
from harness.paths import registry
from harness.record import document, provenance, store, summary


def verify(args: argparse.Namespace) -> int:
    """Run the capture on the chosen paths. Raises `InputError` or `CannotRun` before anything has run."""
    for field in ("suite", "junit", "cases", "limit", "workers", "fault"):
        if getattr(args, field) not in (None, []):
            option = "-n" if field == "workers" else f"--{field}"
            raise exits.InputError(
                f"{option} means nothing with --capture, which is one case in this process"
            )
    for field in ("json", "html"):
        document.check_output(f"--{field}", getattr(args, field))
    chosen, book, capture = registry.choose(args.path, trees_of(args)), ledger.load(), load(args.capture)
    paths = [registry.create(choice) for choice in chosen]
    asked = {"cases": capture.id, "suite": [SUITE], **running.about(capture)}
    run = store.create(args.results, provenance.collect(chosen, asked))
    console, journal = console_for_people(), store.Journal(run, "main")
    judged = running.subjects(capture, paths)
    console.print(
        f"verify {capture.id} on {', '.join(path.name for path in judged)}, run {run.id}", soft_wrap=True
    )
    try:
        journal.plan(len(judged))
        for verdict in running.verdicts(capture, paths, book):
            journal.verdict(verdict.to_record())
    finally:
        journal.close()
    loaded = store.load(run)
    code = running.exit_code(loaded.records)
    store.finish(run, complete=True, exit_code=code)
    summary.show(console, loaded.records, book)
    write_files(console, run, loaded, args, complete=True)
    console.print(f"\nresults  {run.folder}", soft_wrap=True)
    console.print(f"exit {code}: {exits.MEANING[code]} ({summary.statuses(loaded.records)})", soft_wrap=True)
    return code
