"""Two recordings of one case against each other: what is the same, and the first byte that is not.

Requests are paired in order. A request whose inputs differ is not compared: an earlier answer was
another one, and what follows from it says nothing more. Findings are compared and noted, because code
that moved has them elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from harness.ab.tape import ERROR, UNSUPPORTED, VALUE
from harness.case import cases

SAME, DIFFERS, GONE, NEW = "same", "differs", "gone", "new"
NOT_ASKED = "not asked"
MEANINGS = {
    SAME: "every answer has the same bytes",
    DIFFERS: "a byte, a shape, a type or the way it ends is another",
    GONE: "the base answers and the head does not",
    NEW: "the head answers and the base does not",
    UNSUPPORTED: "neither answers, and both say why",
    ERROR: "both break",
    NOT_ASKED: "the path has no such operation",
}
WORST = (DIFFERS, GONE, ERROR, NEW, SAME, UNSUPPORTED, NOT_ASKED)
"""A case is the first of these that one of its requests is."""


@dataclass(frozen=True)
class Change:
    """One difference of a case: which request, which tensor, where first, and both sides there."""

    what: str
    where: str = ""
    base: str = ""
    head: str = ""
    count: int = 0
    total: int = 0

    def text(self) -> str:
        if not self.where:
            return f"{self.what}: {self.base} in base, {self.head} in head" if self.base else self.what
        cells = f"{self.count} of {self.total} cells differ, first at {self.where}"
        return f"{self.what}: {cells}: base {self.base}, head {self.head}"


@dataclass(frozen=True)
class Compared:
    """What became of one case."""

    case: str
    status: str
    changes: tuple[Change, ...] = ()
    reason: str = ""
    tensors: int = 0
    bytes: int = 0
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def suite(self) -> str:
        return cases.parse(self.case).suite

    def to_record(self) -> dict[str, Any]:
        return {"kind": "case", **asdict(self)}


def between(what: str, said: Sequence[str]) -> Change:
    """A difference that has no cell: what base says, what head says."""
    return Change(what, base=said[0], head=said[1])


Event = Mapping[str, Any]


def case(base: Event, head: Event, folders: tuple[Path, Path]) -> Compared:
    """Compare one case; both events are of the same case."""
    statuses: list[str] = []
    changes: list[Change] = []
    notes: list[str] = []
    reasons: list[str] = []
    tensors = size = 0
    pairs = list(zip_longest(base["requests"], head["requests"]))
    for number, (one, other) in enumerate(pairs):
        if one is None or other is None:
            if reasons:
                break  # a case goes no further than a refusal
            counts = [str(len(side["requests"])) for side in (base, head)]
            changes.append(between("number of requests", counts))
            statuses.append(DIFFERS)
            break
        if (one["request"], one["inputs"]) != (other["request"], other["inputs"]):
            notes.append(f"request {number} was given other inputs and is not compared")
            changes.append(Change(f"inputs of request {number} {one['request']}"))
            statuses.append(DIFFERS)
            break
        status, found = request(one, other, number, folders)
        statuses.append(status)
        changes += found
        if status != SAME:
            reasons += [event["reason"] for event in (one, other) if event["outcome"] != VALUE]
        elif one["outcome"] == ERROR and one["reason"] != other["reason"]:
            notes.append(f"request {number} {one['request']} raises with other words: {other['reason']}")
        if one["outcome"] == other["outcome"] == VALUE:
            tensors += len(one["tensors"])
            size += sum(_size(tensor) for tensor in one["tensors"])
            if one["findings"] != other["findings"]:
                notes.append(f"findings were {_listed(one['findings'])}, are {_listed(other['findings'])}")
    if [side["status"] for side in (base, head)] == [ERROR, ERROR]:
        statuses.append(ERROR)
        reasons.append(base["reason"])
    return Compared(
        base["case"],
        next((word for word in WORST if word in statuses), NOT_ASKED),
        tuple(changes),
        reasons[0] if reasons else str(base["reason"]) if not pairs else "",
        tensors,
        size,
        tuple(notes),
        float(base["seconds"]) + float(head["seconds"]),
    )


def request(one: Event, other: Event, number: int, folders: tuple[Path, Path]) -> tuple[str, list[Change]]:
    """(status, changes) of one request asked of both."""
    name = f"request {number} {one['request']}"
    ways = one["outcome"], other["outcome"]
    if ways == (VALUE, VALUE):
        found = _tensors(one["tensors"], other["tensors"], name, folders)
        return (DIFFERS if found else SAME), found
    if ways == (UNSUPPORTED, UNSUPPORTED):
        return UNSUPPORTED, []
    if ways == (ERROR, ERROR) and _kind(one) == _kind(other):
        return SAME, []  # a refusal alike; a case that it breaks is told by its verdicts
    said = [event["reason"] if event["outcome"] != VALUE else "an answer" for event in (one, other)]
    change = between(f"outcome of {name}", said)
    if VALUE in ways and UNSUPPORTED in ways:
        return (GONE if ways[0] == VALUE else NEW), [change]
    return DIFFERS, [change]


def _kind(event: Event) -> str:
    """The type of the exception that was raised."""
    return str(event["reason"]).split(":")[0]


def _tensors(
    base: Sequence[Event], head: Sequence[Event], name: str, folders: tuple[Path, Path]
) -> list[Change]:
    """Differences of the tensors of one request."""
    names = [[tensor["name"] for tensor in side] for side in (base, head)]
    if names[0] != names[1]:
        return [between(f"tensors of {name}", [_listed(side) for side in names])]
    found: list[Change] = []
    told: set[tuple[str, str]] = set()
    for one, other in zip(base, head, strict=True):
        what = f"{name} {one['name']}"
        forms = [f"{side['dtype']} {side['shape']}" for side in (one, other)]
        if forms[0] != forms[1]:
            found.append(between(f"form of {what}", forms))
        elif one["digest"] != other["digest"] and (one["digest"], other["digest"]) not in told:
            told.add((one["digest"], other["digest"]))  # a buffer that is also the value is told once
            found.append(_cells(f"{what} {forms[0]}", one, other, folders))
    return found


def _cells(what: str, one: Event, other: Event, folders: tuple[Path, Path]) -> Change:
    """The first differing cell, in coordinates, hex and value, and how many differ."""
    sides = [_loaded(event, folder) for event, folder in zip((one, other), folders, strict=True)]
    wide = [side.view(torch.uint8).reshape(side.numel(), -1) for side in sides]
    cells = (wide[0] != wide[1]).any(1).nonzero().flatten()
    first = int(cells[0])
    place = torch.unravel_index(torch.tensor(first), tuple(one["shape"])) if one["shape"] else ()
    shown = [
        f"0x{bytes(part[first].flip(0).tolist()).hex()} {side[first].item()!r}"
        for part, side in zip(wide, sides, strict=True)
    ]
    where = str([int(index) for index in place])
    return Change(what, where, shown[0], shown[1], count=len(cells), total=len(wide[0]))


def _loaded(event: Event, folder: Path) -> Tensor:
    """The recorded tensor, flat."""
    raw = bytearray((folder / event["file"]).read_bytes())
    return torch.frombuffer(raw, dtype=getattr(torch, event["dtype"]))


def _size(tensor: Event) -> int:
    count = 1
    for extent in tensor["shape"]:
        count *= extent
    return count * torch.empty((), dtype=getattr(torch, tensor["dtype"])).element_size()


def _listed(names: Any) -> str:
    return ", ".join(names) or "none"


SOURCE = " (source)"
"""Ends the name of a function that was read and not looked up; told by the other name if it is there, too."""


def functions(base: Mapping[str, Any], head: Mapping[str, Any]) -> tuple[list[Change], list[str]]:
    """(changes, notes about functions that only one side has) of the signatures of both sides."""
    changes = []
    both = base.keys() & head.keys()
    for name in sorted(name for name in both if name.removesuffix(SOURCE) not in both - {name}):
        changes += [Change(f"signature of {name}: {said}") for said in signature(base[name], head[name])]
    alone = [f"function {name} was met in base only" for name in sorted(base.keys() - head.keys())]
    return changes, alone + [
        f"function {name} was met in head only" for name in sorted(head.keys() - base.keys())
    ]


def signature(base: Sequence[Mapping[str, str]], head: Sequence[Mapping[str, str]]) -> list[str]:
    """What changed between two parameter lists, a sentence each."""
    before, after = ({parameter["name"]: parameter for parameter in side} for side in (base, head))
    said = [f"parameter {name} is gone" for name in before if name not in after]
    said += [f"parameter {_spelled(after[name])} is new" for name in after if name not in before]
    for name in before.keys() & after.keys():
        one, other = before[name], after[name]
        if one.get("default") != other.get("default"):
            shown = [side.get("default", "none") for side in (one, other)]
            said.append(f"default of {name} was {shown[0]}, is {shown[1]}")
        if one["kind"] != other["kind"]:
            said.append(f"{name} was {one['kind']}, is {other['kind']}")
    common = [[name for name in side if name in before and name in after] for side in (before, after)]
    if common[0] != common[1]:
        said.append(f"order was {', '.join(common[0])}, is {', '.join(common[1])}")
    return sorted(said)


def _spelled(parameter: Mapping[str, str]) -> str:
    return f"{parameter['name']}={parameter['default']}" if "default" in parameter else parameter["name"]
