"""What repeats tell of a leg: does the server repeat itself, and how many answers flip between samples?

Contract: neither point makes a leg count or not; each limits what may be said. The failure to fear is a
server called deterministic because little was compared, so every count is in its sentence, and replies of
the probe that were not had are no replies.
"""

from __future__ import annotations

import json
import math
from typing import Any

import pandas as pd

from harness.legs.certify.certificate import Point, Verdict
from harness.legs.certify.measured import Leg, Sample, several
from harness.legs.pool.answers import FILTERS, flip_counts, matrix
from harness.legs.probe import PROBE

PROBED, FLIPS = "probe", "flips"


def probe(leg: Leg) -> Point:
    """Do texts of this server tell anything? Replies of all samples of ``leg`` to each probe prompt."""
    found = [hashes for sample in leg.samples if (hashes := _replies(sample)) is not None]
    if not found:
        if not leg.asked.certify.probe:
            return _unbound(PROBED, Verdict.NOT_ASKED, "no probe is asked")
        return _unbound(PROBED, Verdict.UNKNOWN, "the server was not probed")
    prompts = max(map(len, found))
    replies = [[digest for one in found if at < len(one) for digest in one[at]] for at in range(prompts)]
    had = [[digest for digest in one if digest is not None] for one in replies]
    figures = {
        "prompts": prompts,
        "samples": len(leg.samples),
        "probed": len(found),
        "asked": sum(map(len, replies)),
        "failed": sum(map(len, replies)) - sum(map(len, had)),
        "distinct": [len(set(one)) for one in had],
        "compared": sum(len(one) > 1 for one in had),
        "repeated": sum(all(_had(one, at) > 1 for one in found) for at in range(prompts)),
        "same": sum(len(set(one)) == 1 and len(one) > 1 for one in had),
    }
    return _unbound(PROBED, *_power(figures), figures)


def _had(hashes: list[list[str | None]], at: int) -> int:
    """Replies that a sample has of prompt ``at``."""
    return sum(digest is not None for one in hashes[at : at + 1] for digest in one)


def _power(found: dict[str, Any]) -> tuple[Verdict, str]:
    compared, same, different = found["compared"], found["same"], sum(found["distinct"])
    lost = f" ({found['failed']} requests failed)" if found["failed"] else ""
    if not compared:
        return Verdict.UNKNOWN, f"no prompt of the probe has two replies to compare{lost}"
    if same == compared:
        had = found["asked"] - found["failed"]
        said = f"{same} of {found['prompts']} prompts always the same ({had} replies)"
        lacking = _lacking(found)
        if lacking:
            return Verdict.UNKNOWN, f"{said}, but {lacking}: whether the others are is not known{lost}"
        return Verdict.HOLDS, f"{said}: a different text is a difference{lost}"
    times = f"{found['asked'] / found['prompts']:g}"
    said = f"{found['prompts']} prompts asked {times} times gave {different} different replies"
    if not same:
        return Verdict.FAILS, f"{said}: comparing texts tells nothing on this server{lost}"
    return (
        Verdict.FAILS,
        f"{said}, {same} of {compared} always the same: a different text may be chance{lost}",
    )


def _lacking(found: dict[str, Any]) -> str:
    """Of what there are no two replies to compare; empty where every sample has them of every prompt."""
    if found["probed"] < found["samples"]:
        return f"only {found['probed']} of {several(found['samples'], 'sample')} were probed"
    if found["repeated"] < found["prompts"]:
        return f"only {found['repeated']} of {found['prompts']} have two replies in every sample"
    return ""


def _replies(sample: Sample) -> list[list[str | None]] | None:
    """Hashes of the replies to each prompt, None for one that was not had; None: not probed.

    `harness.legs.stored` has checked what a probe's file holds.
    """
    file = sample.where.folder / PROBE
    if not file.is_file():
        return None
    replies: list[list[str | None]] = json.loads(file.read_text(encoding="utf-8"))["replies"]
    return replies or None


def flips(leg: Leg, table: pd.DataFrame) -> Point:
    """The A/A flip rate of ``leg`` under both filters; ``table``: all samples (`harness.legs.journal`)."""
    if leg.name not in set(table["leg"]):
        return _unbound(FLIPS, Verdict.UNKNOWN, "no answer, so no flip rate")
    counts = {which: flip_counts(matrix(table, leg.name, which)) for which in FILTERS}
    figures = {
        which: {"differing": differing, "compared": compared}
        for which, (differing, compared) in counts.items()
    }
    if not all(compared for _, compared in counts.values()):
        said = "how many answers flip from run to run is not known: there are no two samples to compare"
        return _unbound(FLIPS, Verdict.UNKNOWN, said, figures)
    rates = [
        f"{which} {100 * differing / compared:.2f} % ({differing} of {compared})"
        for which, (differing, compared) in counts.items()
    ]
    pairs = math.comb(len(leg.samples), 2)
    over = f"over {several(pairs, 'pair')} of samples"
    said = f"answers flip between samples of the leg: {', '.join(rates)}, {over}"
    return _unbound(FLIPS, Verdict.HOLDS, said, figures)


def _unbound(name: str, verdict: Verdict, said: str, figures: dict[str, Any] | None = None) -> Point:
    return Point(name, verdict, said, binding=False, figures=figures or {})
