"""Every fault there is, by name: what the modules of `harness.faults.stages` declare, in the path's order.

Contract: a name means one fault, so two of one name are an error of the catalogue, found when it is imported.
A module is in the catalogue because it lies in the folder; one that was only listed could be forgotten.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Iterable, Sequence

from harness.exits import InputError
from harness.faults import stages
from harness.faults.fault import Fault

ORDER = (
    "quantising",
    "layout",
    "writing",
    "scheduling",
    "masking",
    "scoring",
    "tails",
    "lowered",
    "selecting",
    "publishing",
    "replaying",
    "sharding",
    "staging",
    "gating",
    "pooling",
    "eightbit",
    "rotating",
)
"""Modules in the order of the path; any other comes after them, by name."""
NEAR = 3
"""Names suggested for one that is not known."""


def _modules() -> list[str]:
    found = [module.name for module in pkgutil.iter_modules(stages.__path__)]
    return sorted(found, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))


def _all(modules: Iterable[str]) -> tuple[Fault, ...]:
    """Raises ValueError when a name occurs twice."""
    found: dict[str, Fault] = {}
    for module in modules:
        for fault in importlib.import_module(f"{stages.__name__}.{module}").FAULTS:
            if fault.name in found:
                places = f"stages {found[fault.name].stage} and {fault.stage}"
                raise ValueError(f"two faults are called {fault.name}, in {places}")
            found[fault.name] = fault
    return tuple(found.values())


ALL: tuple[Fault, ...] = _all(_modules())
STAGES = tuple(dict.fromkeys(fault.stage for fault in ALL))
_BY_NAME = {fault.name: fault for fault in ALL}


def named(name: str) -> Fault:
    """The fault called ``name``. Raises `InputError` with names that are near."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    near = difflib.get_close_matches(name, _BY_NAME, NEAR)
    hint = f"near it are {', '.join(near)}" if near else "'harness list faults' prints all names"
    raise InputError(f"--fault is {name!r}, which is no fault; {hint}")


def chosen(names: Sequence[str]) -> tuple[Fault, ...]:
    """The faults called ``names``, each once, in the order given. Raises `InputError`."""
    return tuple(named(name) for name in dict.fromkeys(names))
