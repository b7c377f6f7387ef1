"""Source faults of one file through the cases of its suites, in warm processes; one line on disk for each.

Contract: only cases that are green without a fault judge, quickest first; the others are kept by name, and a
suite of which none is green is an error, because it would judge nothing. A fault without an answer in
`PATIENCE` times what they all took (a loop that never ends) is killed by the clock. Lines belong to one text,
whose digest is in the file's name. A line holds which cases judged: a fault that they missed is tried again
when others do, a killed one never. Reasons are looked up when lines are read, never kept in them.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from harness.exits import CannotRun
from harness.power import lines
from harness.power.lines import PENDING, Record
from harness.power.source import faults, known
from harness.power.source.targets import SourceTarget
from harness.power.source.worker import Unchanged, Zygote
from harness.record import document

BEHIND: Mapping[str, frozenset[str]] = {
    "flydsl": frozenset(),
    "aiter": frozenset({"aiter"}),
    "atom": frozenset({"aiter", "atom"}),
}
"""The trees that a path answers from."""


@dataclass(frozen=True)
class SourcePlan:
    """The faults asked for, by name, and where their lines go."""

    target: SourceTarget
    root: Path
    trees: Mapping[str, str]
    listing: str
    directory: Path
    stem: str
    names: tuple[str, ...]
    faults: Mapping[str, faults.SourceFault]

    @property
    def records(self) -> list[Record]:
        """Those on disk that were asked for, in the order of the text, with the reasons known now."""
        kept, reasons = lines.read(self.directory, self.stem), known.load()
        found = []
        for name in self.names:
            if name in kept:
                fault = self.faults[name]
                where = {"file": self.target.file, "before": fault.before, "after": fault.after}
                reason = "" if kept[name]["how"] else reasons.get(known.key(where), PENDING)
                found.append({**kept[name], "why": reason})
        return found

    @property
    def left(self) -> list[str]:
        """Names that are neither killed nor explained nor missed by all the cases that are listed now."""
        judged = {_digest(self._judges(one)) for one in (self.listing, "full")}
        done = {
            one["mutant"] for one in self.records if one["why"] != PENDING or one.get("judged", "") in judged
        }
        return [name for name in self.names if name not in done]

    @property
    def left_out(self) -> dict[str, str]:
        """Case to what was red about it without a fault, as the last run of the listing found."""
        return self._left_out(self.listing)

    def keep(self, left_out: Mapping[str, str]) -> None:
        """Put `left_out` on disk."""
        document.write_text(self._baseline(self.listing), json.dumps(left_out, indent=1) + "\n")

    def _judges(self, listing: str) -> list[str]:
        """The cases of ``listing`` that judged when they last ran; all of them where they never did."""
        left_out = self._left_out(listing)
        return [case for case in cases_of(self.target, listing) if case not in left_out]

    def _left_out(self, listing: str) -> dict[str, str]:
        file = self._baseline(listing)
        return dict(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}

    def _baseline(self, listing: str) -> Path:
        return self.directory / f"{self.stem}-{listing}.left-out.json"


def plan(
    target: SourceTarget,
    roots: Mapping[str, Path],
    listing: str,
    directory: Path,
    sample: int | None,
    seed: int,
) -> SourcePlan:
    """Draw the faults. ``roots``: name of a tree to its folder. Raises `CannotRun`."""
    root = roots[target.tree]
    file = root / target.file
    if not file.is_file():
        raise CannotRun(f"source {target.name} is {target.file}, which the tree does not have")
    text = file.read_text(encoding="utf-8")
    found = {one.name: one for one in faults.faults(text, target.functions)}
    names = list(found)
    if sample is not None and sample < len(names):
        drawn = set(random.Random(seed).sample(names, sample))
        names = [name for name in names if name in drawn]
    stem = f"source-{target.name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    trees = {name: str(tree) for name, tree in roots.items() if name in BEHIND[target.path]}
    return SourcePlan(target, root, trees, listing, directory, stem, tuple(names), found)


def run(found: SourcePlan, workers: int) -> Iterator[Record]:
    """Try every fault that is left; each record when it is on disk.

    Raises `CannotRun` where a suite of the target has no case that is green without a fault, and where the
    project's own files change meanwhile.
    """
    left = found.left
    if not left:
        return
    listed = cases_of(found.target, found.listing)
    with ExitStack() as stack:
        written = stack.enter_context(lines.writer(found.directory / f"{found.stem}.jsonl"))
        unchanged, free = Unchanged(), SimpleQueue[Zygote]()
        for _ in range(min(workers, len(left))):
            free.put(stack.enter_context(Zygote(found.target, found.root, found.trees)))
        first = free.get()
        baseline = first.baseline(listed)
        found.keep(baseline.left_out)
        free.put(first)
        judged = _digest([one for one in listed if one in baseline.cases])
        missed = {one["mutant"] for one in found.records if one.get("judged") == judged}

        def one(name: str) -> Record:
            worker, fault = free.get(), found.faults[name]
            try:
                return _record(found, fault, worker.trial(fault, baseline), judged)
            finally:
                free.put(worker)

        pool = ThreadPoolExecutor(workers)
        stack.callback(pool.shutdown, cancel_futures=True)  # when this ends early, the rest is not tried
        for done in as_completed([pool.submit(one, name) for name in left if name not in missed]):
            record = done.result()
            unchanged.check()
            written.put([record])
            yield record


def cases_of(target: SourceTarget, listing: str) -> list[str]:
    """Ids of the suites' listing, each once."""
    from harness.case.lists import SUITES

    chosen = [
        one
        for suite in target.suites
        for one in (
            SUITES[suite].smoke if listing == "smoke" else (*SUITES[suite].smoke, *SUITES[suite].full())
        )
    ]
    return list(dict.fromkeys(chosen))


def _digest(cases: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(cases).encode()).hexdigest()[:12]


def _record(found: SourcePlan, fault: faults.SourceFault, told: Mapping[str, Any], judged: str) -> Record:
    return {
        "mutant": fault.name,
        "rule": fault.operator,
        "location": f"{found.target.file}:{fault.line}",
        "diff": fault.diff(),
        "how": told["how"],
        "case": told["case"],
        "said": told["said"],
        "missed": [],
        "judged": judged,
        "why": "" if told["how"] else PENDING,
    }
