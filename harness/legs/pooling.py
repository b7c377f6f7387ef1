"""A campaign folder pooled as its certificates allow.

Contract: a leg whose certificate fails is listed with its reason and compared with nothing; where the base
leg has no answer nothing is compared, and every other leg is still shown by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

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
    ``campaign.json`` that is none.
    """
    asked = measured.campaign_of(directory)
    base = base or (asked.base if asked else next(iter(certificates)))
    margin = (asked.margin if asked else MARGIN) if margin is None else margin
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
    )
