"""One side of a comparison, in a process of its own: ``python -m harness.ab.child ORDER``.

A module can be imported once a process, so each tree gets one. Events go to ``events.jsonl`` line by
line, tensors beside it. The process ends when its parent does: the parent holds its standard input, and
when that closes nobody will read the tape.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.ab.order import Order
from harness.case import case_lists
from harness.paths import registry

EVENTS = "events.jsonl"


def main(file: Path) -> None:
    """Run every case of the order and write what happened."""
    order = Order.read(file)
    folder = Path(order.folder)
    threading.Thread(target=_end_with_parent, args=(folder,), daemon=True).start()
    with open(folder / EVENTS, "w", encoding="utf-8") as stream:

        def tell(**event: Any) -> None:
            stream.write(json.dumps(event) + "\n")
            stream.flush()

        run(order, folder, tell)


def run(order: Order, folder: Path, tell: Any) -> None:
    """Tell ``plan``, a ``case`` for each, ``signatures`` and ``end``."""
    cases = [case for suite in order.suites for case in case_lists.listed(suite, order.cases)]
    tell(event="plan", count=len(cases))
    path = registry.create(order.choice)
    # Only now: torch and the packages of the path read their environment when they are imported.
    import torch

    from harness import runner
    from harness.ab import seen, text
    from harness.ab.tape import Tape
    from harness.judge.ledger import Ledger

    torch.set_num_threads(1)
    tape = Tape(path, folder)
    functions: dict[str, Any] = {}
    with seen.noting(functions):
        for number, case in enumerate(cases):
            tape.begin(number)
            tell(event="start", case=case.id)
            verdict = runner.run(case, tape, Ledger())
            facts: Mapping[str, Any] = {"status": str(verdict.status), "reason": verdict.reason}
            tell(
                event="case",
                case=case.id,
                number=number,
                seconds=verdict.seconds,
                **facts,
                requests=tape.requests,
            )
    root = Path(order.tree)
    functions |= seen.watched(root, order.path, order.suites)
    texts = text.digests(root, order.path, order.suites)
    tell(event="signatures", functions=functions, texts=texts)
    tell(event="end")


def _end_with_parent(folder: Path) -> None:
    """Wait until standard input closes; then nobody will read the tape."""
    sys.stdin.buffer.read()
    shutil.rmtree(folder.parent, ignore_errors=True)
    os._exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
