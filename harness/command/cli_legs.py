"""``harness legs``: accuracy legs, driven through lm-eval or taken in from past runs, and pooled."""

from __future__ import annotations

import argparse
from typing import Any

from harness import exits
from harness.command import (
    legs_certify,
    legs_demo,
    legs_exits,
    legs_init,
    legs_page,
    legs_pool,
    legs_reproduce,
)
from harness.command.arguments import named_path
from harness.legs import importing, journal

EPILOG = f"""\
examples:
  harness legs init --atom campaign.toml
  harness legs run campaign.toml
  harness legs status results/legs/atom-fp4
  harness legs certify results/legs/atom-fp4
  harness legs import out/fp8-run1 --leg fp8 --into results/legs/august
  harness legs import out/fp4-run1 --leg fp4 --into results/legs/august
  harness legs pool results/legs/august --base fp8 --margin 1.0
  harness legs report results/legs/atom-fp4 --html atom-fp4.html
  harness legs demo

A leg is one configuration of the server, a sample one measurement of it. Samples are lm-eval's
results_*.json with samples_*.jsonl (lm-eval --log_samples).

A certificate says of each leg, before anybody reads its accuracy: is every prompt longer than index_topk,
was the intended path taken (lines of the server's log), did every question get a whole answer, were all
asked the same; and what repeats tell. A leg that fails is not measured, never a lower accuracy; what nobody
can tell (past lm-eval runs keep no token counts: give --tokenizer) is not certified. A leg with known_bad =
true is the positive control: it shows what the campaign would have seen. All figures are in the folder's
certificates.json.

Pooling compares by question, under both filters, and says no more than its tests; a leg that is not
measured is listed with its reason and compared with nothing.

{legs_exits.table()}
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
        "source", type=named_path, metavar="SOURCE", help="folder (or samples file) that lm-eval wrote"
    )
    bring.add_argument("--leg", required=True, metavar="NAME", help="leg it is a sample of")
    bring.add_argument("--into", required=True, type=named_path, metavar="DIR", help="campaign folder")
    bring.add_argument("--task", default="gsm8k", metavar="T", help="lm-eval task (default: %(default)s)")
    legs_certify.add_certify(what)
    legs_reproduce.add_reproduce(what)
    legs_demo.add_demo(what)
    legs_page.add_page(what)
    legs_pool.add_pool(what)
    parser.epilog = EPILOG
    for name, one in what.choices.items():
        one.epilog = "\n\n".join(filter(None, (one.epilog, legs_exits.said(name))))


def add_driving(what: Any) -> None:
    """``run`` and ``status``; the campaign's models are loaded only when one is asked for."""
    raw = argparse.RawDescriptionHelpFormatter
    run = what.add_parser("run", help="drive a campaign, or go on with it", formatter_class=raw)
    run.add_argument("file", type=named_path, metavar="FILE", help="campaign file (see 'harness legs init')")
    run.add_argument("--dir", type=named_path, metavar="DIR", help="results (default: results/legs/<name>)")
    run.add_argument("--leg", action="append", default=[], metavar="L", help="only this leg (repeatable)")
    run.add_argument("--data", type=named_path, metavar="DIR", help="folder with train.jsonl and test.jsonl")
    run.add_argument("--limit", type=int, metavar="N", help="only the first N questions")
    run.add_argument("--retry-failed", action="store_true", help="ask failed questions again")
    run.add_argument(
        "--supersede", action="store_true", help="set samples of another identity aside and measure anew"
    )
    status = what.add_parser("status", help="legs, samples and questions so far", formatter_class=raw)
    status.add_argument("directory", type=named_path, metavar="DIR", help="campaign folder")


def main(args: argparse.Namespace) -> int:
    """Do what was asked. Raises `InputError`."""
    if args.what in ("run", "status"):
        from harness.command import legs_run

        return legs_run.run(args) if args.what == "run" else legs_run.status(args)
    return {
        "import": bring_in,
        "pool": legs_pool.pool,
        "init": legs_init.init,
        "certify": legs_certify.certify,
        "reproduce": legs_reproduce.reproduce,
        "report": legs_page.report,
        "demo": legs_demo.demo,
    }[args.what](args)


def bring_in(args: argparse.Namespace) -> int:
    where = importing.import_run(args.source, args.leg, args.into, args.task)
    records, _ = journal.read(where.samples)
    right = {which: sum(record[f"{which}_correct"] for record in records) for which in ("strict", "flexible")}
    counts = ", ".join(f"{which} {k}/{len(records)}" for which, k in right.items())
    print(f"sample {where.sample} of leg {where.leg}: {counts}, in {where.folder}")
    return exits.AGREE
