"""A diagnosis for people, for Markdown and for machines.

Contract: the word ``certain`` stands only where `Diagnosis.certain` holds; everything else is a candidate, or
none, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.diagnose import structure
from harness.diagnose.diagnosis import Candidate, Diagnosis

Line = tuple[str, str]


def lines(found: Diagnosis) -> list[Line]:
    """Label and text, in order: the verdict, what is named, the evidence, what is left open."""
    said = [("verdict", found.seen.verdict.text().splitlines()[0])]
    if not found.seen.differs:
        return [*said, ("answer", "nothing to diagnose: the case does not differ")]
    standing = found.standing
    if found.certain:
        said.append(("certain", " or ".join(map(named, standing))))
        said += [line for one in standing for line in about(one)]
    elif len(standing) == 1:
        said += [
            ("candidate", f"{named(standing[0])}, the only one, but {doubt(found)}"),
            *about(standing[0]),
        ]
    elif standing:
        said.append(("candidates", f"{len(standing)} that no case tried tells apart"))
        for one in standing:
            said += [("", named(one)), *about(one)]
    else:
        said.append(("answer", f"no fault of the catalogue{none_of(found)} gives these answers"))
    said += [
        ("not", f"{named(one)}: fits {len(one.fits)} cases, not {one.fails[0]}")
        for one in found.candidates
        if not one.stands
    ]
    said.append(("evidence", evidence(found)))
    if not standing:
        said += structure.lines(found.seen, found.clean, found.read)
    return said


def none_of(found: Diagnosis) -> str:
    return " and no pair of two" if found.pairs and found.whole else ""


def named(one: Candidate) -> str:
    return " + ".join(f"{fault.name} (stage {fault.stage})" for fault in one.faults)


def about(one: Candidate) -> Iterator[Line]:
    """What is wrong, and where such a rule lives."""
    for fault in one.faults:
        yield "what", fault.wrong
        yield "where", fault.source


def doubt(found: Diagnosis) -> str:
    if not found.whole:
        return f"time ran out after {found.pairs} pairs"
    return "no other case could be held against it"


def evidence(found: Diagnosis) -> str:
    """How many faults were tried, and on how many cases those that are named fit."""
    fitting = len(found.standing)
    said = [f"{found.tried} faults touch what is answered otherwise"]
    if found.pairs:
        late = "" if found.whole else ", time ran out"
        said.append(f"{found.altering} of them change it, {found.pairs} pairs of these tried{late}")
    elif not found.whole:
        said.append("no pair tried, for want of time")
    if fitting:
        said.append(
            f"{'it gives' if fitting == 1 else 'each gives'} every compared bit of"
            f" {len(found.standing[0].fits)} cases"
        )
    said.append(f"{found.differing} of {found.cases} cases run on the path differ")
    return "; ".join(said)


def plain(found: Diagnosis) -> str:
    return "\n".join(f"  {label:<11}{text}" for label, text in lines(found))


def markdown(found: Diagnosis, rerun: str) -> str:
    """A section for an issue."""
    head = f"## Diagnosis of `{found.seen.case.id}` on {found.seen.verdict.path}\n"
    body = "\n".join(f"| {label} | {text.replace('|', '/')} |" for label, text in lines(found))
    return f"{head}\n| | |\n| --- | --- |\n{body}\n\n```\n{rerun}\n```\n"


def record(found: Diagnosis) -> dict[str, Any]:
    """The diagnosis as plain values."""
    return {
        "case": found.seen.case.id,
        "path": found.seen.verdict.path,
        "status": str(found.seen.verdict.status),
        "certain": found.certain,
        "candidates": [
            {
                "faults": [fault.name for fault in one.faults],
                "stages": [fault.stage for fault in one.faults],
                "sources": [fault.source for fault in one.faults],
                "stands": one.stands,
                "fits": one.fits,
                "fails": one.fails,
            }
            for one in found.candidates
        ],
        "tried": found.tried,
        "altering": found.altering,
        "pairs": found.pairs,
        "whole": found.whole,
        "structure": []
        if found.standing or not found.seen.differs
        else [list(line) for line in structure.lines(found.seen, found.clean, found.read)],
    }
