"""A planted runner: real command line, plugin, store and report over verdicts made to order.

`overlay` writes a ``sitecustomize.py`` that every Python process of a run loads, so that the
engine's workers are planted too. The seed of a case decides its verdict, see `VERDICTS`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

AGREE, DIFFER, MISTRUSTED, UNSUPPORTED, ERROR, FINDING, CRASH, HANG = range(8)
"""What the seed of a planted case asks for."""

SOURCE = """
import importlib, os, sys, time, types

sys.path.insert(0, {root!r})
from harness.case import cases
from harness.findings import Finding
from harness.judge.verdict import OUT_OF_SCOPE, Grade, Status, Verdict

WORDS = (Status.AGREE, Status.DIFFER, Status.MISTRUSTED, Status.UNSUPPORTED, Status.ERROR, Status.AGREE)

def run(case, path, ledger):
    time.sleep(float(os.environ.get("PLANTED_SLEEP", "0")))
    if case.s == 6:
        os.abort()
    if case.s == 7:
        time.sleep(60)
    place = ("some_kernel", "block_tables", "kernels/some.py:12")
    found = Finding("out-of-bounds-load", *place, 4, dict(cta=1, lane=3))
    differs = case.s == 1
    return Verdict(
        case.id, case.suite, "oracle", "emulated", WORDS[case.s % 6], Grade.EXACT, total=64, seconds=0.5,
        reason="" if case.s in (0, 5) else "planted <b>reason</b>", layer="bits" if differs else "",
        where=dict(row=3, column=5, sequence=1) if differs else dict(),
        got="0x40440000 3.0625" if differs else "", count=2 if differs else 0, ulps=7 if differs else None,
        heat=((0, 2), (0, 0)) if differs else (),
        facts=dict([(OUT_OF_SCOPE, True)]) if case.s == 3 else dict(),
        findings=(found,) if case.s == 5 else (), rerun=f"python -m harness check {{case.id}} --path oracle",
    )

def listed(suite, size):
    if suite not in ("quantise", "decode"):
        return ()
    seeds = [int(seed) for seed in os.environ["PLANTED_SEEDS"].split(",")]
    spell = dict(
        quantise="quantise-r{{n}}-d128-fnatural-s{{s}}",
        decode="decode-n1-h16-d128-ctx{{n}}-tshuffled-u0-l0-fbytes-s{{s}}",
    )[suite]
    return tuple(cases.parse(spell.format(n=n, s=seed)) for n, seed in enumerate(seeds, 1))

class OraclePath:
    name = "oracle"

def plant(name, **attributes):
    module = types.ModuleType("harness." + name)
    vars(module).update(attributes)
    sys.modules["harness." + name] = module
    parent, _, last = ("harness." + name).rpartition(".")
    setattr(importlib.import_module(parent), last, module)

plant("runner", run=run)
plant("case.case_lists", listed=listed)
plant("paths.oracle", OraclePath=OraclePath)
"""


def environment(folder: Path, seeds: list[int], sleep: float = 0.0) -> dict[str, str]:
    """Environment of a planted process; ``seeds``: those of the two planted suites' cases."""
    (folder / "overlay").mkdir(exist_ok=True)
    (folder / "overlay" / "sitecustomize.py").write_text(SOURCE.format(root=str(ROOT)), encoding="utf-8")
    planted = {
        "PYTHONPATH": os.pathsep.join([str(folder / "overlay"), str(ROOT)]),
        "PLANTED_SEEDS": ",".join(map(str, seeds)),
        "PLANTED_SLEEP": str(sleep),
    }
    return {**os.environ, **planted}


def start(folder: Path, arguments: list[str], planted: Mapping[str, str]) -> subprocess.Popen[str]:
    """Start ``python ARGUMENTS`` in ``folder``."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        env=dict(planted),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder: Path, arguments: list[str], planted: Mapping[str, str]) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of ``python ARGUMENTS``."""
    process = start(folder, arguments, planted)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err
