"""One attempt at a sample: its server started, probed and asked, stopped, and its log looked at.

Contract: however an attempt ends, its server is stopped and the manifest says how it ended, in one write
with what the log said; a status without its log counts would leave a finished sample that nobody can
certify. A kill leaves ``running`` and a segment of the log without end.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.legs import crash, identity, journal, logs, masked, probe
from harness.legs.server import Ended, Server
from harness.record import provenance, store

if TYPE_CHECKING:
    from harness.legs.campaign import Campaign
    from harness.legs.drive import Display, Plan
    from harness.legs.leg import Leg


def kept_records(where: journal.Place, retry_failed: bool = False) -> list[dict[str, Any]]:
    """Records that stand; failed ones only unless they are to be asked again."""
    return [
        record
        for record in journal.read(where.samples)[0]
        if not (retry_failed and record["status"] == "failed")
    ]


@cache
def measured_by() -> str:
    """Commit of this harness, and whether it has changes: told of a sample, and part of no identity."""
    known = provenance.commit_of(Path(__file__))
    return f"{known['commit']}{' with changes' if known['dirty'] is True else ''}"


def begin(found: Plan, where: journal.Place, before: dict[str, Any]) -> None:
    """Write the manifest of a sample that runs, with what the one ``before`` had of earlier attempts."""
    where.folder.mkdir(parents=True, exist_ok=True)
    leg, now = found.campaign.legs[where.leg], found.identities[where.leg]
    where.update(
        leg=where.leg,
        sample=where.sample,
        status="running",
        identity=now,
        digest=identity.digest(now),
        started=before.get("started") or store.now(),
        finished=None,
        expected=found.expected,
        attempts=int(before.get("attempts") or 0),
        crashes=before.get("crashes") or [],
        harness=list(dict.fromkeys([*(before.get("harness") or []), measured_by()])),
        server={
            "base_url": leg.base_url,
            "command": now["server"]["command"],
            "log": str(logs.log_of(found.campaign, where)),
        },
    )


def take(found: Plan, where: journal.Place, display: Display, retry_failed: bool) -> str:
    """Start, probe, measure, stop; the status, which is in the manifest too."""
    from harness.legs.evaluation import run as evaluation

    number = int(where.manifest().get("attempts") or 0) + 1
    log = logs.log_of(found.campaign, where)
    values, captured = masked.known(found.campaign.legs[where.leg].environment), where.folder / "server.log"
    masked.log(captured, values)  # of an attempt that a kill cut short
    segments = begun(found.campaign.legs[where.leg], log, where.manifest().get("log_segments") or [])
    where.update(attempts=number, status="running", log_segments=segments)
    server = Server(found.campaign, where.leg, captured)
    status = "stopped"
    try:
        server.start()
        asked = found.campaign.legs[where.leg]
        whom = evaluation.Server(server.url, asked.model, server.ended, server.healthy, asked.login)
        sample = evaluation.Sample(found.prepared, found.campaign.client, whom, number)
        probe.probe(sample, found.campaign.certify, where.folder)
        evaluation.measure(sample, where, kept_records(where, retry_failed), display.record)
        status = "finished"
    except (Ended, evaluation.ServerGone) as gone:
        status = "crashed"
        how = server.settle() or str(gone)
    finally:
        server.stop()
        masked.log(captured, values)
        segments[-1]["to"] = log.stat().st_size if log.is_file() else 0
        where.update(
            status=status,
            finished=store.now() if status == "finished" else None,
            log_segments=segments,
            **looked(found.campaign, where, segments),
        )
        if status == "crashed":
            lines = [masked.text(line, values) for line in crash.tail(log, segments[-1]["from"])]
            keep_crash(found, where, display, masked.text(how, values), lines)
    return status


def begun(leg: Leg, log: Path, before: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Segments of a log, the last of them that of an attempt that begins now.

    A server that runs already said before the attempt which path it takes, so what it wrote since its start,
    or since the attempt before, is a segment too (``earlier``) unless the leg's ``log_from`` says otherwise.
    """
    now = logs.segment(log)
    if leg.command is not None or leg.log_from == "now" or now["from"] == 0:
        return [*before, now]
    start = (before[-1]["to"] or before[-1]["from"]) if before else 0
    if not start < now["from"]:
        return [*before, now]
    earlier = {"from": start, "to": now["from"], "mark": logs.mark(log, start), "earlier": True}
    return [*before, earlier, now]


def looked(campaign: Campaign, where: journal.Place, segments: list[dict[str, Any]]) -> dict[str, Any]:
    """What the log says: patterns over all segments, acceptance lengths only of the sample's own requests."""
    own = [one for one in segments if not one.get("earlier")]
    acceptance = logs.looked(campaign, where, own)["acceptance"]
    return {**logs.looked(campaign, where, segments), "acceptance": acceptance}


def keep_crash(found: Plan, where: journal.Place, display: Display, how: str, lines: list[str]) -> None:
    """The crash into the manifest, compared with those seen before."""
    signature = {**crash.signature(how, lines), "time": store.now()}
    said = crash.compared(signature, found.directory, found.campaign.base, where)
    where.update(crashes=[*crash.crashes(where), {**signature, "compared": said}])
    display.say(f"{where.leg} sample {where.sample} crashed: {how}; {said}")
