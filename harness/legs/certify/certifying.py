"""Certificates of all legs in a campaign folder, from what is on disk alone.

Contract: each leg with a sample gets every point, in one order; the base leg's also has that of the positive
control, which is one of the campaign. Nothing is started and nothing asked, so a certificate can be had
again of any folder, long after its servers are gone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.exits import InputError
from harness.legs import drive, journal, stored
from harness.legs.campaign import Campaign
from harness.legs.certify import answers, control, measured, path, prompts, repeats, settings, tokens
from harness.legs.certify.certificate import Certificate, Point, Verdict
from harness.legs.certify.measured import Leg
from harness.record import document

FILE = drive.CERTIFICATES


def certify(
    directory: Path,
    *,
    base: str | None = None,
    index_topk: int | None = None,
    count: tokens.Count | None = None,
) -> dict[str, Certificate]:
    """Leg to its certificate; empty for a folder without a sample.

    ``base``: the leg that settings are held against (default: the campaign's, else the first).
    ``index_topk`` replaces the campaign's. ``count`` counts the tokens of prompts of which the server told
    none. Raises `InputError` for a base leg that is known to be bad, and for a folder that holds anything but
    what was written there (`harness.legs.stored`).
    """
    stored.check(directory)
    campaign = measured.campaign_of(directory)
    legs = measured.legs(directory, campaign, index_topk)
    if not legs:
        return {}
    base = base or (campaign.base if campaign else legs[0].name)
    if campaign and base in campaign.legs and campaign.legs[base].known_bad:
        good = [leg for leg, asked in campaign.legs.items() if not asked.known_bad]
        raise InputError(f"base is {base!r}, a known-bad leg, allowed are {', '.join(good)}")
    table = journal.table(directory)
    against = next((leg for leg in legs if leg.name == base), None)
    counted = untold(legs, campaign, count) if count else {}
    found = {}
    for leg in legs:
        points = (
            prompts.point(leg, counted.get(leg.name)),
            path.point(leg),
            answers.point(leg),
            settings.point(leg, against),
            repeats.probe(leg),
            repeats.flips(leg, table),
        )
        found[leg.name] = Certificate(leg.name, points, leg.asked.known_bad)
    for name, asked in campaign.legs.items() if campaign else ():
        if name not in found:  # asked for and never measured: it must not be missing from what is believed
            none = Point(answers.NAME, Verdict.FAILS, "no sample of it was measured")
            found[name] = Certificate(name, (none,), asked.known_bad)
    if base in found:
        known_bad = [name for name, leg in campaign.legs.items() if leg.known_bad] if campaign else []
        last = control.point(known_bad, found, base, table)
        found[base] = replace(found[base], points=(*found[base].points, last))
    return found


def untold(legs: list[Leg], campaign: Campaign | None, count: tokens.Count) -> dict[str, dict[int, int]]:
    """Leg to question to tokens, where the server told none."""
    texts: dict[str, str] = {}
    for leg in legs:
        texts |= tokens.texts(leg)
    lacking = {str(one["prompt_hash"]) for leg in legs for one in leg.records if one["prompt_tokens"] is None}
    if campaign is not None and not lacking <= set(texts):
        texts |= tokens.built(campaign)
    return {leg.name: tokens.untold(leg, count, texts) for leg in legs}


def uncertified(certificates: Mapping[str, Certificate]) -> list[str]:
    """Legs that are not certified and should be: a known-bad leg should not."""
    return [leg for leg, one in certificates.items() if not one.certified and not one.known_bad]


def record(certificates: Mapping[str, Certificate]) -> dict[str, Any]:
    """JSON-able: every point with its figures."""
    return {"certificates": [one.to_record() for one in certificates.values()]}


def write(certificates: Mapping[str, Certificate], file: Path) -> None:
    """Write `record` to ``file``. Raises `CannotRun` when the disk refuses."""
    document.write_text(file, json.dumps(record(certificates), indent=1) + "\n")
