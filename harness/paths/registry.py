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
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from harness.exits import CannotRun, InputError
from harness.record.provenance import torch_setting

if TYPE_CHECKING:
    from harness.paths.base import Path as PathUnderTest

DEFAULT = "flydsl"


@dataclass(frozen=True)
class Entry:
    """One path: the class that is it, the packages it needs, the environment they must find."""

    module: str
    attribute: str
    about: str
    packages: tuple[str, ...] = ()
    takes_tree: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


PATHS: Mapping[str, Entry] = {
    "flydsl": Entry(
        "harness.paths.flydsl",
        "FlydslPath",
        "the in-tree FP4 kernels, written in FlyDSL from the ABI; emulated",
        packages=("torch", "flydsl"),
    ),
    "aiter": Entry(
        "harness.paths.aiter",
        "AiterPath",
        "the production kernels of an installed aiter or of --aiter DIR; emulated without a gfx950",
        packages=("torch", "flydsl", "triton"),
        takes_tree=True,
        environment={"TRITON_INTERPRET": "1"},
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


def check(name: str, aiter: Path | None) -> Path | None:
    """Check a choice of path without importing it; the tree to use, absolute.

    Raises `InputError` (exit code 2) for an unknown name or a directory that is no aiter, and
    `CannotRun` (exit code 3) when a package that the path needs is not installed.
    """
    chosen = entry(name)
    if aiter is not None and not chosen.takes_tree:
        raise InputError(f"--aiter {aiter} means nothing to path {name}; add --path aiter")
    absent = [package for package in chosen.packages if importlib.util.find_spec(package) is None]
    if absent:
        raise CannotRun(f"path {name} needs the package {absent[0]}, which is not installed here")
    if not chosen.takes_tree:
        return None
    if aiter is None:
        if importlib.util.find_spec("aiter") is None:
            raise InputError(
                "--aiter is missing and no aiter is installed; give the directory of an aiter checkout"
            )
        return None
    return check_tree(aiter)


def check_tree(directory: Path) -> Path:
    """The absolute path of an aiter checkout. Raises `InputError` when ``directory`` is none."""
    if not directory.exists():
        raise InputError(f"--aiter {directory} does not exist; give the directory of an aiter checkout")
    if not directory.is_dir():
        raise InputError(f"--aiter {directory} is a file; give the directory of an aiter checkout")
    if not (directory / "aiter" / "ops").is_dir():
        raise InputError(f"--aiter {directory} is no aiter checkout: it has no folder aiter/ops")
    return directory.resolve()


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


def create(name: str, aiter: Path | None = None) -> PathUnderTest:
    """The path under test called ``name``; ``aiter`` is a source tree for the production path.

    Raises `InputError`, or `CannotRun` when something it needs cannot be imported.
    """
    tree = check(name, aiter)
    prepare_environment(name)
    chosen = entry(name)
    try:
        made = getattr(importlib.import_module(chosen.module), chosen.attribute)
    except ImportError as error:
        raise CannotRun(f"path {name} cannot be imported here: {error}") from error
    path: PathUnderTest = made(tree) if chosen.takes_tree else made()
    return path


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
