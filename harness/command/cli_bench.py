"""``harness bench``: how fast emulator and oracles score, write and select, as ratios to a bare peer.

``harness bench legs`` is another bench, see `harness.command.bench_legs`.

All figures come from one process and one run, because absolute times of shared machines say
little. The peer is fp32 ``torch.matmul`` of the same shape: ``[T * H, D] x [D, L]``, what the
scores would cost if nothing but the dot products were computed.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.command import bench_compiled, bench_legs
from harness.command.arguments import named_path
from harness.exits import InputError
from harness.paths import registry
from harness.record import document

ROWS, KEYS, HEADS, DIM = 8, 32768, 64, 128
REPEATS = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``harness bench``."""
    parser.add_argument("--rows", type=int, default=ROWS, help=f"query rows, 1 to 64 (default {ROWS})")
    parser.add_argument("--keys", type=int, default=KEYS, help=f"keys a row, 256 to 1048576 (default {KEYS})")
    parser.add_argument(
        "--heads", type=int, default=HEADS, help=f"index heads, 16 to 128 by 16 (default {HEADS})"
    )
    parser.add_argument(
        "--aiter", type=named_path, metavar="DIR", help="also time the emulated kernels of this aiter"
    )
    parser.add_argument("--json", type=named_path, metavar="F", help="write the figures to F")
    what = parser.add_subparsers(dest="what", metavar="WHAT")
    about = "wall time of 'harness legs run' beside lm-eval's own command line"
    bench_legs.add_arguments(what.add_parser("legs", help=about, description=f"{about}."))


def check(arguments: argparse.Namespace) -> None:
    """Raises `InputError` naming the argument that is out of range."""
    if not 1 <= arguments.rows <= 64:
        raise InputError(f"--rows is {arguments.rows}, allowed are 1 to 64")
    if not 256 <= arguments.keys <= 1 << 20:
        raise InputError(f"--keys is {arguments.keys}, allowed are 256 to {1 << 20}")
    if arguments.heads % 16 or not 16 <= arguments.heads <= 128:
        raise InputError(f"--heads is {arguments.heads}, allowed are multiples of 16 from 16 to 128")
    if arguments.aiter is not None:
        registry.choose(["aiter"], registry.Trees(arguments.aiter))
    document.check_output("--json", arguments.json)


def main(arguments: argparse.Namespace) -> int:
    """Print the table, write the JSON; the exit code."""
    from rich.console import Console
    from rich.table import Table

    if arguments.what == "legs":
        for name, value in (("rows", ROWS), ("keys", KEYS), ("heads", HEADS), ("aiter", None)):
            if getattr(arguments, name) != value:
                raise InputError(f"--{name} is given, allowed is what 'harness bench legs --help' lists")
        return bench_legs.main(arguments)
    check(arguments)
    registry.prepare_environment("aiter")
    figures = measure(arguments.rows, arguments.keys, arguments.heads, arguments.aiter)
    title = f"{arguments.rows} rows x {arguments.keys} keys, H = {arguments.heads}, D = {DIM}"
    table = Table("what", "pairs a second", "time / matmul", title=title)
    for figure in figures:
        table.add_row(
            figure["what"], f"{figure['pairs_per_second']:,.0f}", f"{figure['time_over_matmul']:,.1f}"
        )
    Console().print(table)
    missing = bench_compiled.absent(arguments.aiter)
    compiled = [] if missing else bench_compiled.measure(arguments.aiter)
    if missing:
        Console().print(f"HIP kernels are not timed: {missing}", soft_wrap=True)
    else:
        below = Table("what", "a minute", "target", "time / peer", title="HIP kernels of aiter, emulated")
        for one in compiled:
            rate, least = (f"{one[name]:,.0f} {one['unit']}" for name in ("per_minute", "target"))
            below.add_row(one["what"], rate, least, f"{one['time_over_peer']:,.1f} x {one['peer']}")
        Console().print(below)
    if arguments.json is not None:
        content = {"shape": title, "figures": figures, "compiled": compiled, "not_timed": missing}
        document.write_text(arguments.json, json.dumps(content, indent=1) + "\n")
    return 0


def measure(rows: int, keys: int, heads: int, aiter: Path | None) -> list[dict[str, Any]]:
    """Best of `REPEATS` timings each: matmul, oracles, emulated kernels; one record each."""
    import torch

    from harness.case import cases
    from harness.fill import inputs
    from oracles import score

    case = cases.parse(f"decode-n1-h{heads}-d{DIM}-ctx{keys}x{rows}-tshuffled-u0-l0-fbytes-s1")
    built = inputs.build(case)
    request, planes = built.decode(), built.planes

    def oracle(how: str) -> Callable[[], Any]:
        return lambda: score.score_windows(
            planes.q_codes, planes.q_scales, planes.k_codes, planes.k_scales, planes.block_tables,
            planes.weights, request.weight_scale, built.windows, keys, how=how,
        )  # fmt: skip

    left = torch.randn(rows * heads, DIM)
    right = torch.randn(DIM, keys)
    tasks: list[tuple[str, Callable[[], Any]]] = [
        ("torch.matmul fp32", lambda: torch.matmul(left, right)),
        ("exact oracle", oracle("exact")),
        ("ordered oracle, decode tree", oracle("decode")),
        ("ordered oracle, prefill tree", oracle("prefill")),
    ]
    for name, tree in (("flydsl", None), ("aiter", aiter)):
        if name == "flydsl" or tree is not None:
            path = registry.create(registry.Choice(name, registry.Trees(tree)))
            tasks.append((f"emulator, {name} decode", functools.partial(path.run, request)))
    timed = [(what, _best(task)) for what, task in tasks]
    base = timed[0][1]
    return [
        {
            "what": what,
            "seconds": seconds,
            "pairs_per_second": rows * keys / seconds,
            "time_over_matmul": seconds / base,
        }
        for what, seconds in timed
    ]


def _best(task: Callable[[], Any]) -> float:
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        task()
        seconds.append(time.perf_counter() - start)
    return min(seconds)
