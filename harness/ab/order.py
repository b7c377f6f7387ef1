"""What a comparison asks of one tree, and how a tree is told for what it is.

How this would fail silently: two trees of different kinds, or one tree twice under two names, would
compare nothing or itself; the first is refused, the second is what a check of the command wants.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.exits import InputError
from harness.paths import registry

BASE, HEAD = "base", "head"
SIDES = (BASE, HEAD)


@dataclass(frozen=True)
class Order:
    """``path``: the path that takes the tree. ``beneath``: for ATOM, the aiter both sides stand on.

    ``suites``: names in order; ``cases``: which list; ``folder``: where the side keeps its tape.
    """

    path: str
    tree: str
    beneath: str | None
    suites: tuple[str, ...]
    cases: str
    folder: str

    def write(self, file: Path) -> None:
        file.write_text(json.dumps(asdict(self)))

    @staticmethod
    def read(file: Path) -> Order:
        found = json.loads(file.read_text())
        return Order(**{**found, "suites": tuple(found["suites"])})

    @property
    def choice(self) -> registry.Choice:
        """The path with its trees."""
        option = registry.entry(self.path).source
        assert option is not None
        trees = {option: Path(self.tree)}
        if self.beneath is not None:
            trees["aiter"] = Path(self.beneath)
        return registry.Choice(self.path, registry.Trees(**trees))


def kind_of(option: str, directory: Path) -> str:
    """The path that takes the tree ``directory``. Raises `InputError` when it is none that is known."""
    kinds = {name: entry.source for name, entry in registry.PATHS.items() if entry.source}
    if not directory.is_dir():
        what = "is a file" if directory.exists() else "does not exist"
        raise InputError(f"{option} {directory} {what}; give the directory of a source tree")
    for name, source in kinds.items():
        if (directory / registry.SOURCES[source].folder).is_dir():
            return name
    folders = " nor ".join(registry.SOURCES[source].folder for source in kinds.values())
    raise InputError(f"{option} {directory} is no source tree that is known: it has neither {folders}")


def same_kind(base: Path, head: Path) -> str:
    """The path that takes both trees. Raises `InputError`."""
    kinds = kind_of("--base", base), kind_of("--head", head)
    if kinds[0] != kinds[1]:
        raise InputError(f"--base is a tree of {kinds[0]} and --head one of {kinds[1]}, allowed is one kind")
    return kinds[0]
