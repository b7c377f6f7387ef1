"""Instructions whose result hardware only promises to be near the exact one.

Each has a set of legal results: the value rounded once, and its two neighbours, unless the exact result is a
float itself (2 to a whole power, the root of a square), which the hardware gives. A run takes one member of
each set: `choosing` says which. That a kernel's output is the same whichever is taken is a proof by three
runs of nothing less and nothing more; where it is not, the verdict says that a byte had several right values.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from harness.emulator.lanes import Value
from harness.emulator.operations import Evaluate, Site
from harness.emulator.program import UnsupportedOperation

CHOICES = ("nearest", "below", "above")
"""Which member of the set a run takes: the rounded value, or its neighbour toward minus or plus infinity."""

_state = threading.local()


@contextlib.contextmanager
def choosing(choice: str) -> Iterator[None]:
    """Take the member of `CHOICES` in this thread. Raises `ValueError` for another word."""
    if choice not in CHOICES:
        raise ValueError(f"choice is {choice!r}, allowed are {', '.join(CHOICES)}")
    before, _state.choice = getattr(_state, "choice", CHOICES[0]), choice
    try:
        yield
    finally:
        _state.choice = before


def _chosen(exact: Tensor, inexact: Tensor) -> Tensor:
    """float32 of float64 ``exact``, moved by one where it is ``inexact`` and the run asks for a neighbour."""
    single, choice = exact.float(), getattr(_state, "choice", CHOICES[0])
    if choice == "nearest":
        return single
    toward = torch.full_like(single, torch.inf if choice == "above" else -torch.inf)
    move = inexact & torch.isfinite(single) & (single != 0)
    return torch.where(move, torch.nextafter(single, toward), single)


def _of(function: Callable[[Tensor], Tensor], back: Callable[[Tensor], Tensor]) -> Evaluate:
    """``back`` undoes ``function``: in float64 it tells whether the float32 result is exact."""

    def evaluate(site: Site, a: Value) -> Tensor:
        if site.result.name != "f32":
            raise UnsupportedOperation(f"{site.op.code} of {site.result}", site.op.location)
        wide = a.double()
        exact = function(wide)
        return _chosen(exact, back(exact.float().double()) != wide)

    return evaluate


def _divided(site: Site, a: Value, b: Value) -> Tensor:
    exact = a.double() / b.double()
    return _chosen(exact, exact.float().double() * b.double() != a.double())


NEAR: dict[str, Evaluate] = {
    "rsq_near": _of(lambda x: 1.0 / torch.sqrt(x), lambda y: 1.0 / (y * y)),
    "rcp_near": _of(lambda x: 1.0 / x, lambda y: 1.0 / y),
    "sqrt_near": _of(torch.sqrt, lambda y: y * y),
    "exp2_near": _of(torch.exp2, torch.log2),
    "log2_near": _of(torch.log2, torch.exp2),
    "fdiv_near": _divided,
}
