"""Which legs of a campaign a claim is about, and whether they were asked what the claim was.

Contract: a leg measured with other shots, questions or task is refused, whatever it scores, and so is one
that is wrong on purpose; model and topology of a report are not known well enough to be compared, and that is
told. The failure to fear is a 5-shot campaign that reproduces a 20-shot figure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from harness.exits import InputError
from harness.legs.campaign import Campaign
from harness.legs.certify.measured import Leg as Measured
from harness.legs.claims.reported import Claim, Leg, Report


@dataclass(frozen=True)
class Offered:
    """A leg that could be meant: its name and what it says of its indexer (empty: nothing)."""

    name: str
    indexer: str = ""
    known_bad: bool = False

    def fits(self, claimed: Leg) -> bool:
        """Whether it is no leg of another indexer."""
        return not self.indexer or not claimed.indexer or self.indexer.lower() == claimed.indexer

    def names(self, claimed: Leg) -> bool:
        """Whether its indexer, or else a word of its name, is the claim's."""
        if self.indexer:
            return self.fits(claimed)
        return claimed.indexer in re.split(r"[^a-z0-9]+", self.name.lower())


def find(told: Report, name: str) -> Leg | Claim:
    """The reported leg or claim ``name``. Raises `InputError`."""
    found = told.legs.get(name) or told.claims.get(name)
    if name in told.measured or name in {figure.id for figure in told.figures}:
        raise InputError(f"CLAIM is {name!r}, which no accuracy leg can reproduce, allowed are "
                         f"{', '.join([*told.legs, *told.claims])}")  # fmt: skip
    if found is None:
        raise InputError(f"CLAIM is {name!r}, allowed are {', '.join([*told.legs, *told.claims])}")
    return found


def offered(campaign: Campaign | None, measured: list[Measured]) -> list[Offered]:
    """The legs of ``campaign``, or those of a folder of imported runs."""
    if campaign is not None:
        return [Offered(name, leg.indexer or "", leg.known_bad) for name, leg in campaign.legs.items()]
    return [
        Offered(leg.name, str(leg.samples[0].manifest["identity"].get("indexer") or "")) for leg in measured
    ]


def match(claimed: Leg, legs: list[Offered], given: str | None, option: str) -> str:
    """The leg that is meant by ``claimed``: the one ``given`` under ``option``, else the only one that fits.

    Raises `InputError` where none or several fit, and for a given leg that is known to be bad or is of
    another indexer.
    """
    good = [leg for leg in legs if not leg.known_bad]
    names = ", ".join(leg.name for leg in good) or "none"
    if given is not None:
        one = next((leg for leg in legs if leg.name == given), None)
        if one is None:
            raise InputError(f"{option} is {given!r}, allowed are {names}")
        if one.known_bad:
            raise InputError(f"{option} is {given!r}, a known-bad leg, allowed are {names}")
        if not one.fits(claimed):
            raise InputError(
                f"{option} is {given!r} with indexer {one.indexer}, and {claimed.id} has {claimed.indexer}"
            )
        return given
    for fitting in (
        [leg for leg in good if leg.name == claimed.id],
        [leg for leg in good if leg.names(claimed)],
    ):
        if len(fitting) == 1:
            return fitting[0].name
        if fitting:
            several = ", ".join(leg.name for leg in fitting)
            raise InputError(
                f"{option} is missing, allowed are {several}: all could be meant by {claimed.id}"
            )
    if len(good) == 1 and good[0].fits(claimed):
        return good[0].name
    raise InputError(f"{option} is missing, allowed are {names}: none is known to be meant by {claimed.id}")


def check_campaign(campaign: Campaign, claimed: Leg, task: str) -> None:
    """Raises `InputError` where ``campaign`` asks other things than ``claimed`` was asked."""
    asked = {"task": campaign.task.name, "shots": campaign.task.shots}
    _same(asked, claimed, task, f"campaign {campaign.name}")
    limit = campaign.task.limit
    if limit is not None and limit < claimed.n:
        raise InputError(
            f"task.limit is {limit} in campaign {campaign.name}, and {claimed.id} has {claimed.n} questions"
        )


def check_measured(leg: Measured, claimed: Leg, task: str) -> list[str]:
    """What nobody knows of ``leg``. Raises `InputError` where it was asked other things than ``claimed``."""
    unknown: dict[str, None] = {}
    for sample in leg.samples:
        identity = sample.manifest["identity"]
        asked = {name: identity.get(name) for name in ("task", "shots")}
        _same(asked, claimed, task, f"leg {leg.name} sample {sample.number}")
        unknown |= {name: None for name, value in asked.items() if value is None}
        if sample.expected != claimed.n:
            raise InputError(
                f"leg {leg.name} sample {sample.number} has {sample.expected} questions,"
                f" and {claimed.id} has {claimed.n}"
            )
    return list(unknown)


def _same(asked: Mapping[str, object], claimed: Leg, task: str, whose: str) -> None:
    for name, wanted in (("task", task), ("shots", claimed.shots)):
        if None not in (asked[name], wanted) and asked[name] != wanted:
            raise InputError(f"{name} is {asked[name]!r} in {whose}, and {claimed.id} has {wanted!r}")
