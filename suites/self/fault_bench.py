"""The paths that faults are planted in, made once a process, and their cases without a fault run once."""

from __future__ import annotations

from functools import cache

from harness.faults.trial import Bench
from harness.judge import ledger
from harness.paths import registry


@cache
def bench(path: str = "flydsl") -> Bench:
    """Faults on the path of that name."""
    return Bench(registry.create(registry.Choice(path)), ledger.load())
