"""A campaign driven: samples in order, each continued where it was cut off, one server at a time.

Contract: a finished question is never asked again, and never counted under another identity. A sample is
``finished`` only when every question has a record; a server that ends makes it ``crashed``, an interrupt or
a refusal ``stopped``, and a kill leaves ``running``, which is told from a live run by the folder's lock.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.exits import CannotRun, InputError
from harness.legs import attempt, identity, journal, masked, order
from harness.legs.campaign import Campaign
from harness.legs.shown import short
from harness.record import store

if TYPE_CHECKING:
    from harness.legs.evaluation.task import Prepared

LOCK = ".lock"
CAMPAIGN = "campaign.json"
CERTIFICATES = "certificates.json"


class Display:
    """What is told while a campaign runs; this one says nothing."""

    def sample(self, leg: str, number: int, expected: int, kept: list[dict[str, Any]], at_once: int) -> None:
        """A sample begins (or goes on with ``kept`` records), ``at_once`` questions asked at a time."""

    def record(self, record: dict[str, Any]) -> None:
        """A question has ended."""

    def say(self, sentence: str) -> None:
        """Something happened."""


@dataclass(frozen=True)
class Plan:
    """What will be done: all of it checked, no server started yet."""

    campaign: Campaign
    directory: Path
    prepared: Prepared
    identities: dict[str, dict[str, Any]]
    samples: tuple[journal.Place, ...]

    @property
    def expected(self) -> int:
        return len(self.prepared.questions)


def plan(campaign: Campaign, directory: Path, legs: Sequence[str] = (), *, supersede: bool = False) -> Plan:
    """Build the prompts, and hold every sample that exists against what it would be now.

    Raises `InputError` for unknown legs and for samples of another identity (unless ``supersede``, which
    sets them aside), `CannotRun` where prompts cannot be had.
    """
    unknown = [leg for leg in legs if leg not in campaign.legs]
    if unknown:
        raise InputError(f"--leg is {short(unknown[0])}, allowed are {', '.join(campaign.legs)}")
    from harness.legs.evaluation import task

    wanted = [leg for leg in campaign.legs if not legs or leg in legs]
    check_folders(campaign, wanted)
    prepared = task.load(campaign.task, campaign.data)
    identities = {leg: identity.of_leg(campaign, leg, settings(prepared)) for leg in campaign.legs}
    places = [
        journal.place(directory, leg, number)
        for leg, number in order.samples(wanted, campaign.repeats, campaign.order)
    ]
    for where in places:
        guard(where, identities[where.leg], supersede)
    return Plan(campaign, directory, prepared, identities, tuple(places))


def check_folders(campaign: Campaign, legs: Sequence[str]) -> None:
    """Raises `InputError` where a server would be started in a folder that is none."""
    for leg in legs:
        folder = campaign.legs[leg].folder
        if folder is not None and not campaign.path(folder).is_dir():
            raise InputError(f"legs.{leg}.folder is {short(folder)}, allowed is a folder that exists")


def settings(prepared: Prepared) -> dict[str, Any]:
    """What the built task adds to an identity."""
    generation = prepared.generation
    stops = generation.pop("until", None) or []  # null would be one that nobody knows
    filters = prepared.task.config.filter_list
    return {
        "stops": stops,
        "gen_kwargs": generation,
        "filters": json.loads(json.dumps(filters, default=str)),
        "prompts": prepared.prompts_hash(),
    }


def guard(where: journal.Place, now: dict[str, Any], supersede: bool) -> None:
    """Raises `InputError` when the sample was measured with another identity; ``supersede`` sets it aside."""
    if not (where.folder / journal.MANIFEST).is_file():
        return
    manifest = where.manifest()
    if manifest.get("digest") == identity.digest(now):
        return
    if supersede:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
        where.folder.rename(where.folder.with_name(f"{where.sample}.superseded-{stamp}"))
        return
    differs = identity.changed(manifest["identity"], now) or "its manifest"
    raise InputError(
        f"leg {where.leg} sample {where.sample} in {where.folder} was measured with another identity: "
        f"{differs}; give another --dir, or --supersede to set such samples aside"
    )


def check_files(directory: Path) -> None:
    """Raises `InputError` where a folder lies in the place of a file that a run writes beside the legs."""
    for name in (LOCK, CAMPAIGN, CERTIFICATES):
        if (directory / name).is_dir():
            raise InputError(f"{directory / name} is a folder, allowed is a file, or nothing")


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the folder. Raises `CannotRun` when another run does.

    A folder that was made for a run of which nothing came is taken away again.
    """
    made = [one for one in (directory, *directory.parents) if not one.exists()]
    store.check_directory("--dir", directory)
    check_files(directory)
    with open(directory / LOCK, "a", encoding="utf-8") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CannotRun(f"another harness legs run works in {directory}") from None
        try:
            yield
        finally:
            if made and [one.name for one in directory.iterdir()] == [LOCK]:
                (directory / LOCK).unlink()
                with suppress(OSError):  # somebody else's folder that is empty no more
                    for one in made:
                        one.rmdir()


def busy(directory: Path) -> bool:
    """Whether a run works in the folder just now."""
    if not (directory / LOCK).is_file():
        return False
    with open(directory / LOCK, "a", encoding="utf-8") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def run(found: Plan, display: Display, *, retry_failed: bool = False) -> dict[journal.Place, str]:
    """Take every sample that is not finished; sample to its status. Call it with the folder `locked`.

    The other samples of a leg that crashed are left out. Raises `CannotRun` when a server refuses.
    """
    note(found)
    ended: dict[journal.Place, str] = {}
    crashed: set[str] = set()
    for where in found.samples:
        if where.leg in crashed:
            display.say(f"{where.leg} sample {where.sample} is left out: the leg crashed")
            ended[where] = "left out"
            continue
        ended[where] = take(found, where, display, retry_failed)
        if ended[where] == "crashed":
            crashed.add(where.leg)
    return ended


def note(found: Plan) -> None:
    """Write ``campaign.json``: what was asked, when it first started."""
    file = found.directory / CAMPAIGN
    try:
        before = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        before = {}
    started = before.get("started") if isinstance(before, dict) else None
    asked = found.campaign.model_dump(mode="json")
    for leg, one in asked["legs"].items():  # with secrets as the identities have them
        one["environment"] = found.identities[leg]["environment"]
        values = masked.known(found.campaign.legs[leg].environment)
        for field in ("command", "version"):
            one[field] = None if one[field] is None else masked.words(one[field], values)
    content = {
        "campaign": asked,
        "file": found.campaign.file,
        "started": started or store.now(),
        "expected": found.expected,
    }
    store.write_atomically(file, json.dumps(content, indent=1) + "\n")


def take(found: Plan, where: journal.Place, display: Display, retry_failed: bool) -> str:
    """One sample, with restarts of a crashed server as far as the campaign allows; its status."""
    kept = attempt.kept_records(where, retry_failed)
    before = where.manifest()
    if before["status"] == "finished" and len(kept) >= found.expected:
        return "finished"
    attempt.begin(found, where, before)
    display.sample(where.leg, where.sample, found.expected, kept, found.campaign.client.concurrency)
    for tries in range(found.campaign.restarts(where.leg) + 1):
        if tries:
            display.say(f"{where.leg} sample {where.sample}: the server is started again ({tries})")
        status = attempt.take(found, where, display, retry_failed)
        if status != "crashed":
            break
    return status


def state(where: journal.Place, live: bool) -> str:
    """The status of a sample, where ``running`` without a live run is ``cut short``."""
    status = str(where.manifest()["status"])
    return "cut short" if status == "running" and not live else status
