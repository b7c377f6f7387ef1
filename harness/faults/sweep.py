"""The catalogue, or a part of it, on one path in worker processes: what became of each fault, in order.

Faults of one case lie side by side, so that a worker runs the case without a fault once for all of them. How
this would fail silently: a worker that dies takes its faults with it, so the pool's error ends the sweep.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

import torch

from harness import exits
from harness.faults.fault import Fault
from harness.faults.trial import BROKEN, MISSED, RED, Bench, Told
from harness.judge import ledger
from harness.paths import registry

SLOW = ("dcp-", "replay-", "pipeline-")
"""Cases that take longest begin first."""


_bench: Bench | None = None


def _begin(choice: registry.Choice) -> None:
    global _bench
    path = registry.create(choice)  # first, since its packages read their environment when they are imported
    torch.set_num_threads(1)
    _bench = Bench(path, ledger.load())


def _one(name: str) -> Told:
    from harness.faults import catalogue

    assert _bench is not None
    return _bench.trial(catalogue.named(name))


def run(choice: registry.Choice, faults: Sequence[Fault], workers: int) -> Iterator[Told]:
    """What became of each of ``faults`` on the path, as it becomes known."""
    order = sorted(faults, key=lambda fault: (not fault.case.startswith(SLOW), fault.case))
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(workers, len(order)), context, _begin, (choice,))
    try:
        for done in as_completed([pool.submit(_one, fault.name) for fault in order]):
            yield done.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def exit_code(told: Sequence[Told]) -> int:
    """0 only where every fault is red; a fault that nobody saw outranks what could not be tried."""
    outcomes = {one.outcome for one in told}
    if MISSED in outcomes:
        return exits.DIFFER
    if BROKEN in outcomes:
        return exits.ERROR
    return exits.AGREE if outcomes == {RED} else exits.UNPROVEN
