"""``harness power``: how many wrong kernels the cases see, measured by planting every mechanical fault.

The cases of a target are few and chosen (`harness.power.targets`); what they miss must be shown to change
nothing. A survivor is a gap in the suites.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.text import Text

from harness import exits
from harness.command import power_source
from harness.command.arguments import named_path
from harness.command.cli_check import add_path_arguments
from harness.command.console import console_for_people
from harness.command.power_kernels import chosen_kernels, chosen_paths, made_ready, on_path
from harness.command.power_numbers import check_numbers, part_of
from harness.command.progress import PLAIN_EVERY, clock
from harness.paths import registry
from harness.power.hip.targets import HIP_TARGETS
from harness.power.source.targets import TARGETS as SOURCES
from harness.power.targets import TARGETS
from harness.record import document, provenance, store

ROOT = Path("results/power")
EPILOG = f"""\
examples:
  harness power --sample 40                                      a minute: 40 faults of each in-tree kernel
  harness power --path aiter --aiter ../aiter --kernel decode-h16-d128
  harness power --aiter ../aiter --kernel fp8-writer --sample 100
  harness power --kernel decode-h16-d128 --mutant '17 imul wrong constant, operand 1: 3 for 2'
  harness power --path aiter --aiter ../aiter --prepare --dir D  then, on a machine without aiter and FlyDSL:
  harness power --path aiter --prepared --dir D --part 2/3

kernels: {", ".join(TARGETS)}
HIP kernels (need --aiter and a compiler): {", ".join(HIP_TARGETS)}
sources: {", ".join(SOURCES)} (aiter's need --aiter, atom's --aiter and --atom)

A fault is one operation of the kernel's lowered program made wrong: operands swapped, an addition dropped
or done twice, a constant or an index one off, a comparison turned, another lane or scale byte, a matrix
operand of zeros, a store or a barrier left out ... killed: a case turned red (in more than what it is without
the fault). inert: no case did, and over the launches enumerated for the kernel no lane gets another value, or
no store changes. survived: neither. The last columns say how many of the killed faults each acceptance rule
in use elsewhere lets pass on the same data; a rule that cannot be put to a kernel has none.

Every fault has its line in --dir, so a sweep that is cut off goes on where it was; parts made elsewhere are
merged by laying their .jsonl files into one folder and running the command again without --part.

exit codes: 0 nothing survived, 1 something did, 2 bad input, 3 the kernel is not green without a fault,
130 interrupted
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_path_arguments(parser)
    parser.add_argument(
        "--kernel",
        action="append",
        metavar="K",
        help="only this kernel (repeatable; default: all, see below)",
    )
    parser.add_argument(
        "--source",
        action="append",
        metavar="S",
        help="mutate source text instead: all, or one of the sources below (repeatable; needs .[power])",
    )
    parser.add_argument(
        "--cases",
        dest="listing",
        default="smoke",
        choices=("smoke", "full"),
        help="with --source: the listing that judges; full tries again what smoke missed (default: smoke)",
    )
    parser.add_argument("--sample", type=int, metavar="N", help="N faults of each kernel, drawn with --seed")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="seed of --sample (default: 1)")
    parser.add_argument("--mutant", metavar="NAME", help="only this fault of one kernel")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="only every Nth fault, from the Ith on")
    parser.add_argument("-n", type=int, default=0, metavar="N", help="processes (default: all cores)")
    parser.add_argument(
        "--dir", type=named_path, default=ROOT, metavar="DIR", help=f"where lines are kept (default: {ROOT})"
    )
    parser.add_argument("--prepare", action="store_true", help="only record the launches in --dir")
    parser.add_argument("--prepared", action="store_true", help="use the launches recorded in --dir")
    parser.add_argument("--json", type=named_path, metavar="F", help="write the figures and survivors to F")
    parser.add_argument("--markdown", type=named_path, metavar="F", help="write the tables to F")
    parser.add_argument("--plot", type=named_path, metavar="F", help="draw the figures to F (.svg or .png)")
    parser.epilog = EPILOG


def main(args: argparse.Namespace) -> int:
    """Sweep, print the table and the survivors. Raises `InputError` or `CannotRun`."""
    if args.source:
        check_numbers(args)
        return power_source.main(args)
    asked, kernels, chosen = check(args)
    from harness.power import sweep, table

    store.check_directory("--dir", args.dir)
    console, found, alive, about = console_for_people(), {}, [], {}
    for choice in chosen:
        for kernel in on_path(choice, kernels, console):
            prepared, enumerate_launches, held = made_ready(args, choice, kernel)
            if args.prepare:
                enumerate_launches()
                console.print(f"recorded  {prepared.cases}", soft_wrap=True)
                continue
            plan = sweep.plan(prepared, asked)
            if args.mutant and args.mutant not in plan.all_names:
                raise exits.InputError(f"--mutant is {args.mutant!r}, which kernel {kernel} does not have")
            follow(plan, args.n or provenance.cores(), enumerate_launches, console)
            name = kernel if len(chosen) == 1 else f"{choice.name} {kernel}"
            found[name], about[choice.name] = table.counts(plan.records, held), prepared.about
            alive += [(choice.name, kernel, one) for one in sweep.survivors(plan.records)]
    if args.prepare:
        return exits.AGREE
    console.print(table.summary(found))
    for path, kernel, record in alive:
        console.print(
            Text(f"\nsurvived: {kernel} {record['mutant']} at {record['location']}"), soft_wrap=True
        )
        console.print(Text(f"  {again(args, path, kernel, record)}"), soft_wrap=True)
    write(args, about, found, alive)
    code = exits.DIFFER if alive else exits.AGREE
    console.print(f"\nlines  {args.dir}\nexit {code}: {len(alive)} survived")
    return code


def check(args: argparse.Namespace) -> tuple[Any, list[str], tuple[registry.Choice, ...]]:
    """(what is asked, kernels, paths). Raises `InputError` naming the argument that is wrong."""
    from harness.power.sweep import Asked

    kernels = chosen_kernels(args)
    check_numbers(args)
    if args.mutant and len(kernels) != 1:
        raise exits.InputError(f"--mutant is given for {len(kernels)} kernels, allowed is one --kernel")
    if args.prepare and args.prepared:
        raise exits.InputError("--prepare and --prepared are given, allowed is one of them")
    document.check_output("--json", args.json)
    document.check_output("--markdown", args.markdown)
    document.check_output("--plot", args.plot)
    if args.plot:
        from harness.power import plot

        plot.check("--plot", args.plot)
    asked = Asked(args.sample, args.seed, args.mutant or "", part_of(args.part))
    return asked, kernels, chosen_paths(args, kernels)


def follow(plan: Any, workers: int, enumerate_launches: Callable[[], None], console: Any) -> None:
    """Run a plan, with a line of progress now and then."""
    from harness.power import sweep
    from harness.power.lines import PENDING

    kept, began, said, tried = len(plan.records), time.monotonic(), time.monotonic(), 0
    prepared = plan.prepared
    about = f"{prepared.path} {prepared.target}: {len(plan.names)} of {len(plan.all_names)} faults"
    console.print(about + (f", {kept} on disk already" if kept else ""), soft_wrap=True)
    for record in sweep.run(plan, workers, enumerate_launches):
        tried += bool(record["how"]) or record["why"] == PENDING
        if time.monotonic() - said >= PLAIN_EVERY:
            said = time.monotonic()
            left = (len(plan.names) - kept - tried) * (said - began) / max(1, tried)
            open_ones = sum(one["why"] == PENDING for one in plan.records)
            console.print(
                f"{kept + tried} of {len(plan.names)} tried, about {clock(left)} left; "
                f"{open_ones} that no case saw are to be explained",
                soft_wrap=True,
            )


def again(args: argparse.Namespace, path: str, kernel: str, record: Mapping[str, Any]) -> str:
    """The command line that plants one fault again."""
    import shlex

    tree = ["--aiter", str(args.aiter)] if path == "aiter" and args.aiter else []
    return shlex.join(
        ["harness", "power", "--path", path, *tree, "--kernel", kernel, "--mutant", record["mutant"]]
    )


def write(
    args: argparse.Namespace, about: Mapping[str, Any], found: Mapping[str, Any], alive: list[Any]
) -> None:
    """The figures for machines, the tables for a log, the picture."""
    from harness.power import table

    if args.json:
        by = provenance.collect((), {"sample": args.sample, "seed": args.seed, "part": args.part})
        left = [{"path": path, "kernel": kernel, **record} for path, kernel, record in alive]
        content = {
            "provenance": {**by, "paths": dict(about)},
            "kernels": found,
            "suites": table.suites(found),
            "survivors": left,
        }
        document.write_text(args.json, json.dumps(content, indent=1) + "\n")
    if args.markdown:
        document.write_text(args.markdown, table.markdown(found))
    if args.plot:
        from harness.power import plot

        plot.draw(found, args.plot)
