"""A campaign folder pooled as its certificates allow.

Contract: a leg whose certificate fails is listed with its reason and compared with nothing; where the base
leg has no answer nothing is compared, and every other leg is still shown by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from harness.exits import InputError
from harness.legs import logs
from harness.legs.certify import control, measured
from harness.legs.certify.certificate import Certificate
from harness.legs.pool import pooled
from harness.legs.pool.pooled import Pooled

MARGIN = 1.0
"""Points of the equivalence margin where no campaign fixed one."""


def pool(
    directory: Path,
    table: pd.DataFrame,
    certificates: Mapping[str, Certificate],
    *,
    base: str | None = None,
    margin: float | None = None,
) -> Pooled:
    """Pool ``table`` (`harness.legs.journal.table` of ``directory``).

    ``base`` and ``margin`` (points) replace those of the campaign. Raises `InputError` for a
    ``campaign.json`` that is none, and for a base leg that is known to be bad: it would be held against
    itself, and every other leg would be better.
    """
    asked = measured.campaign_of(directory)
    base = base or (asked.base if asked else next(iter(certificates)))
    margin = (asked.margin if asked else MARGIN) if margin is None else margin
    if base in certificates and certificates[base].known_bad:
        good = [leg for leg, one in certificates.items() if not one.known_bad]
        raise InputError(f"base is {base!r}, a known-bad leg, allowed are {', '.join(good)}")
    refused = {leg: one.reason for leg, one in certificates.items() if one.fails}
    if base not in certificates:
        refused[base] = "it has no sample, so nothing is compared with it"
    return pooled.pool(
        table,
        base=base,
        margin=margin / 100,
        refused=refused,
        acceptance=logs.acceptance(directory),
        known_bad=[leg for leg, one in certificates.items() if one.known_bad],
        caveat=control.caveat(certificates),
        fewer=_fewer(table, asked.repeats if asked else 0),
    )


def _fewer(table: pd.DataFrame, asked: int) -> dict[str, str]:
    """Leg to "1 of 3 samples", for those with fewer samples than are ``asked``."""
    had = {str(leg): int(rows["sample"].nunique()) for leg, rows in table.groupby("leg")}
    return {
        leg: f"{count} of {measured.several(asked, 'sample')}" for leg, count in had.items() if count < asked
    }
