"""An accuracy leg as the question that is put to a commit: one sample of it, as ``harness legs`` takes it.

Contract: a sample counts only when it is finished and its leg certified; otherwise the commit cannot be told,
for the reason that the certificate gives. Samples of a commit are kept in ``DIR/legs/COMMIT``, and one that
was cut off goes on. How this would fail silently: a server that serves another tree than the commit's; so the
leg that is asked has to name ``{tree}``, which stands for the worktree, and no other leg is started.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.bisect.posterior import Sample
from harness.exits import InputError
from harness.legs import drive, journal
from harness.legs.campaign import Campaign

TREE = "{tree}"
FILTERS = ("strict", "flexible")


def leg_of(campaign: Campaign) -> str:
    """The one leg that names ``{tree}``. Raises `InputError` when there is none, or more than one."""
    named = [name for name, leg in campaign.legs.items() if TREE in json.dumps(leg.model_dump(mode="json"))]
    if len(named) != 1:
        what = "none" if not named else ", ".join(named)
        raise InputError(
            f"--leg {Path(campaign.file).name}: legs that name {TREE} are {what}, allowed is one; "
            f"{TREE} in command, environment, folder or version stands for the commit's tree"
        )
    return named[0]


def of_tree(campaign: Campaign, leg: str, tree: Path, repeats: int) -> Campaign:
    """``campaign`` with ``leg`` alone, ``repeats`` samples of it, served from ``tree``."""

    def filled(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace(TREE, str(tree))
        if isinstance(value, tuple):
            return tuple(map(filled, value))
        return {key: filled(part) for key, part in value.items()} if isinstance(value, dict) else value

    own = campaign.legs[leg]
    fields = {name: filled(getattr(own, name)) for name in ("command", "environment", "folder", "version")}
    changes = {"legs": {leg: own.model_copy(update=fields)}, "base": leg, "repeats": repeats}
    return campaign.model_copy(update=changes)


@dataclass(frozen=True)
class Measured:
    """A sample, or ``why`` there is none. ``print``: digest of its replies, equal for copies."""

    sample: Sample | None
    why: str = ""
    print: str = ""
    kept: bool = False


@dataclass(frozen=True)
class Leg:
    """Takes samples of ``leg`` from ``tree``; ``directory`` keeps them. ``which``: the filter that counts."""

    campaign: Campaign
    leg: str
    tree: Path
    directory: Path
    which: str
    display: drive.Display

    def measure(self, commit: str, number: int) -> Measured:
        """Sample ``number`` (from 1) of ``commit``, which is checked out in ``tree``."""
        from harness.legs.certify import certifying

        folder = self.directory / commit[:12]
        asked = of_tree(self.campaign, self.leg, self.tree, number)
        where = journal.place(folder, self.leg, number)
        kept = where.manifest()["status"] == "finished"
        with drive.locked(folder):
            drive.run(drive.plan(asked, folder), self.display)
        if where.manifest()["status"] != "finished":
            crashes = where.manifest().get("crashes") or [{"ended": "it was not finished"}]
            return Measured(None, f"the leg crashed: {crashes[-1]['ended']}")
        certificate = certifying.certify(folder)[self.leg]
        if not certificate.certified:
            points = certificate.fails or certificate.unknown
            return Measured(None, f"the leg is {certificate.word}: {points[0].said}")
        return self._counted(journal.read(where.samples)[0], kept)

    def _counted(self, records: Sequence[dict[str, Any]], kept: bool) -> Measured:
        judged = [one for one in records if one[f"{self.which}_correct"] is not None]
        if not judged:
            return Measured(None, "no question of the sample was judged")
        right = sum(bool(one[f"{self.which}_correct"]) for one in judged)
        replies = sorted((int(one["question"]), str(one["reply"])) for one in judged)
        digest = hashlib.sha256(json.dumps(replies).encode()).hexdigest()
        return Measured(Sample(right, len(judged)), print=digest, kept=kept)
