"""A recording repeats what a step did to its addresses, and refuses what no stream could hold."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor

from harness.emulator import backend, sessions
from harness.replay import recorder
from harness.replay.calls import CaptureRefused
from suites.self.emulator_builder import bits


def ints(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.int32)


def test_a_replay_works_on_what_the_tensors_hold_by_then() -> None:
    """Out of place, in place, into a view, into a scalar's place: all follow the input."""
    x, out, total = ints(1, 2, 3), ints(0, 0, 0, 0), ints(0)

    def step() -> None:
        doubled = x * 2
        out[1:] = doubled + 1
        out[:1].fill_(7)
        torch.add(doubled[0], doubled[2], out=total[0])

    made = recorder.record(step)
    assert (out.tolist(), total.tolist()) == ([7, 3, 5, 7], [8])
    x.copy_(ints(10, 20, 30))
    out.fill_(-1)
    made.replay()
    assert (out.tolist(), total.tolist()) == ([7, 21, 41, 61], [80])


def test_numbers_of_python_are_those_of_the_capture() -> None:
    """The fault class: a length read beforehand is baked in, whatever the tensor holds later."""
    lengths, out = ints(3), ints(0)
    baked = int(lengths)

    def step() -> None:
        out.copy_(lengths + baked)

    made = recorder.record(step)
    lengths.fill_(10)
    made.replay()
    assert out.tolist() == [13]


def test_several_results_and_views_of_them() -> None:
    x, values, places = torch.tensor([2.0, 9.0, 4.0]), torch.zeros(2), torch.zeros(2, dtype=torch.int64)

    def step() -> None:
        best = x.topk(2)
        values.copy_(best.values)
        places.copy_(best.indices.view(2, 1).squeeze(1))

    made = recorder.record(step)
    x.copy_(torch.tensor([5.0, 1.0, 6.0]))
    made.replay()
    assert (values.tolist(), places.tolist()) == ([6.0, 5.0], [2, 0])


def _bare(x: Tensor) -> None:
    torch.empty(3).view(3, 1)
    x.view(2, 2)[0].add_(1)


def test_views_and_bare_allocations_are_no_calls() -> None:
    x = ints(1, 2, 3, 4)
    made = recorder.record(lambda: _bare(x))
    assert made.names == ["add_.Tensor"]
    assert x.tolist() == [2, 3, 3, 4]


READS: dict[str, Callable[[Tensor], Any]] = {
    "item": lambda x: x[0].item(),
    "int": lambda x: int(x[0]),
    "bool": lambda x: bool(x[0]),
    "float": lambda x: float(x[0]),
    "index": lambda x: [0, 1, 2][x[0]],
    "if": lambda x: 1 if (x > 0).all() else 0,
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: x.numpy(),
    "array": lambda x: numpy.asarray(x),
    "in": lambda x: 3 in x,
    "nonzero": lambda x: x.nonzero(),
    "where": lambda x: torch.where(x > 0),
    "mask": lambda x: x[x > 1],
    "equal": lambda x: torch.equal(x, x.clone()),
    "unique": lambda x: x.unique(),
    "repeat": lambda x: torch.arange(3).repeat_interleave(x),
    "bincount": lambda x: torch.bincount(x),
    "host numbers": lambda x: torch.tensor([4, 5]),
}


def _drop(value: object) -> None:
    """A step returns nothing."""


@pytest.mark.parametrize("read", READS)
def test_a_step_that_reads_on_the_host_is_refused(read: str) -> None:
    """Each of these waits for the device; the same step runs where no recording is asked for."""
    x = ints(1, 2, 3)
    with pytest.raises(CaptureRefused, match=r"no stream holds"):
        recorder.record(lambda: _drop(READS[read](x)))
    recorder.record(lambda: _drop(READS[read](x)), strict=False)


def test_nothing_watches_after_a_recording_or_a_refusal() -> None:
    """Also where the step raises."""
    x = ints(5)

    def broken() -> None:
        raise ValueError("planted")

    with pytest.raises(ValueError, match="planted"):
        recorder.record(broken)
    with pytest.raises(CaptureRefused):
        recorder.record(lambda: _drop(int(x)))
    assert int(x) == 5 and x.tolist() == [5]


# kernels


@pytest.fixture(scope="module")
def kernels() -> Iterator[types.ModuleType]:
    backend.install()
    from suites.self import emulator_kernels

    yield emulator_kernels


def test_an_emulated_launch_keeps_scalars_grid_and_addresses(kernels: Any) -> None:
    """It is one call; what the emulator does inside is none, and a session sees each replay's findings."""
    x, out = torch.arange(100.0), torch.full((100,), -1.0)
    with backend.session(order=("out", "x")):
        made = recorder.record(lambda: kernels.scale(out, x, 3.0, 90, 2, 0))
    assert len(made.names) == 1 and made.names[0].startswith("flydsl ")
    x.add_(1)
    out.fill_(-1)
    with backend.session(order=("out", "x"), expected={"out": torch.ones(100, dtype=torch.bool)}) as seen:
        made.replay()
    assert bits(out[:90]) == bits(x[:90] * 3.0 + 1.0)
    assert out[90:].tolist() == [-1.0] * 10
    assert seen.facts["launches"] == 1 and seen.launches[0]["grid"] == (2, 1, 1)
    assert [(one.kind, one.count) for one in seen.findings] == [("unwritten", 10)]


def test_launches_outside_of_a_recording_are_told_to_nobody(kernels: Any) -> None:
    told: list[str] = []
    out = torch.zeros(64)

    def watcher(name: str, again: Callable[[], None]) -> Any:
        told.append(name)
        return nullcontext()

    with sessions.watched(watcher):
        kernels.scale(out, torch.zeros(64), 1.0, 64, 1, 0)
    kernels.scale(out, torch.zeros(64), 1.0, 64, 1, 0)
    assert len(told) == 1


class Executor:
    """Triton's interpreting executor as far as a launch goes: a kernel is called once a program."""

    def __init__(self, fn: Any, arg_names: list[str], grid: Any, pre_run_hooks: Any = ()) -> None:
        self.fn, self.arg_names, self.grid, self.pre_run_hooks = fn, arg_names, grid, pre_run_hooks

    def __call__(self, *arguments: Any, **keywords: Any) -> None:
        grid = (
            self.grid(dict(zip(self.arg_names, arguments, strict=False)))
            if callable(self.grid)
            else self.grid
        )
        for place in range(grid[0]):
            self.fn(place, *arguments, **keywords)


@pytest.fixture
def triton(monkeypatch: pytest.MonkeyPatch) -> type[Executor]:
    """A triton whose executor is `Executor`."""
    package, runtime = types.ModuleType("triton"), types.ModuleType("triton.runtime")
    interpreter = types.ModuleType("triton.runtime.interpreter")
    vars(interpreter)["GridExecutor"] = Executor
    vars(runtime)["interpreter"] = interpreter
    for module in (package, runtime, interpreter):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return Executor


def test_an_interpreted_launch_keeps_the_grid_of_its_capture(triton: type[Executor]) -> None:
    """A grid that is a function of the arguments is asked once; torch calls inside are no calls."""
    asked: list[int] = []
    original = triton.__call__

    def kernel(place: int, out: Tensor, x: Tensor, count: int) -> None:
        out[place] = int(x[place]) + count

    def grid(arguments: dict[str, Any]) -> tuple[int]:
        asked.append(1)
        return (arguments["count"],)

    x, out = ints(1, 2, 3), ints(0, 0, 0)
    made = recorder.record(lambda: triton(kernel, ["out", "x", "count"], grid)(out, x, 2))
    assert made.names == ["triton kernel"] and len(asked) == 1
    x.copy_(ints(10, 20, 30))
    made.replay()
    assert out.tolist() == [12, 22, 0] and len(asked) == 1
    assert triton.__call__ is original
