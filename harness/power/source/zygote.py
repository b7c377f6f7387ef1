"""A warm process that forks for each fault: ``python -m harness.power.source.zygote``, JSON lines in and out.

In: ``path``, ``trees``, ``cases``, ``seconds``. Out: ``how`` (layer that was red, ``error``, ``refused``,
``timeout``, ``died``; empty: all green), ``case``, ``said``, and ``took``, case to seconds. With ``all``,
every case runs, and those that are not green are in ``red``, case to reason, instead. The child tells case by
case, so that one that hangs or dies is known by name. The mutated file is read from the copy of the tree that
is on this process's path, by the child and by processes it starts; so only packages and checks are loaded
here.
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
from collections.abc import Iterator
from typing import Any

ENDS = {"end", "path", "broke"}
"""Keys of a line after which a child says no more."""


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
    """What a child says of ``asked``; ``timeout`` or ``died`` where it says no end."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        os.close(reading)
        with contextlib.suppress(BaseException), os.fdopen(writing, "w") as stream:
            try:
                for told in ask(asked):
                    print(json.dumps(told), file=stream, flush=True)
            except BaseException as error:
                print(json.dumps({"broke": f"{type(error).__name__}: {error}"}), file=stream, flush=True)
        os._exit(0)
    os.close(writing)
    try:
        lines, late = _heard(reading, asked["seconds"])
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    said = f"no answer in {asked['seconds']:.0f} s" if late else f"the process died ({_ending(status)})"
    return gathered(asked["cases"], lines, "timeout" if late else "died", said)


def _ending(status: int) -> str:
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "of itself"


def _heard(reading: int, seconds: float) -> tuple[list[dict[str, Any]], bool]:
    """(the whole lines that came, whether time was up), until one of them is an end."""
    lines: list[dict[str, Any]] = []
    until, heard = time.monotonic() + seconds, b""
    while True:
        left = until - time.monotonic()
        if left <= 0 or not select.select([reading], [], [], left)[0]:
            return lines, True
        part = os.read(reading, 1 << 16)
        *whole, heard = (heard + part).split(b"\n")
        lines += [json.loads(line) for line in whole]
        if not part or any(ENDS & set(line) for line in lines):
            return lines, False


def gathered(cases: list[str], lines: list[dict[str, Any]], how: str, said: str) -> dict[str, Any]:
    """One answer of a child's lines; without an end in them it is ``how`` in the case that was running."""
    took = {line["case"]: line["seconds"] for line in lines if "seconds" in line and not line["how"]}
    red = {line["case"]: f"{line['how']}: {line['said']}" for line in lines if line.get("how")}
    told: dict[str, Any] = {"how": "", "case": "", "said": "", "took": took, "red": red}
    for line in lines:
        if "broke" in line:
            return {**told, "how": "broke", "said": line["broke"]}
        if "path" in line:
            return {**told, "how": "error", "said": line["path"]}
        if "end" in line:
            return {**told, **{key: line["end"][key] for key in ("how", "case", "said") if line["end"]}}
    ran = len([line for line in lines if "seconds" in line])
    return {**told, "how": how, "case": cases[ran] if ran < len(cases) else "", "said": said}


def ask(asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Run cases until one is not green, or all of them: a line each, then an end."""
    from pathlib import Path

    from harness import runner
    from harness.case import cases
    from harness.judge import ledger
    from harness.judge.verdict import OUT_OF_SCOPE
    from harness.paths import registry
    from harness.power.trial import red

    trees = registry.Trees(**{name: Path(tree) for name, tree in asked["trees"].items()})
    known = ledger.load()
    try:
        path = registry.create(registry.Choice(asked["path"], trees))
    except Exception as error:
        yield {"path": f"{type(error).__name__}: {error}"}
        return
    for one in asked["cases"]:
        verdict = runner.run(cases.parse(one), path, known)
        if verdict.facts.get(OUT_OF_SCOPE) and not asked.get("all"):  # such as too little memory just now
            yield {"broke": f"{one} was green without a fault: {verdict.reason}"}
            return
        told = {"case": one, "how": red(verdict), "said": verdict.reason, "seconds": verdict.seconds}
        yield told
        if told["how"] and not asked.get("all"):
            yield {"end": told}
            return
    yield {"end": None}


if __name__ == "__main__":
    sys.exit(main())
