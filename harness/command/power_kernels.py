"""Which kernels ``harness power`` sweeps on which path, and how each is made ready.

FlyDSL kernels are recorded; the HIP kernels of an aiter tree are compiled (`harness.hip`), which keeps what
it made by itself, so there is nothing to record.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection
from typing import Any

from harness import exits
from harness.command.cli_check import trees_of
from harness.paths import registry
from harness.power.hip.targets import HIP_TARGETS, PATH
from harness.power.targets import TARGETS

PATHS = ("flydsl", "aiter")
KERNELS = (*TARGETS, *HIP_TARGETS)


def chosen_kernels(args: argparse.Namespace) -> list[str]:
    """The kernels meant, of both kinds. Raises `InputError` naming what is wrong about them."""
    for kernel in args.kernel or ():
        if kernel not in KERNELS:
            raise exits.InputError(f"--kernel is {kernel!r}, allowed are {', '.join(KERNELS)}")
    recording = next((name for name in ("prepare", "prepared") if getattr(args, name)), None)
    compiled = [kernel for kernel in args.kernel or () if kernel in HIP_TARGETS]
    if recording and compiled:
        raise exits.InputError(
            f"--{recording} is given for {compiled[0]}, allowed are FlyDSL kernels: "
            "a HIP kernel is not recorded"
        )
    return args.kernel or list(TARGETS if recording else KERNELS)


def chosen_paths(args: argparse.Namespace, kernels: Collection[str]) -> tuple[registry.Choice, ...]:
    """The paths meant; recorded ones need nothing installed, and no tree. Raises `InputError`."""
    if args.prepared:
        if args.aiter or args.atom:
            raise exits.InputError("--prepared needs no source tree; leave --aiter and --atom out")
        chosen = tuple(registry.Choice(name) for name in args.path or [registry.DEFAULT])
    else:
        chosen = registry.choose(args.path, trees_of(args))
    for choice in chosen:
        if choice.name not in PATHS:
            raise exits.InputError(f"--path is {choice.name}, allowed are {', '.join(PATHS)}")
    if args.kernel and PATH not in {choice.name for choice in chosen}:
        for kernel in kernels:
            if kernel in HIP_TARGETS:
                raise exits.InputError(f"--kernel {kernel} is a HIP kernel of aiter; add --aiter DIR")
    return chosen


def on_path(choice: registry.Choice, kernels: Collection[str], console: Any) -> list[str]:
    """Those of ``kernels`` that the path has; without a compiler, those that need none, and a sentence."""
    from harness.hip import compilers

    found = [kernel for kernel in kernels if kernel in TARGETS or choice.name == PATH]
    compiled = [kernel for kernel in found if kernel in HIP_TARGETS]
    if not compiled or len(compiled) == len(kernels):
        return found
    try:
        compilers.find()
    except compilers.CannotCompile as missing:
        console.print(f"left out  {', '.join(compiled)}: {missing}", soft_wrap=True)
        return [kernel for kernel in found if kernel in TARGETS]
    return found


def made_ready(
    args: argparse.Namespace, choice: registry.Choice, kernel: str
) -> tuple[Any, Callable[[], None], tuple[str, ...]]:
    """(the kernel's cases, made ready; what makes the enumerated launches ready; acceptance rules to hold).

    Raises `CannotRun` where a case is red without a fault.
    """
    from harness.judge import ledger
    from harness.power import benches
    from harness.power.acceptance import RULES

    if kernel in HIP_TARGETS:
        from harness.power.hip import acceptance, bench

        compiled = bench.prepare(choice, HIP_TARGETS[kernel], args.dir)
        return compiled, compiled.enumerate_launches, acceptance.NAMES[HIP_TARGETS[kernel].asked]
    target = TARGETS[kernel]
    if not args.prepared:
        made = benches.prepare(choice, target, args.dir)
        return made, lambda: benches.enumerate_launches(choice, target, made), tuple(RULES)
    found = benches.found(choice.name, target, args.dir)
    found.bench().checked(ledger.load())
    return found, lambda: None, tuple(RULES)
