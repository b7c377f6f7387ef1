"""What ``harness bench`` times of aiter's HIP kernels: the fused writer and the top-k, in the emulator.

Each stands beside a peer of the same run: the oracle of the same stage, and ``torch.topk`` over the same
scores. Rates are a minute's; how fast they must be is ``TARGETS``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.exits import CannotRun

TOKENS, HEADS = 64, 32
ROWS, KEYS, CHOSEN = 16, 8192, 2048
TARGETS = {"writer": 2_000, "topk": 1_000_000}
"""Tokens of 32 heads, and scores, a minute on two cores."""
REPEATS = 2
UNGIVEN = "no --aiter DIR is given"


def absent(aiter: Path | None) -> str:
    """Why there is nothing to time, in a few words; empty where there is."""
    from harness.hip import compilers

    if aiter is None:
        return UNGIVEN
    try:
        compilers.find()
    except compilers.CannotCompile as missing:
        return str(missing)
    return ""


def measure(aiter: Path) -> list[dict[str, Any]]:
    """A record a kernel: units a minute, target, and seconds over those of its peer.

    Raises `CannotRun` for a tree that lacks one of the kernels.
    """
    from harness.paths import registry
    from harness.paths.base import Unsupported
    from harness.paths.oracle import OraclePath

    path = registry.create(registry.Choice("aiter", registry.Trees(aiter)))
    try:
        writer, topk = _writer(), _topk()
        oracle = _seconds(lambda: OraclePath().run(writer))
        written = _seconds(lambda: path.run(writer))
        peer = _seconds(lambda: topk.logits.topk(CHOSEN, dim=1))
        selected = _seconds(lambda: path.run(topk))
    except Unsupported as refusal:
        raise CannotRun(f"--aiter {aiter} cannot be timed: {refusal}") from refusal
    return [
        _record("fused FP8 writer", "tokens of 32 heads", "writer", TOKENS, written, "torch oracle", oracle),
        _record("top-k decode", "scores", "topk", ROWS * KEYS, selected, "torch.topk", peer),
    ]


def _record(
    what: str, unit: str, target: str, units: int, seconds: float, peer: str, beside: float
) -> dict[str, Any]:
    return {
        "what": f"emulator, aiter {what}",
        "unit": unit,
        "seconds": seconds,
        "per_minute": 60 * units / seconds,
        "target": TARGETS[target],
        "peer": peer,
        "time_over_peer": seconds / beside,
    }


def _writer() -> Any:
    from harness.case import cases
    from harness.checks.fp8 import tokens

    name = f"fp8-r{TOKENS}-h{HEADS}-d128-pairneox-p0-fmtfn-ue1-tiletiled-fnatural-s1"
    return tokens.build(cases.parse(name))


def _topk() -> Any:
    from harness.case import cases
    from harness.checks.topk import asked

    name = f"topk-n1-ctx{KEYS}x{ROWS}-k{CHOSEN}-stable0-l0-fnatural-s1"
    return next(iter(asked.build(cases.parse(name)).questions())).request


def _seconds(task: Callable[[], Any]) -> float:
    """Best of `REPEATS`, after one that compiles."""
    task()
    found = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        task()
        found.append(time.perf_counter() - began)
    return min(found)
