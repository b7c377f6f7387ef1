"""``harness reveal-order``: how a scorer adds its heads, by probing, beside the tree that is declared."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from rich.text import Text

from harness import exits
from harness.command.arguments import named_path
from harness.command.cli_check import add_path_arguments, trees_of
from harness.command.console import console_for_people
from harness.paths import registry
from harness.record import document, provenance

KERNELS = ("decode", "prefill", "varqlen")
HEADS = range(16, 129, 16)
DIMS = (128, 256)
MEANING = {
    exits.AGREE: "every kernel adds as its path declares",
    exits.DIFFER: "one adds otherwise, or in no tree",
    exits.USAGE: "bad usage or input",
    exits.ERROR: "the path cannot run a kernel",
    exits.UNPROVEN: "the path declares no tree for a kernel, so that nothing was compared",
}
EPILOG = """\
examples:
  harness reveal-order
  harness reveal-order --path aiter --aiter ../aiter --kernel decode --heads 64

One term is a huge M, another -M, the rest are units: the units that are lost were added before the two met.
All pairs of heads give the tree; [0 1 2] is a chain from left to right, whose first two may be exchanged.
A product that float32 cannot hold tells a fused step from a rounded one, a product of three where the weight
scale goes. Inside a dot, M lies in one group of 32 columns: no unit is lost where the sum is exact.

exit codes:
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_path_arguments(parser)
    parser.add_argument(
        "--kernel", action="append", default=[], metavar="K", help=f"{', '.join(KERNELS)} (default: all)"
    )
    parser.add_argument("--heads", type=int, default=32, metavar="H", help="index heads (default: 32)")
    parser.add_argument("--dim", type=int, default=128, metavar="D", help="head dim (default: 128)")
    parser.add_argument("--json", type=named_path, metavar="F", help="also write what was found to this file")
    parser.epilog = EPILOG + "\n".join(f"  {code:<4}{meaning}" for code, meaning in MEANING.items())


def main(args: argparse.Namespace) -> int:
    """Probe each kernel and print its order. Raises `InputError` or `CannotRun`."""
    for kernel in args.kernel:
        if kernel not in KERNELS:
            raise exits.InputError(f"--kernel is {kernel!r}, allowed are {', '.join(KERNELS)}")
    if args.heads not in HEADS:
        raise exits.InputError(f"--heads is {args.heads}, allowed are multiples of 16 from 16 to 128")
    if args.dim not in DIMS:
        raise exits.InputError(f"--dim is {args.dim}, allowed are 128 and 256")
    document.check_output("--json", args.json)
    chosen = registry.choose(args.path, trees_of(args))
    about = provenance.collect(chosen, {"heads": args.heads, "dim": args.dim})
    console, records = console_for_people(), []
    for choice in chosen:
        path = registry.create(choice)
        for kernel in dict.fromkeys(args.kernel or KERNELS):
            record, lines = revealed(path, kernel, args.heads, args.dim)
            records.append(record)
            console.print(Text("\n".join(lines)), soft_wrap=True)
    if args.json:
        document.write_json(args.json, about, records, complete=True)
    words = [record["declared"] for record in records]
    code = exits.DIFFER if "other" in words else exits.UNPROVEN if "none" in words else exits.AGREE
    console.print(f"\nexit {code}: {MEANING[code]}")
    return code


def revealed(path: Any, kernel: str, heads: int, dim: int) -> tuple[dict[str, Any], list[str]]:
    """One kernel: what was found for machines, with ``declared`` same, other or none, and for people."""
    from harness.diagnose import probes, revealing
    from harness.paths.base import Unsupported
    from oracles import trees

    try:
        found = revealing.reveal(path, kernel, heads, dim)
    except Unsupported as refusal:
        raise exits.CannotRun(f"--kernel {kernel} is unsupported on {path.name}: {refusal}") from None
    name = path.tree(probes.requests(kernel, probes.empty(1, heads, dim))[0])
    lines = [f"{path.name} ({path.executor}) {kernel}, {heads} heads of {dim} columns"]
    lines.append(f"  tree      {found.why if found.node is None else revealing.text(found.node)}")
    lines += [f"  step      {found.step}", f"  scale     {found.scale}"]
    lines += [f"  dot       {said}" for said in found.groups]
    word = "none"
    if name is not None:
        tree = trees.find(name)
        wanted = revealing.declared(tree, heads)
        same = (found.node, found.step, found.scale) == (wanted, tree.step, tree.scale)
        word = "same" if same else "other"
        lines.append(f"  declared  {'the same' if same else 'another'}: tree {tree.name}")
        if not same:
            lines.append(
                f"            {revealing.text(wanted)}, {tree.step}, weight scale {tree.scale} the sum"
            )
    else:
        lines.append("  declared  none")
    record = {**asdict(found), "node": None if found.node is None else revealing.text(found.node)}
    return {"path": path.name, "declared": word, **record}, lines
