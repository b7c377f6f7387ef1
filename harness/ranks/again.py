"""How a path under test is made once more, in another process.

A registered path by the command line that reruns it; any other (those of tests) as it is, by pickle,
without what it has cached; faults that are planted in either by their names. A path made from less than
the first one was would be another subject under the same name, so what cannot be carried over is an error.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path as FilePath

from harness.faults.planted import Planted, planted
from harness.paths import registry
from harness.paths.base import Path
from harness.paths.registry import Choice, Trees


@dataclass(frozen=True)
class Recipe:
    """``choice`` of a registered path, or a ``copy`` of one that is not registered.

    ``faults`` planted in it; ``turn`` is another one each time, since a fault remembers within a case only.
    ``record``: a folder in which the process leaves what it was asked (see `harness.reduce.recording`).
    """

    choice: Choice | None = None
    copy: bytes = b""
    faults: tuple[str, ...] = ()
    turn: int = 0
    record: str = ""


_turns = count(1)


def recipe(path: Path) -> Recipe:
    """How to make ``path``. Raises TypeError when it is neither registered nor can be pickled."""
    record: str = getattr(path, "record", "")
    if record:
        return replace(recipe(path.inner), record=record)  # type: ignore[attr-defined]
    if isinstance(path, Planted):
        names = tuple(fault.name for fault in path.faults)
        return replace(recipe(path.inner), faults=names, turn=next(_turns))
    entry = registry.PATHS.get(path.name)
    if entry is not None and type(path).__name__ == entry.attribute:
        words: tuple[str, ...] = getattr(path, "rerun_args", ())
        options = zip(words[::2], words[1::2], strict=True)
        trees = Trees(**{option.removeprefix("--"): FilePath(tree) for option, tree in options})
        return Recipe(Choice(path.name, trees))
    kept = {key: value for key, value in vars(path).items() if key != "table"}
    try:
        return Recipe(copy=pickle.dumps((type(path), kept)))
    except (pickle.PicklingError, AttributeError, TypeError) as problem:
        raise TypeError(f"path {path.name} cannot be made in a rank process: {problem}") from problem


def make(how: Recipe) -> Path:
    """The path that ``how`` describes, in this process, without its faults (see `plant`)."""
    if how.choice is not None:
        return registry.create(how.choice)
    kind, kept = pickle.loads(how.copy)
    path: Path = kind.__new__(kind)
    vars(path).update(kept)
    return path


def plant(path: Path, how: Recipe) -> Path:
    """``path``, made by ``how``, with the faults of ``how``, recording where it says so."""
    if how.faults:
        from harness.faults import catalogue

        path = planted(path, catalogue.chosen(how.faults))
    if how.record:
        from harness.reduce.recording import RankRecording

        path = RankRecording(path, how.record)
    return path


def sound(how: Recipe | None) -> Recipe | None:
    """``how`` without its faults: which path it is."""
    return how and replace(how, faults=(), turn=0, record="")
