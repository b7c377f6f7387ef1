"""A warm process that forks for each fault: ``python -m harness.power.source.zygote``, JSON lines in and out.

In: ``path``, ``trees``, ``cases``, ``seconds``. Out: ``how`` (layer that was red, ``error``, ``refused``,
``timeout``; empty: all green), ``case``, ``said``, and ``took``, case to seconds. With ``all``, every case
runs, and those that are not green are in ``red``, case to reason, instead. The mutated file is read from the
copy of the tree that is on this process's path, by the child and by processes it starts; so only packages
and checks are loaded here.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pkgutil
import select
import signal
import sys
import time
from typing import Any


def main() -> int:
    """Answer until the input ends."""
    warm()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=answers, flush=True)
    return 0


def warm() -> None:
    """Import what no target mutates."""
    from harness.paths import registry

    for name in ("flydsl", "aiter"):
        registry.prepare_environment(name)
    import torch

    torch.set_num_threads(1)
    for package in ("harness.checks", "harness.fill", "harness.judge"):
        found = importlib.import_module(package)
        for one in pkgutil.walk_packages(found.__path__, f"{package}."):
            importlib.import_module(one.name)
    importlib.import_module("harness.runner")
    importlib.import_module("triton")


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """What a child says of ``asked``, or ``timeout``."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        os.close(reading)
        code = 1
        try:
            with os.fdopen(writing, "w") as stream:
                json.dump(ask(asked), stream)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    try:
        return _heard(reading, asked["seconds"])
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _heard(reading: int, seconds: float) -> dict[str, Any]:
    until, heard = time.monotonic() + seconds, b""
    while True:
        left = until - time.monotonic()
        if left <= 0 or not select.select([reading], [], [], left)[0]:
            return {"how": "timeout", "case": "", "said": f"no answer in {seconds:.0f} s", "took": {}}
        part = os.read(reading, 1 << 16)
        if not part:
            break
        heard += part
    if not heard:
        return {"how": "error", "case": "", "said": "the process died", "took": {}}
    told: dict[str, Any] = json.loads(heard)
    return told


def ask(asked: dict[str, Any]) -> dict[str, Any]:
    """Run cases until one is not green."""
    from pathlib import Path

    from harness import runner
    from harness.case import cases
    from harness.judge import ledger
    from harness.paths import registry
    from harness.power.trial import red

    took: dict[str, float] = {}
    left_out: dict[str, str] = {}
    trees = registry.Trees(**{name: Path(tree) for name, tree in asked["trees"].items()})
    known = ledger.load()
    try:
        path = registry.create(registry.Choice(asked["path"], trees))
    except Exception as error:
        return {"how": "error", "case": "", "said": f"{type(error).__name__}: {error}", "took": took}
    for one in asked["cases"]:
        verdict = runner.run(cases.parse(one), path, known)
        if not red(verdict):
            took[one] = verdict.seconds
        elif asked.get("all"):
            left_out[one] = f"{red(verdict)}: {verdict.reason}"
        else:
            return {"how": red(verdict), "case": one, "said": verdict.reason, "took": took}
    return {"how": "", "case": "", "said": "", "took": took, "red": left_out}


if __name__ == "__main__":
    sys.exit(main())
