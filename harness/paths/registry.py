"""Names of the paths under test, and how each is made.

Nothing of a path is imported until it is asked for, so that ``harness list`` needs neither
torch nor flydsl, and a package that is absent is one sentence instead of a traceback.
How this would fail silently: an environment variable that a package reads at import, set too
late, changes which executor runs without an error. `prepare_environment` therefore comes
before every import and refuses to run after them.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from harness.exits import CannotRun, InputError
from harness.record.provenance import torch_setting

if TYPE_CHECKING:
    from harness.paths.base import Path as PathUnderTest

DEFAULT = "flydsl"
INTERPRETED = {"TRITON_INTERPRET": "1"}


@dataclass(frozen=True)
class Source:
    """An option that names a source tree: the folder every such tree has, and what to call it."""

    folder: str
    what: str
    package: str | None = None
    """Installed package that serves where no tree is given."""


SOURCES: Mapping[str, Source] = {
    "aiter": Source("aiter/ops", "an aiter checkout", package="aiter"),
    "atom": Source("atom/model_ops", "an ATOM checkout"),
}


@dataclass(frozen=True)
class Trees:
    """The source trees given, by the name of their option."""

    aiter: Path | None = None
    atom: Path | None = None

    def given(self) -> dict[str, Path]:
        """Option to directory, of the options that were given."""
        found = {name: getattr(self, name) for name in SOURCES}
        return {name: tree for name, tree in found.items() if tree is not None}

    def only(self, names: Collection[str]) -> Trees:
        """The trees of some options, absolute."""
        return Trees(**{name: tree.resolve() for name, tree in self.given().items() if name in names})

    def options(self) -> list[str]:
        """As a command line has them."""
        return [word for name, tree in self.given().items() for word in (f"--{name}", str(tree))]


@dataclass(frozen=True)
class Entry:
    """One path: the class that is it, the packages it needs, the environment they must find.

    ``source``: the option that names its own tree. ``beneath``: the path that answers what it has not,
    where that one's tree is given too. ``suites``: what it runs where no suite is named, empty for all.
    """

    module: str
    attribute: str
    about: str
    packages: tuple[str, ...] = ()
    source: str | None = None
    beneath: str | None = None
    suites: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def takes(self) -> tuple[str, ...]:
        """The options that mean something to it."""
        under = PATHS[self.beneath].takes if self.beneath else ()
        return (self.source, *under) if self.source else under


@dataclass(frozen=True)
class Choice:
    """A path that was chosen, with its trees; nothing in it can be refused any more."""

    name: str
    trees: Trees = Trees()


PATHS: Mapping[str, Entry] = {
    "flydsl": Entry(
        "harness.paths.flydsl",
        "FlydslPath",
        "the in-tree FP4 path, written in FlyDSL and Triton from the ABI; emulated",
        packages=("torch", "flydsl", "triton"),
        environment=INTERPRETED,
    ),
    "aiter": Entry(
        "harness.paths.aiter",
        "AiterPath",
        "the production kernels of an installed aiter or of --aiter DIR; emulated without a gfx950",
        packages=("torch", "flydsl", "triton"),
        source="aiter",
        environment=INTERPRETED,
    ),
    "atom": Entry(
        "harness.paths.atom",
        "AtomPath",
        "the serving engine's functions of --atom DIR, over the kernels of --aiter DIR where it is given",
        packages=("torch", "triton"),
        source="atom",
        beneath="aiter",
        suites=(
            "topk",
            "dcp-decode",
            "dcp-prefill",
            "replay",
            "speculative",
            "gate",
            "pool",
            "pipeline",
        ),
        environment=INTERPRETED,
    ),
    "oracle": Entry(
        "harness.paths.oracle",
        "OraclePath",
        "the oracle itself as a path: checks the harness, proves nothing about kernels",
        packages=("torch",),
    ),
}


def entry(name: str) -> Entry:
    """The entry of path ``name``. Raises `InputError`."""
    try:
        return PATHS[name]
    except KeyError:
        raise InputError(f"--path is {name!r}, allowed are {', '.join(PATHS)}") from None


def beneath(name: str) -> str | None:
    """The path whose kernels run under path ``name`` too."""
    return PATHS[name].beneath if name in PATHS else None


def choose(names: Sequence[str], trees: Trees) -> tuple[Choice, ...]:
    """The paths that are meant: those named, else the in-tree one and each whose tree is given.

    Nothing is imported. Raises `InputError` (exit code 2) for an unknown name, a directory that is no
    such checkout or one that no path takes, `CannotRun` (exit code 3) when a package is not installed.
    """
    own = [name for name, chosen in PATHS.items() if chosen.source in trees.given()]
    wanted = list(dict.fromkeys(names)) or [DEFAULT, *own]
    taken = {option for name in wanted for option in entry(name).takes}
    for option, tree in trees.given().items():
        if option not in taken:
            raise InputError(f"--{option} {tree} means nothing to path {wanted[0]}; add --path {option}")
    return tuple(_checked(name, trees) for name in wanted)


def _checked(name: str, trees: Trees) -> Choice:
    chosen = entry(name)
    absent = [package for package in chosen.packages if importlib.util.find_spec(package) is None]
    if absent:
        raise CannotRun(f"path {name} needs the package {absent[0]}, which is not installed here")
    source = SOURCES[chosen.source] if chosen.source else None
    if source and chosen.source not in trees.given():
        if source.package is None:
            raise InputError(f"--{chosen.source} is missing; give the directory of {source.what}")
        if importlib.util.find_spec(source.package) is None:
            raise InputError(
                f"--{chosen.source} is missing and no {source.package} is installed;"
                f" give the directory of {source.what}"
            )
    for option in chosen.takes:
        if option in trees.given():
            check_tree(option, trees.given()[option])
    return Choice(name, trees.only(chosen.takes))


def check_tree(option: str, directory: Path) -> None:
    """Raises `InputError` when ``directory`` is not what ``option`` asks for."""
    source = SOURCES[option]
    if not directory.exists():
        raise InputError(f"--{option} {directory} does not exist; give the directory of {source.what}")
    if not directory.is_dir():
        raise InputError(f"--{option} {directory} is a file; give the directory of {source.what}")
    if not (directory / source.folder).is_dir():
        name = source.what.removeprefix("an ")
        raise InputError(f"--{option} {directory} is no {name}: it has no folder {source.folder}")


def prepare_environment(name: str) -> None:
    """Set what the packages of path ``name`` read at import. Call before anything imports them.

    Where torch can drive a gfx950 the production path runs live and nothing is set. Raises
    `CannotRun` when triton was imported already without the setting.
    """
    chosen = entry(name)
    if not chosen.environment or (has_gfx950() and torch_setting("hip")):
        return
    late = "triton" in sys.modules and any(
        os.environ.get(key) != value for key, value in chosen.environment.items()
    )
    if late:
        raise CannotRun(f"path {name} needs {', '.join(chosen.environment)} set before triton is imported")
    os.environ.update(chosen.environment)


def create(choice: Choice) -> PathUnderTest:
    """The path that was chosen. Raises `CannotRun` when something it needs cannot be imported."""
    prepare_environment(choice.name)
    chosen = entry(choice.name)
    try:
        made = getattr(importlib.import_module(chosen.module), chosen.attribute)
    except ImportError as error:
        raise CannotRun(f"path {choice.name} cannot be imported here: {error}") from error
    if chosen.source is None:
        return _path(made())
    tree = getattr(choice.trees, chosen.source)
    if chosen.beneath is None:
        return _path(made(tree))
    below = PATHS[chosen.beneath]
    has = below.source in choice.trees.given()
    return _path(made(tree, create(Choice(chosen.beneath, choice.trees.only(below.takes))) if has else None))


def _path(made: PathUnderTest) -> PathUnderTest:
    return made


def has_gfx950(nodes: Path = Path("/sys/class/kfd/kfd/topology/nodes")) -> bool:
    """Whether the kernel driver lists a gfx950 (read from sysfs, so that nothing is imported for it)."""
    for properties in nodes.glob("*/properties"):
        try:
            lines = properties.read_text().splitlines()
        except OSError:
            continue
        if "gfx_target_version 90500" in lines:
            return True
    return False
