"""What a leg left on disk, and what is asked of it: all that a certificate is made from.

Contract: nothing here judges. A folder without ``campaign.json`` (imported runs) is asked the defaults of a
campaign file. The failure to fear is a file that cannot be read and counts as one that asks nothing, so an
unreadable ``campaign.json`` is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from harness.exits import InputError
from harness.legs import drive, journal, stored
from harness.legs.campaign import Campaign, sentences
from harness.legs.sections import Certify
from harness.legs.shown import short

Record = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """What must hold of a leg: ``campaign`` is None for imported runs, which are asked the defaults."""

    certify: Certify
    index_topk: int
    required: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    known_bad: bool = False
    campaign: Campaign | None = None


@dataclass(frozen=True)
class Sample:
    """One sample: ``status`` as `harness.legs.drive.state` says it, ``expected`` questions in all.

    ``sized``: whether anything on disk says how many; else ``expected`` is what there is.
    """

    where: journal.Place
    status: str
    manifest: Mapping[str, Any]
    records: tuple[Record, ...]
    expected: int
    sized: bool

    @property
    def number(self) -> int:
        return self.where.sample


@dataclass(frozen=True)
class Leg:
    """A leg's samples in order, and what is asked of it."""

    name: str
    samples: tuple[Sample, ...]
    asked: Asked

    @property
    def records(self) -> list[Record]:
        return [record for sample in self.samples for record in sample.records]


def several(count: int, noun: str) -> str:
    """``1 sample``, ``2 samples``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def campaign_of(directory: Path) -> Campaign | None:
    """The campaign that was driven into ``directory``; None for a folder of imported runs.

    Raises `InputError` for a ``campaign.json`` that is none.
    """
    file = directory / drive.CAMPAIGN
    if not file.exists():
        return None
    content = stored.read(file)
    if not isinstance(content, dict) or not isinstance(content.get("campaign"), dict):
        raise InputError(f"{file} is no campaign: campaign is no table")
    try:
        return Campaign.model_validate({**content["campaign"], "file": content.get("file")})
    except ValidationError as error:
        raise InputError(f"{file} is no campaign: {next(sentences(error))}") from None


def asked_of(campaign: Campaign | None, leg: str) -> Asked:
    """What ``campaign`` asks of ``leg``; a leg that it does not name is asked what all are asked."""
    if campaign is None:
        defaults = Certify.model_validate({})
        return Asked(defaults, defaults.index_topk)
    common = campaign.certify
    if leg not in campaign.legs:
        return Asked(common, common.index_topk, common.required, common.forbidden, campaign=campaign)
    return Asked(
        common,
        campaign.index_topk(leg),
        campaign.required(leg),
        campaign.forbidden(leg),
        campaign.legs[leg].known_bad,
        campaign,
    )


def legs(directory: Path, campaign: Campaign | None, index_topk: int | None = None) -> list[Leg]:
    """Every leg with a sample in ``directory``; ``index_topk`` replaces what the campaign says."""
    live, driven = drive.busy(directory), questions(directory)
    found: dict[str, list[Sample]] = {}
    for where in journal.places(directory):
        of_campaign = campaign is not None and where.leg in campaign.legs
        found.setdefault(where.leg, []).append(_sample(where, live, driven if of_campaign else None))
    asked = {leg: asked_of(campaign, leg) for leg in found}
    if index_topk is not None:
        asked = {leg: replace(one, index_topk=index_topk) for leg, one in asked.items()}
    return [Leg(leg, tuple(samples), asked[leg]) for leg, samples in found.items()]


def questions(directory: Path) -> int | None:
    """Questions of each sample as the campaign was driven; None where it does not say.

    Raises `InputError` for what is no number of questions.
    """
    file = directory / drive.CAMPAIGN
    found = stored.read(file).get("expected") if file.exists() else None
    if found is not None and (not isinstance(found, int) or isinstance(found, bool) or found < 0):
        raise InputError(f"{file}: expected is {short(found)}, allowed is a whole number of 0 or more")
    return found


def _sample(where: journal.Place, live: bool, driven: int | None) -> Sample:
    """``driven``: questions of a sample of the campaign, where its own manifest does not say."""
    manifest, records = where.manifest(), journal.read(where.samples)[0]
    told = manifest.get("expected")
    expected = driven if told is None else int(told)
    count = len(records) if expected is None else expected
    return Sample(where, drive.state(where, live), manifest, tuple(records), count, expected is not None)
