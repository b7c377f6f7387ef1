"""``harness legs run`` and ``status``: drive a campaign, and say how far it is."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from rich.table import Table
from rich.text import Text

from harness import exits
from harness.command import legs_certify
from harness.command.console import console_for_people
from harness.command.legs_show import Bars, accuracy, counted
from harness.exits import InputError
from harness.legs import campaign, crash, drive, journal, stored

ROOT = Path("results/legs")


def run(args: argparse.Namespace) -> int:
    """Exit code 0 when all samples are finished and their legs certified, 3 when a sample is not finished,
    else 4."""
    from harness.legs.certify import certifying

    asked = campaign.load(args.file, data=args.data, limit=args.limit)
    directory = args.dir or ROOT / asked.name
    console = console_for_people()
    ended = drive_legs(asked, directory, args.leg, supersede=args.supersede, retry_failed=args.retry_failed)
    certificates = certifying.certify(directory)
    show(directory)
    console.print()
    legs_certify.show(console, certificates)
    certifying.write(certificates, directory / certifying.FILE)
    console.print(f"results  {directory}", soft_wrap=True)
    wrong = [where for where, status in ended.items() if status != "finished"]
    if wrong:
        console.print(f"exit 3: {len(wrong)} of {len(ended)} samples are not finished")
        return exits.ERROR
    of_these = {where.leg for where in ended}
    shown = {leg: one for leg, one in certificates.items() if leg in of_these}
    left = certifying.uncertified(shown)
    console.print(legs_certify.said(shown, left), soft_wrap=True)
    return exits.UNPROVEN if left else exits.AGREE


def drive_legs(
    asked: campaign.Campaign,
    directory: Path,
    legs: Sequence[str],
    *,
    supersede: bool = False,
    retry_failed: bool = False,
) -> dict[journal.Place, str]:
    """Run ``legs`` (none: all) with bars, or go on with them; sample to status."""
    with drive.locked(directory), terminable():
        stored.check(directory)
        found = drive.plan(asked, directory, legs, supersede=supersede)
        with Bars(console_for_people()) as bars:
            return drive.run(found, bars, retry_failed=retry_failed)


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM ends a run as Ctrl-C does: the server is stopped, what has ended is kept."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt  # not by SIGINT, which a process in the background may ignore

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def status(args: argparse.Namespace) -> int:
    if not args.directory.is_dir():
        raise InputError(f"{args.directory} is no folder; give a campaign folder")
    stored.check(args.directory)
    if not journal.places(args.directory):
        raise InputError(f"{args.directory} holds no sample of a leg")
    show(args.directory)
    return exits.AGREE


def show(directory: Path) -> None:
    """A table of all samples, then the crashes."""
    console, live = console_for_people(), drive.busy(directory)
    table = Table("leg", "sample", "status", "done", "failed", "truncated", "accuracy so far", box=None)
    said = []
    for where in journal.places(directory):
        records, _ = journal.read(where.samples)
        counts, manifest = counted(records), where.manifest()
        expected = manifest.get("expected")
        done = f"{len(records)}/{'?' if expected is None else expected}"
        few = [str(counts.get(name, 0)) for name in ("failed", "truncated")]
        status = drive.state(where, live)
        right = "not measured" if status == "crashed" else accuracy(records)
        table.add_row(where.leg, str(where.sample), status, done, *few, right)
        said += [f"{where.leg} sample {where.sample} {told(one)}" for one in crash.crashes(where)]
    console.print(table)
    for sentence in said:
        console.print(Text(sentence), soft_wrap=True)


def told(one: dict[str, object]) -> str:
    return f"crashed: {one['ended']}; {one['compared']} (signature {one['digest']})"
