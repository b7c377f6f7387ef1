"""The one door to ATOM: functions of a source tree as they stand, without the engine around them.

    load(root, ("atom/model_ops/dcp_ops.py",), "dcp_owner_rank", ("pos", "dcp_size"))

``import atom`` wants aiter, a GPU and a server's packages. `load` runs only the statements of a file
that the function needs (its imports, constants, helpers, decorators), with the file's own lines,
so that tracebacks, Triton's interpreter and findings point at them. ``atom`` imports, also
those inside functions, are loaded the same way; ``aiter`` ones come from ``aiter`` (an aiter
checkout) and ``provided``. What cannot be had raises `Unsupported`, which names it, when it is used.

A name may be that of a method, ``Class.method``: it comes without its class, to be called with any
object as ``self``; `stand_in` makes one that finds the class's other methods by itself.
Candidates are searched in turn, because functions move between versions: newest home first.

``provided`` maps dotted names to what stands there instead, both where it is imported and where it is
defined: ``{"atom.distributed.dcp_utils.get_dcp_world_size": lambda: 4}``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.paths import signatures
from harness.paths.atom.space import Space
from harness.paths.atom.stubs import reason_of
from harness.paths.base import Unsupported

OWNER = "this ATOM"


def load(
    root: Path,
    candidates: Sequence[str],
    name: str,
    parameters: Sequence[str] | None = None,
    *,
    aiter: Path | None = None,
    provided: Mapping[str, Any] | None = None,
    space: Space | None = None,
) -> Callable[..., Any]:
    """The function (or ``Class.method``) ``name`` of the first of the files ``candidates`` that has it.

    ``parameters`` (without ``self``) must be accepted by name and be all that it wants; None: not
    checked. ``space``: one that was used before, so that classes and constants are the same
    objects; it then holds the tree, and root, aiter and provided are not read. Raises `Unsupported`.
    """
    space = space or Space(root, aiter, provided)
    module, found = _find(space, candidates, name)
    reason = reason_of(found)
    if reason is not None:
        raise Unsupported(f"{name} of {OWNER} cannot be loaded: {reason}")
    if isinstance(found, staticmethod | classmethod):
        found = found.__func__
    if isinstance(found, property) and found.fget is not None:
        found = found.fget
    if not callable(found):
        raise Unsupported(f"{name} in {space.shown(module)} of {OWNER} is no function")
    if parameters is not None:
        own = ("self",) if "." in name and "self" in found.__code__.co_varnames[:1] else ()
        signatures.check(found, name, (*own, *parameters), OWNER)
    function: Callable[..., Any] = found
    return function


def value(root: Path, candidates: Sequence[str], name: str, *, space: Space | None = None) -> Any:
    """The module-level constant or class ``name``. Raises `Unsupported` like `load`."""
    space = space or Space(root)
    _, found = _find(space, candidates, name)
    reason = reason_of(found)
    if reason is not None:
        raise Unsupported(f"{name} of {OWNER} cannot be loaded: {reason}")
    return found


def has(root: Path, candidates: Sequence[str], name: str) -> bool:
    """Whether any of the files ``candidates`` defines (or imports) ``name``; nothing is executed."""
    return _home(Space(root), candidates, name) is not None


def stand_in(
    space: Space, file: str, owner: str, *, bases: Sequence[tuple[str, str]] = (), **attributes: Any
) -> Any:
    """An object to be ``self`` of methods of class ``owner`` in ``file``: ``attributes``, and its methods.

    ``bases``: (file, class) of the classes above it, whose methods it has too. Another attribute raises
    `Unsupported` naming it, so nothing is made up.
    """
    homes = ((file, owner), *bases)

    class Self:
        def __getattr__(self, name: str) -> Any:
            for place, above in homes if not name.startswith("__") else ():
                found = method(space, place, above, name, self)
                if found is not None:
                    return found
            raise MissingAttribute(f"{owner} of {OWNER} reads self.{name}, which is not given here")

    made = Self()
    vars(made).update(attributes)
    return made


def method(space: Space, file: str, owner: str, name: str, own: Any) -> Any:
    """Method ``name`` of class ``owner`` bound to ``own``, or None; its ``super()`` is that of ``own``."""
    found = space.method(_dotted(file), owner, name)
    if found is None:
        return None
    code, cells = getattr(found, "__code__", None), getattr(found, "__closure__", None)
    for free, cell in zip(code.co_freevars if code else (), cells or (), strict=True):
        if free == "__class__":
            cell.cell_contents = type(own)
    return found.__get__(own, type(own))


class MissingAttribute(Unsupported, AttributeError):
    """An attribute of ``self`` that is not given; ``getattr`` with a default takes the default."""


def _find(space: Space, candidates: Sequence[str], name: str) -> tuple[str, Any]:
    """Module and value of ``name``. Raises `Unsupported` naming the function and where it was sought."""
    home = _home(space, candidates, name)
    if home is None:
        raise Unsupported(f"{OWNER} has no {name} in {' or '.join(candidates)}")
    owner, _, method = name.rpartition(".")
    if owner:
        return home, space.method(home, owner, method)
    names = space.ensure(home, {name})
    if name not in names:
        raise Unsupported(f"{space.shown(home)} of {OWNER} does not define {name} here")
    return home, names[name]


def _home(space: Space, candidates: Sequence[str], name: str) -> str | None:
    owner, _, method = name.rpartition(".")
    for candidate in candidates:
        module = _dotted(candidate)
        if space.file(module) is None:
            continue
        table = space.source(module)
        if table.method(owner, method) is not None if owner else name in table.bound:
            return module
    return None


def _dotted(file: str) -> str:
    """``atom.x.y`` of ``atom/x/y.py``; a package's ``__init__.py`` is the package."""
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
