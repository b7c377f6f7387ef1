"""A path that keeps what it was asked, as it was before the call, in a form that a script can build again.

A tree of plain values stands for a request or for the arguments of a production function (see `Store.spec`);
tensors go to a file. Sizes and strides are kept, since a kernel may go wrong by them; a buffer that holds one
value throughout is kept as that value, whatever room it spans. The processes of ranks leave what they were
asked in files; of a collective, what came is kept. How this would fail silently: a tensor kept after the call
holds the answer, so everything is copied before.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from itertools import count
from math import isfinite
from pathlib import Path
from typing import Any

from torch import Tensor

from harness.judge.bits import bits_of
from harness.paths import base
from harness.paths.aiter import tree
from harness.paths.base import Outcome, Unsupported
from harness.paths.wrapped import Wrapped

Spec = list[Any]


class NoScript(Exception):
    """The message is one sentence: why a request cannot be written down."""


@dataclass
class Store:
    """Tensors by name, and the names that tensors of a request go by."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    _names: dict[tuple[int, int], str] = field(default_factory=dict)

    def spec(self, value: Any, name: str = "value") -> Spec:
        """``value`` as lists and plain values. Raises `NoScript`."""
        if isinstance(value, Tensor):
            return self._tensor(value, name)
        if isinstance(value, Gathering):
            value.store = self
            return ["gathered", value.rank, value.world, value.given]
        if is_dataclass(value) and not isinstance(value, type):
            kind = type(value)
            parts = {one.name: self.spec(getattr(value, one.name), one.name) for one in fields(value)}
            return ["object", f"{kind.__module__}:{kind.__qualname__}", parts]
        if isinstance(value, Mapping):
            return ["mapping", {str(key): self.spec(part, f"{name}.{key}") for key, part in value.items()}]
        if isinstance(value, tuple | list):
            return ["tuple", [self.spec(part, f"{name}.{place}") for place, part in enumerate(value)]]
        if value is None or isinstance(value, str | bool | int) or _number(value):
            return ["value", value]
        raise NoScript(f"{name} is {type(value).__name__}, which no file can hold")

    def _tensor(self, tensor: Tensor, name: str) -> Spec:
        shape, stride = list(tensor.shape), list(tensor.stride())
        if tensor.element_size() == 4 and tensor.numel() > 1 and tensor.is_floating_point():
            bits = bits_of(tensor)
            if bool((bits == bits.flatten()[0]).all()):
                return ["filled", int(bits.flatten()[0]), shape, stride]
        key = (tensor.data_ptr(), tensor.numel())
        known = self._names.get(key)
        if known is None:
            known = name if name not in self.tensors else f"{name}.{len(self.tensors)}"
            self._names[key] = known
            self.tensors[known] = tensor.detach().clone().contiguous()
        return ["tensor", known, shape, stride]


def _number(value: Any) -> bool:
    return isinstance(value, float) and isfinite(value)


@dataclass
class Gathering:
    """A collective of ``rank`` of ``world`` that keeps what came: a spec in ``given`` for each turn."""

    gather: Callable[[Tensor], Tensor] | None
    rank: int
    world: int
    given: list[Spec] = field(default_factory=list)
    store: Store | None = None
    _came: list[Tensor] = field(default_factory=list)

    def __call__(self, own: Tensor) -> Tensor:
        assert self.gather is not None and self.store is not None
        came = self.gather(own)
        self._came.append(came)  # alive, so that no later tensor has its address
        self.given.append(self.store.spec(came, f"gathered.{len(self.given)}"))
        return came

    def __getstate__(self) -> dict[str, Any]:
        """Without the group of processes, which no other process has."""
        return {**vars(self), "gather": None, "store": None, "_came": []}


def gathering(request: Any) -> Any:
    """``request`` with its collective, if it has one, as a `Gathering`."""
    if not is_dataclass(request) or isinstance(request, type):
        return request
    of: Any = getattr(request, "place", request)
    found = {
        one.name: Gathering(getattr(request, one.name), of.rank, of.world)
        for one in fields(request)
        if callable(getattr(request, one.name)) and hasattr(of, "rank")
    }
    return replace(request, **found) if found else request


@dataclass
class Call:
    """One call of a production function: ``spec`` of its named arguments, what it returned."""

    module: str
    function: str
    spec: Spec
    returned: Any = None


@dataclass
class Asked:
    """One request: its ``spec``, the tensors of it and of the calls it led to, and what came.

    ``answer``: what is judged, the caller's buffer where there is one. ``why``: why there is no ``spec``.
    """

    request: Any
    store: Store
    spec: Spec | None
    why: str = ""
    calls: list[Call] = field(default_factory=list)
    outcome: Outcome | None = None
    answer: Any = None
    error: Exception | None = None


class Recording(Wrapped):
    """``inner``; every request is kept in ``asked``, with the calls of functions that were looked up.

    ``record``: folder in which processes of ranks leave theirs (see `RankRecording`, `ranks.again`).
    """

    def __init__(self, inner: base.Path, record: str = "") -> None:
        super().__init__(inner)
        self.asked: list[Asked] = []
        self.record = record

    def around(self, method: Callable[[Any], Outcome]) -> Callable[[Any], Outcome]:
        def run(request: Any) -> Outcome:
            request = gathering(request)
            asked = kept(request)
            try:
                with noted(asked):
                    outcome = self.inner.run(request)  # and not ``method``: a path may add to it there
                asked.outcome = outcome
                asked.answer = _copied(request.out if has_buffer(request) else outcome.value)
                for call in asked.calls:
                    call.returned = _place(outcome.value, call.returned)
                return outcome
            except Unsupported:
                raise
            except Exception as error:
                asked.error = error
                raise
            finally:
                self.keep(asked)

        return run

    def keep(self, asked: Asked) -> None:
        self.asked.append(asked)

    def every(self) -> list[Asked]:
        """What was asked here, then what the ranks were asked, step by step."""
        files = sorted(Path(self.record).glob("*.asked")) if self.record else []
        return [*self.asked, *(pickle.loads(file.read_bytes()) for file in files)]


class RankRecording(Recording):
    """The same in the process of a rank, which leaves a file a request in the folder ``record``."""

    def __init__(self, inner: base.Path, record: str) -> None:
        super().__init__(inner, record)
        self._numbers = count()

    def keep(self, asked: Asked) -> None:
        file = Path(self.record) / f"{next(self._numbers):06}-{os.getpid()}.asked"
        try:
            file.write_bytes(pickle.dumps(asked))
        except (pickle.PicklingError, AttributeError, TypeError) as problem:
            gone = Asked(None, Store(), None, f"a rank's request cannot be handed over: {problem}")
            file.write_bytes(pickle.dumps(gone))


def kept(request: Any) -> Asked:
    """``request`` as it is now."""
    store = Store()
    try:
        return Asked(request, store, store.spec(request))
    except NoScript as reason:
        return Asked(request, store, None, str(reason))


@contextmanager
def noted(asked: Asked) -> Iterator[None]:
    """Keep the calls of production functions of a tree until the block ends."""
    found = tree.function

    def function(module: Any, name: str, *rest: Any) -> Callable[..., Any]:
        real = found(module, name, *rest)

        def called(**arguments: Any) -> Any:
            try:
                asked.calls.append(Call(module.__name__, name, asked.store.spec(arguments)))
            except NoScript as reason:
                asked.why = str(reason)
                return real(**arguments)
            call = asked.calls[-1]
            call.returned = real(**arguments)
            return call.returned

        return called

    setattr(tree, "function", function)  # noqa: B010 - an assignment would want the same signature
    try:
        yield
    finally:
        tree.function = found


def has_buffer(request: Any) -> bool:
    """Whether the caller gave the tensor that the answer goes to."""
    return isinstance(getattr(request, "out", None), Tensor)


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()
    return tuple(map(_copied, value)) if isinstance(value, tuple | list) else value


def _place(value: Any, returned: Any) -> Any:
    """``"all"`` where ``value`` is what the function returned; where in it ``value`` is; else None."""
    if value is returned:
        return "all"
    if isinstance(returned, tuple | list):
        return next((place for place, part in enumerate(returned) if part is value), None)
    return None
