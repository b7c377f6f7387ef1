"""How good diagnosis is, as a number: every fault of the catalogue planted in a path and diagnosed.

Contract: each fault is diagnosed twice on its smallest case, with the whole catalogue (it should be named,
alone or beside faults that no case tells from it) and without itself (then every name is wrong, so that none
may be called certain). It would fail silently if a fault that the path does not have counted as missed or as
named; it counts as neither, with the reason.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from harness.case.cases import parse
from harness.diagnose.search import Search
from harness.faults.fault import Fault
from harness.judge.ledger import Ledger
from harness.paths import base

SHARE = 0.9
"""Part of the catalogue that is to be named first."""
NAMED = ("certain", "alone", "among")
"""Words for a fault that has the first rank: called certain, the only one that fits, one of several."""


@dataclass(frozen=True)
class Measured:
    """One fault. ``others``: what else has the first rank. ``without``: what is called certain when the fault
    is not in the catalogue; empty where nothing is.

    ``word``: one of `NAMED`; ``missed``: none is first; ``wrong``: others are; ``misled``: another is called
    certain; ``unseen``: the case does not differ; ``unsupported``.
    """

    fault: str
    stage: str
    case: str
    word: str
    others: tuple[str, ...]
    without: str
    seconds: float

    def text(self) -> str:
        more = f", with {', '.join(self.others)}" if self.others else ""
        wrong = f"; without it {self.without} is called certain" if self.without else ""
        return f"{self.word:<12}{self.fault} ({self.stage}){more}{wrong}   {self.seconds:.1f} s"

    def to_record(self) -> dict[str, Any]:
        return {**asdict(self), "others": list(self.others)}


def measure(fault: Fault, catalogue: Sequence[Fault], path: base.Path, ledger: Ledger) -> Measured:
    """Plant ``fault`` in ``path`` and diagnose its smallest case."""
    began, case = time.perf_counter(), parse(fault.case)
    search = Search(path, catalogue, ledger, planted=(fault,), seconds=0)
    found = search.run(case)
    first = [one.name for one in found.standing]
    if not found.seen.told:
        word = "unsupported"
    elif not found.seen.differs:
        word = "unseen"
    elif fault.name in first:
        word = "certain" if found.certain else "alone" if len(first) == 1 else "among"
    else:
        word = "missed" if not first else "misled" if found.certain else "wrong"
    left = search.run(case, leaving_out=fault)
    without = left.standing[0].name if left.certain else ""
    others = tuple(name for name in first if name != fault.name)
    return Measured(fault.name, fault.stage, case.id, word, others, without, time.perf_counter() - began)


def holds(records: Sequence[Measured]) -> bool:
    """Whether enough are named first, and no wrong one is called certain."""
    asked = [one for one in records if one.word not in ("unsupported", "unseen")]
    named = sum(one.word in NAMED for one in asked)
    return bool(asked) and named >= SHARE * len(asked) and not wrongly(asked)


def wrongly(records: Sequence[Measured]) -> list[Measured]:
    """Those in whose stead a wrong fault was called certain with the whole catalogue."""
    return [one for one in records if one.word == "misled"]


def summary(records: Sequence[Measured]) -> str:
    """The figures in a sentence or two."""
    words = Counter(one.word for one in records)
    asked = [one for one in records if one.word not in ("unsupported", "unseen")]
    named = sum(words[word] for word in NAMED)
    counts = ", ".join(f"{count} {word}" for word, count in words.items())
    without = sum(bool(one.without) for one in asked)
    return (
        f"{named} of {len(asked)} planted faults have the first rank ({counts});"
        f" {len(wrongly(asked))} times a wrong one is called certain;"
        f" with the fault left out of the catalogue a wrong one is called certain {without} times"
    )


def markdown(records: Sequence[Measured], path: str) -> str:
    rows = "\n".join(
        f"| {one.fault} | {one.stage} | {one.word} | {', '.join(one.others)} | {one.without}"
        f" | {one.seconds:.1f} |"
        for one in records
    )
    head = "| fault | stage | named | with | certain without it | seconds |"
    rule = "| --- | --- | --- | --- | --- | ---: |"
    return f"## Diagnosis of every fault, planted in {path}\n\n{summary(records)}\n\n{head}\n{rule}\n{rows}\n"
