"""``harness reduce ID``: the smallest case that fails in the same way, and a script that shows it.

Everything is judged in a child process, so that a crash or a hang of the path is a verdict like any other.
How it would fail silently: a case that fails now and then would "shrink" at random; so the smallest is run
once more at the end, and must fail as the first did.
"""

from __future__ import annotations

import argparse
import hashlib
import shlex
import time
from pathlib import Path
from typing import Any

from rich.text import Text

from harness import exits
from harness.case import cases
from harness.command.arguments import named_path
from harness.command.cli_check import add_path_arguments, trees_of
from harness.command.console import console_for_people
from harness.command.progress import PLAIN_EVERY, clock
from harness.paths import registry
from harness.record import store

ROOT = Path("results/reduce")
LIMIT = 300.0
LONGEST = 86400.0
MEANING = {
    exits.AGREE: "a smallest case was found",
    exits.USAGE: "bad usage or input; the case does not fail",
    exits.ERROR: "the case is unsupported, or does not fail twice in the same way",
    exits.INTERRUPTED: "interrupted; the smallest so far is shown, and the next run goes on from it",
}
EPILOG = """\
examples:
  harness reduce decode-n4-h32-d128-ctx700,437-tshuffled-u0-l0-fbytes-s1 --path aiter --aiter ../aiter
  harness reduce dcp-decode-world4-inter16-exids-n2-h32-d128-ctx71,70,256,257,3-k20-tshuffled-fties-s7

Fields of the id are made smaller or simpler, one change at a time, for as long as the case fails in the same
way: same status, layer, reason, question, stage or tensor, finding, and, where a wrong rule gives the wrong
value, the same rule. What cannot be a case is never tried.

In a folder under --dir: tried.jsonl (every verdict, so that a reduction that was cut off goes on), repro.py
(calls the production function with the tensors of the failing request and compares; needs no suites) and
its tensors, as a capture for 'harness check --capture' where they can be one.

exit codes:
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="id of a case that fails")
    add_path_arguments(parser)
    parser.add_argument(
        "--dir", type=named_path, default=ROOT, metavar="DIR", help=f"where to write (default: {ROOT})"
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=LIMIT,
        metavar="S",
        help=f"seconds a candidate may take (default: {LIMIT:g})",
    )
    parser.epilog = EPILOG + "\n".join(f"  {code:<4}{meaning}" for code, meaning in MEANING.items())


def main(args: argparse.Namespace) -> int:
    """Reduce, and print the smallest case. Raises `InputError`, `CannotRun` or `CaseError`."""
    case = cases.parse(args.id)
    if not 0 < args.timeout <= LONGEST:
        raise exits.InputError(f"--timeout is {args.timeout:g}, allowed are seconds up to {LONGEST:g}")
    chosen = registry.choose(args.path, trees_of(args))
    if len(chosen) != 1:
        names = ", ".join(choice.name for choice in chosen)
        raise exits.InputError(f"--path is {names}, allowed is one path; name it with --path")
    (choice,) = chosen
    folder = folder_of(args.dir, case, choice)
    store.check_directory("--dir", folder)
    from harness.reduce.trying import Child

    with Child(choice, args.timeout) as child:
        return reduce(case, choice, folder, child)


def reduce(case: cases.Case, choice: registry.Choice, folder: Path, child: Any) -> int:
    """The whole reduction of ``case`` by verdicts of ``child``; its exit code."""
    from harness.judge import ledger
    from harness.reduce import same
    from harness.reduce.search import Search, Tried

    console, known = console_for_people(), ledger.load()
    tried = Tried(folder / f"tried-{source(choice)}.jsonl")
    kept = len(tried.verdicts)
    console.print(
        f"reduce {case.id} on {choice.name}" + (f", {kept} cases judged already" if kept else ""),
        soft_wrap=True,
    )
    first = tried.verdict(case, child.verdict)
    wanted = same.failure(first, known)
    if wanted is None:
        refuse(first)
        raise exits.InputError(f"ID {case.id} does not fail on {choice.name}: it is {first.status}")
    console.print(Text(first.text().splitlines()[0]), soft_wrap=True)
    search = Search(first, wanted, case, child.verdict, known, tried, progress(console))
    try:
        search.run()
    except KeyboardInterrupt:
        console.print(f"\nsmallest so far  {search.smallest.id}", soft_wrap=True)
        raise
    last, without = child.script(search.smallest, folder)
    if not wanted.same(same.failure(last, known)):
        raise exits.CannotRun(
            f"ID {search.smallest.id} failed in the same way, but run again it is {last.status}"
            f" ({last.reason or 'nothing differs'}): the failure is not steady"
        )
    show(console, case, search, last)
    show_script(console, folder, choice, without)
    return exits.AGREE


def refuse(first: Any) -> None:
    """Raise `CannotRun` for a case that the path cannot run."""
    if first.status == "unsupported":
        raise exits.CannotRun(f"ID {first.case} is unsupported on {first.path}: {first.reason}")


def progress(console: Any) -> Any:
    """A line at every smaller case, and now and then in between."""
    began = said = time.monotonic()

    def tell(search: Any, better: bool) -> None:
        nonlocal said
        now = time.monotonic()
        if better or now - said >= PLAIN_EVERY:
            said = now
            head = f"{search.tried.judged} judged, {clock(now - began)}"
            console.print(f"{head}, {'smaller' if better else 'still'} {search.smallest.id}", soft_wrap=True)

    return tell


def show(console: Any, case: cases.Case, search: Any, last: Any) -> None:
    """The smallest case, its verdict, and how much smaller it is."""
    from harness.reduce.search import described

    sizes = ", ".join(
        f"{name} {before} to {after}" for name, before, after in described(case, search.smallest)
    )
    console.print(f"\nsmallest  {search.smallest.id}")
    console.print(Text(last.text()), soft_wrap=True)
    console.print(f"\nsmaller   {sizes}; {search.tried.judged} cases judged", soft_wrap=True)


def show_script(console: Any, folder: Path, choice: registry.Choice, without: str) -> None:
    """How to run what was written."""
    from harness.reduce.script import CAPTURE, REPRO

    if without:
        console.print(f"script    none: {without}", soft_wrap=True)
        return
    options = shlex.join(choice.trees.options())
    console.print(f"script    python {shlex.quote(str(folder / REPRO))} {options}".rstrip(), soft_wrap=True)
    if (folder / CAPTURE).is_dir():
        command = (
            f"harness check --capture {shlex.quote(str(folder / CAPTURE))} --path {choice.name} {options}"
        )
        console.print(f"capture   {command.rstrip()}", soft_wrap=True)


def folder_of(root: Path, case: cases.Case, choice: registry.Choice) -> Path:
    """A folder for the reductions of one case on one path."""
    digest = hashlib.blake2b(f"{choice.name} {case.id}".encode(), digest_size=4).hexdigest()
    return root / f"{choice.name}-{case.suite}-{digest}"


def source(choice: registry.Choice) -> str:
    """Digest of the sources that verdicts of ``choice`` come from."""
    from harness.reduce.search import stamp

    here = Path(__file__).resolve().parents[2]
    trees = choice.trees.given()
    folders = [trees[name] / registry.SOURCES[name].folder for name in trees]
    return stamp([here / "harness", here / "oracles", *folders])
