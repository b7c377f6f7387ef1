"""``harness legs``: accuracy legs, from past lm-eval runs to pooled statements."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from harness import exits
from harness.command import legs_init
from harness.command.console import console_for_people
from harness.legs import comparable, importing, journal
from harness.record import document

EPILOG = """\
examples:
  harness legs init --atom campaign.toml
  harness legs run campaign.toml
  harness legs status results/legs/atom-fp4
  harness legs import out/fp8-run1 --leg fp8 --into results/legs/august
  harness legs import out/fp4-run1 --leg fp4 --into results/legs/august
  harness legs pool results/legs/august --base fp8 --margin 1.0

A leg is one configuration of the server, a sample one measurement of it. Samples are lm-eval's
results_*.json with samples_*.jsonl (lm-eval --log_samples). Pooling compares by question, under both
filters, and says no more than its tests; legs whose prompts or settings differ are not compared.

exit codes: 0 every leg is compared (run: every sample finished), 2 bad input, 3 a server crashed or could
not run, 130 interrupted, 4 a leg is not measured or cannot be compared
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    raw = argparse.RawDescriptionHelpFormatter
    legs_init.add_init(
        what.add_parser("init", help="write a commented campaign to start from", formatter_class=raw)
    )
    add_driving(what)
    bring = what.add_parser(
        "import", help="take a past lm-eval run in as a sample of a leg", formatter_class=raw
    )
    bring.add_argument(
        "source", type=Path, metavar="SOURCE", help="folder (or samples file) that lm-eval wrote"
    )
    bring.add_argument("--leg", required=True, metavar="NAME", help="leg it is a sample of")
    bring.add_argument("--into", required=True, type=Path, metavar="DIR", help="campaign folder")
    bring.add_argument("--task", default="gsm8k", metavar="T", help="lm-eval task (default: %(default)s)")
    pooling = what.add_parser("pool", help="pool the legs of a campaign folder", formatter_class=raw)
    pooling.add_argument("directory", type=Path, metavar="DIR", help="campaign folder")
    pooling.add_argument(
        "--base",
        metavar="LEG",
        help="leg the others are held against (default: the campaign's, else the first)",
    )
    pooling.add_argument(
        "--margin",
        type=float,
        metavar="POINTS",
        help="equivalence margin (default: the campaign's, else 1.0)",
    )
    pooling.add_argument("--json", type=Path, metavar="F", help="also write all figures to this file")
    pooling.add_argument(
        "--write", type=Path, metavar="DIR", help="write pooled.md, legs and comparisons as CSV and Parquet"
    )
    parser.epilog = EPILOG


def add_driving(what: Any) -> None:
    """``run`` and ``status``; the campaign's models are loaded only when one is asked for."""
    raw = argparse.RawDescriptionHelpFormatter
    run = what.add_parser("run", help="drive a campaign, or go on with it", formatter_class=raw)
    run.add_argument("file", type=Path, metavar="FILE", help="campaign file (see 'harness legs init')")
    run.add_argument("--dir", type=Path, metavar="DIR", help="results (default: results/legs/<name>)")
    run.add_argument("--leg", action="append", default=[], metavar="L", help="only this leg (repeatable)")
    run.add_argument("--data", type=Path, metavar="DIR", help="folder with train.jsonl and test.jsonl")
    run.add_argument("--limit", type=int, metavar="N", help="only the first N questions")
    run.add_argument("--retry-failed", action="store_true", help="ask failed questions again")
    run.add_argument(
        "--supersede", action="store_true", help="set samples of another identity aside and measure anew"
    )
    status = what.add_parser("status", help="legs, samples and questions so far", formatter_class=raw)
    status.add_argument("directory", type=Path, metavar="DIR", help="campaign folder")


def main(args: argparse.Namespace) -> int:
    """Do what was asked. Raises `InputError`."""
    if args.what in ("run", "status"):
        from harness.command import legs_run

        return legs_run.run(args) if args.what == "run" else legs_run.status(args)
    return {"import": bring_in, "pool": pool, "init": legs_init.init}[args.what](args)


def bring_in(args: argparse.Namespace) -> int:
    where = importing.import_run(args.source, args.leg, args.into, args.task)
    records, _ = journal.read(where.samples)
    right = {which: sum(record[f"{which}_correct"] for record in records) for which in ("strict", "flexible")}
    counts = ", ".join(f"{which} {k}/{len(records)}" for which, k in right.items())
    print(f"sample {where.sample} of leg {where.leg}: {counts}, in {where.folder}")
    return exits.AGREE


def pool(args: argparse.Namespace) -> int:
    """Pool, print, write; exit code 4 when a leg is not measured."""
    if not args.directory.is_dir():
        raise exits.InputError(f"{args.directory} is no folder; give a campaign folder")
    asked = campaign_of(args.directory)
    margin = float(asked.get("margin", 1.0)) if args.margin is None else args.margin
    if not 0 < margin < 100:
        raise exits.InputError(f"--margin is {margin}, allowed are points above 0 and below 100")
    document.check_output("--json", args.json)
    table = journal.table(args.directory)
    if table.empty:
        raise exits.InputError(f"{args.directory} holds no sample of a leg")
    from harness.legs.pool import pooled, tables

    base = args.base or str(asked.get("base") or table["leg"].iloc[0])
    found_legs = list(dict.fromkeys(map(str, table["leg"])))
    if base not in found_legs:
        raise exits.InputError(f"--base is {base!r}, allowed are {', '.join(found_legs)}")
    refused = refusals(args.directory, base, found_legs)
    found = pooled.pool(table, base=base, margin=margin / 100, refused=refused)
    show(found)
    if args.json:
        document.write_text(args.json, json.dumps(found.records(), indent=1) + "\n")
    if args.write:
        args.write.mkdir(parents=True, exist_ok=True)
        print("written  " + ", ".join(str(file) for file in tables.write(found, args.write)))
    return exits.UNPROVEN if refused else exits.AGREE


def campaign_of(directory: Path) -> dict[str, Any]:
    """What the campaign in ``directory`` was asked; empty for a folder of imported runs."""
    try:
        return dict(json.loads((directory / "campaign.json").read_text(encoding="utf-8"))["campaign"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def refusals(directory: Path, base: str, legs: list[str]) -> dict[str, str]:
    """Leg to why it is not measured, or cannot be compared with ``base``.

    Also legs that never had an answer: a leg that crashed before its first one is still named.
    """
    places = {leg: [one for one in journal.places(directory) if one.leg == leg] for leg in legs}
    found = {one.leg: "has no answer" for one in journal.places(directory) if one.leg not in legs}
    for leg in legs:
        reason = next(filter(None, map(incomplete, places[leg])), "")
        differing = comparable.differences(places[base], places[leg])
        if reason:
            found[leg] = reason
        elif differing:
            found[leg] = f"cannot be compared with {base}: {'; '.join(differing)}"
    return found


def incomplete(where: journal.Place) -> str:
    """Why a sample is no whole measurement; empty when it is."""
    manifest, records = where.manifest(), journal.read(where.samples)[0]
    if manifest["status"] != "finished":
        return f"has a sample {where.sample} that is {manifest['status']}"
    expected = int(manifest.get("expected") or len(records))
    if len(records) < expected:
        return f"has {len(records)} of {expected} questions in sample {where.sample}"
    failed = sum(record["status"] == "failed" for record in records)
    return f"has {failed} failed requests in sample {where.sample}" if failed else ""


def show(found: object) -> None:
    """Tables, then the sentences."""
    from harness.legs.pool import pooled, tables

    assert isinstance(found, pooled.Pooled)
    console = console_for_people()
    for one in tables.console(found):
        console.print(one)
        console.print()
    for judged in found.judged:
        compared = judged.between
        console.print(
            f"{compared.other} against {compared.base}, {compared.which}: {judged.said}", soft_wrap=True
        )
    for leg, reason in found.refused.items():
        console.print(f"{leg} {reason}", soft_wrap=True)
