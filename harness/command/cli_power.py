"""``harness power``: how many wrong kernels the cases see, measured by planting every mechanical fault.

The cases of a target are few and chosen (`harness.power.targets`); what they miss must be shown to change
nothing. A survivor is a gap in the suites.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.text import Text

from harness import exits
from harness.command.arguments import named_path
from harness.command.cli_check import add_path_arguments, trees_of
from harness.command.console import console_for_people
from harness.command.progress import PLAIN_EVERY, clock
from harness.paths import registry
from harness.power.targets import TARGETS
from harness.record import document, provenance, store

ROOT = Path("results/power")
MOST = 1 << 20
EPILOG = f"""\
examples:
  harness power --sample 40                                      a minute: 40 faults of each in-tree kernel
  harness power --path aiter --aiter ../aiter --kernel decode-h16-d128
  harness power --kernel decode-h16-d128 --mutant '17 imul wrong constant, operand 1: 3 for 2'

kernels: {", ".join(TARGETS)}

A fault is one operation of the kernel's lowered program made wrong: operands swapped, an addition dropped
or done twice, a constant or an index one off, a comparison turned, another lane or scale byte, a matrix
operand of zeros, a store left out ... killed: a case turned red. inert: no case did, and over the launches
enumerated for the kernel no lane gets another value, or no store changes. survived: neither. The last
columns say how many of the killed faults each acceptance rule in use elsewhere lets pass on the same data.

Every fault has its line in --dir, so a sweep that is cut off goes on where it was.

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
    parser.add_argument("--sample", type=int, metavar="N", help="N faults of each kernel, drawn with --seed")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="seed of --sample (default: 1)")
    parser.add_argument("--mutant", metavar="NAME", help="only this fault of one kernel")
    parser.add_argument("-n", type=int, default=0, metavar="N", help="processes (default: all cores)")
    parser.add_argument(
        "--dir", type=named_path, default=ROOT, metavar="DIR", help=f"where lines are kept (default: {ROOT})"
    )
    parser.add_argument("--json", type=named_path, metavar="F", help="write the figures and survivors to F")
    parser.add_argument("--markdown", type=named_path, metavar="F", help="write the table to F")
    parser.epilog = EPILOG


def main(args: argparse.Namespace) -> int:
    """Sweep, print the table and the survivors. Raises `InputError` or `CannotRun`."""
    chosen, kernels = check(args)
    from harness.power import sweep, table

    store.check_directory("--dir", args.dir)
    console, found, alive = console_for_people(), {}, []
    for choice in chosen:
        for kernel in kernels:
            asked = sweep.Asked(choice, kernel, args.sample, args.seed, args.mutant or "")
            plan = sweep.plan(asked, args.dir)
            if args.mutant and args.mutant not in plan.all_names:
                raise exits.InputError(f"--mutant is {args.mutant!r}, which kernel {kernel} does not have")
            follow(plan, args.n or provenance.cores(), console)
            name = kernel if len(chosen) == 1 else f"{choice.name} {kernel}"
            found[name] = table.counts(plan.records)
            alive += [(choice.name, kernel, one) for one in sweep.survivors(plan.records)]
    console.print(table.summary(found))
    for path, kernel, record in alive:
        console.print(
            Text(f"\nsurvived: {kernel} {record['mutant']} at {record['location']}"), soft_wrap=True
        )
        console.print(Text(f"  {again(args, path, kernel, record)}"), soft_wrap=True)
    write(args, chosen, found, alive)
    code = exits.DIFFER if alive else exits.AGREE
    console.print(f"\nlines  {args.dir}\nexit {code}: {len(alive)} survived")
    return code


def check(args: argparse.Namespace) -> tuple[Any, list[str]]:
    """(paths, kernels). Raises `InputError` naming the argument that is wrong."""
    kernels = args.kernel or list(TARGETS)
    for kernel in kernels:
        if kernel not in TARGETS:
            raise exits.InputError(f"--kernel is {kernel!r}, allowed are {', '.join(TARGETS)}")
    if args.sample is not None and not 1 <= args.sample <= MOST:
        raise exits.InputError(f"--sample is {args.sample}, allowed are 1 to {MOST}")
    if not 0 <= args.n <= 1024:
        raise exits.InputError(f"-n is {args.n}, allowed are 1 to 1024, or 0 for all cores")
    if args.mutant and len(kernels) != 1:
        raise exits.InputError(f"--mutant is given for {len(kernels)} kernels, allowed is one --kernel")
    document.check_output("--json", args.json)
    document.check_output("--markdown", args.markdown)
    chosen = registry.choose(args.path, trees_of(args))
    for choice in chosen:
        if choice.name not in ("flydsl", "aiter"):
            raise exits.InputError(f"--path is {choice.name}, allowed are flydsl, aiter (FlyDSL kernels)")
    return chosen, kernels


def follow(plan: Any, workers: int, console: Any) -> None:
    """Run a plan, with a line of progress now and then."""
    from harness.power import sweep

    kept, began, said, done = len(plan.records), time.monotonic(), time.monotonic(), 0
    about = f"{plan.asked.choice.name} {plan.asked.target}: {len(plan.names)} of {len(plan.all_names)} faults"
    console.print(about + (f", {kept} on disk already" if kept else ""), soft_wrap=True)
    for done, _ in enumerate(sweep.run(plan, workers), 1):
        if time.monotonic() - said >= PLAIN_EVERY:
            said = time.monotonic()
            left = (len(plan.names) - kept - done) * (said - began) / done
            alive = len(sweep.survivors(plan.records))
            console.print(
                f"{kept + done} of {len(plan.names)}, {alive} survived so far, about {clock(left)} left",
                soft_wrap=True,
            )


def again(args: argparse.Namespace, path: str, kernel: str, record: Mapping[str, Any]) -> str:
    """The command line that plants one fault again."""
    import shlex

    tree = ["--aiter", str(args.aiter)] if path == "aiter" and args.aiter else []
    return shlex.join(
        ["harness", "power", "--path", path, *tree, "--kernel", kernel, "--mutant", record["mutant"]]
    )


def write(args: argparse.Namespace, chosen: Any, found: Mapping[str, Any], alive: list[Any]) -> None:
    """The figures for machines, the table for a log."""
    from harness.power import table

    if args.json:
        about = provenance.collect(chosen, {"sample": args.sample, "seed": args.seed})
        left = [{"path": path, "kernel": kernel, **record} for path, kernel, record in alive]
        content = {"provenance": about, "kernels": found, "survivors": left}
        document.write_text(args.json, json.dumps(content, indent=1) + "\n")
    if args.markdown:
        document.write_text(args.markdown, table.markdown(found))
