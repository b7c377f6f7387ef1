"""Benches and enumerations of targets, made once and kept in files that every worker loads.

A file holds launches with their tensors (`harness.power.recorded`), so a sweep from it needs neither FlyDSL
nor the tree under test. Contract: a file is only trusted after its cases were green on this machine with
this harness (`Bench.checked`); one that cannot be read, or was made by another harness, is refused with the
command that makes it anew.
"""

from __future__ import annotations

import gzip
import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.exits import CannotRun, InputError
from harness.paths import registry
from harness.power.targets import Target

CASES, LAUNCHES = ".cases.pt.gz", ".launches.pt.gz"


@dataclass(frozen=True)
class Prepared:
    """A target on a path, recorded: the stem of its files in ``directory``, and what the path was."""

    path: str
    target: str
    directory: Path
    stem: str
    about: dict[str, Any]

    @property
    def cases(self) -> Path:
        return self.directory / (self.stem + CASES)

    @property
    def launches(self) -> Path:
        return self.directory / (self.stem + LAUNCHES)

    def bench(self) -> Any:
        """The `Bench`. Raises `CannotRun`."""
        return load(self.cases)["bench"]

    def enumeration(self) -> Any:
        """The `Enumeration`. Raises `CannotRun`."""
        return load(self.launches)["enumeration"]


def prepare(choice: registry.Choice, target: Target, directory: Path) -> Prepared:
    """Record the cases of ``target``. Raises `CannotRun` where one is not green."""
    path = path_of(choice)
    from harness.judge import ledger
    from harness.power.mutants import digest
    from harness.power.trial import Bench

    bench = Bench.of(path, target.cases, ledger.load())
    stem = f"{choice.name}-{target.name}-{digest(bench.program)[:12]}"
    made = Prepared(choice.name, target.name, directory, stem, path.provenance())
    save(made.cases, {"bench": bench, "about": made.about, "ids": target.cases})
    return made


def enumerate_launches(choice: registry.Choice, target: Target, prepared: Prepared) -> None:
    """Record the enumerated launches of ``target``, unless their file is there already."""
    if prepared.launches.is_file():
        return
    path = path_of(choice)
    from harness.power.inert import Enumeration

    found = Enumeration.of(path, prepared.bench().program, target.enumerated, target.said)
    save(prepared.launches, {"enumeration": found, "ids": target.enumerated})


def found(path: str, target: Target, directory: Path) -> Prepared:
    """What `prepare` left in ``directory``. Raises `InputError` where there is none, or several."""
    files = sorted(directory.glob(f"{path}-{target.name}-*{CASES}"))
    if len(files) != 1:
        raise InputError(
            f"--prepared: {directory} has {len(files)} recordings of {path} {target.name}, not one"
        )
    held = load(files[0])
    if held["ids"] != target.cases:
        raise CannotRun(f"{files[0].name} was made of other cases; make it anew with --prepare")
    return Prepared(path, target.name, directory, files[0].name.removesuffix(CASES), held["about"])


def path_of(choice: registry.Choice) -> Any:
    """The path, in an environment of its own, torch on one core."""
    registry.prepare_environment(choice.name)
    path = registry.create(choice)  # before torch is set up: packages of the path read their environment
    import torch

    torch.set_num_threads(1)
    return path


def save(file: Path, content: dict[str, Any]) -> None:
    """Write ``content``; the file appears whole or not at all."""
    import torch

    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f"{file.name}.{os.getpid()}")
    held = io.BytesIO()
    torch.save(content, held)
    with gzip.open(beside, "wb", compresslevel=1) as stream:
        stream.write(held.getbuffer())
    os.replace(beside, file)


def load(file: Path) -> dict[str, Any]:
    """What `save` wrote. Raises `CannotRun`."""
    import torch

    try:
        with gzip.open(file) as stream:
            content: dict[str, Any] = torch.load(io.BytesIO(stream.read()), weights_only=False)
    except Exception as problem:
        reason = " ".join(f"{type(problem).__name__}: {problem}".split())
        raise CannotRun(f"{file.name} cannot be read ({reason}); make it anew with --prepare") from problem
    return content
