"""A step as parts, and how a path captures, replays and runs them.

A path says what its parts are; where their tensors live and how they are recorded is decided here, so
that all paths are captured alike. On a device the step's tensors have copies that stay where they are:
contents go in before a replay and come out after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor

from harness.paths import base
from harness.paths.requests import replaying as asked
from harness.replay import recorder


@dataclass(frozen=True)
class Part:
    """``run`` does a part of a step to its tensors; ``native``: a stream of this device can hold it."""

    name: str
    run: Callable[[], None]
    native: bool


@dataclass(frozen=True)
class Held:
    """A recording with the step it runs on: the request's own tensors, or their copies on a device."""

    recording: Any
    step: asked.Step

    @property
    def calls(self) -> list[str] | None:
        names: list[str] | None = self.recording.names
        return names


@dataclass(frozen=True)
class Stepper:
    """Answers `Capture`, `Replay` and `Eager` from a path's ``parts`` of a step.

    ``session`` opens what collects findings while kernels run, ``executor`` names what runs them;
    ``device``: where the tensors are to be, None for where they are.
    """

    parts: Callable[[asked.Step], Sequence[Part]]
    session: Callable[[asked.Step], AbstractContextManager[Any]]
    executor: str
    subject: str
    device: torch.device | None = None

    def answers(self) -> base.Answers:
        return {asked.Capture: self.capture, asked.Replay: self.replay, asked.Eager: self.eager}

    def capture(self, request: asked.Capture) -> base.Outcome:
        step = placed(request.step, self.device)
        parts = self.parts(step)
        with self.session(step) as seen:
            held = Held(self._recorded(parts), step)
        return self._outcome(held, seen)

    def _recorded(self, parts: Sequence[Part]) -> Any:
        if self.device is None:
            return recorder.record(lambda: run(parts))
        from harness.replay import stream

        return stream.capture(parts)

    def replay(self, request: asked.Replay) -> base.Outcome:
        held: Held = request.recording
        move(request.step, held.step)
        with self.session(replace(request.step, planes=self._masks(request.step, held))) as seen:
            held.recording.replay()
        return self._back(request.step, held.step, seen, held.calls)

    def eager(self, request: asked.Eager) -> base.Outcome:
        step = placed(request.step, self.device)
        parts = self.parts(step)
        calls = None
        with self.session(step) as seen:
            if self.device is None:
                calls = recorder.record(lambda: run(parts), strict=False).names
            else:
                run(parts)
        return self._back(request.step, step, seen, calls)

    def _masks(self, step: asked.Step, held: Held) -> Any:
        """The planes that were recorded, with the masks of this replay's contents."""
        return replace(held.step.planes, defined=step.planes.defined)

    def _back(self, into: asked.Step, ran: asked.Step, seen: Any, calls: list[str] | None) -> base.Outcome:
        for mine, theirs in zip(into.written, ran.written, strict=True):
            if mine is not theirs:
                mine.copy_(theirs)
        return self._outcome(into.written, seen, calls=calls)

    def _outcome(self, value: Any, seen: Any, **facts: Any) -> base.Outcome:
        known = {"executor": self.executor, "subject": self.subject, **facts}
        if seen is None:
            return base.Outcome(value, facts=known)
        return base.Outcome(value, seen.findings, {**seen.facts, **known})


def run(parts: Sequence[Part]) -> None:
    for part in parts:
        part.run()


def placed(step: asked.Step, device: torch.device | None) -> asked.Step:
    """``step`` with copies of its tensors on ``device``, strides kept; itself where they are to stay."""
    return step if device is None else _mapped(step, lambda tensor: _copy(tensor, device))


def move(source: asked.Step, to: asked.Step) -> None:
    """Copy the contents of every tensor of one step into the other's."""
    if source.out is to.out:
        return
    for mine, theirs in zip(_leaves(source), _leaves(to), strict=True):
        theirs.copy_(mine)


def _mapped(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if is_dataclass(value) and not isinstance(value, type):
        changed = {field.name: _mapped(getattr(value, field.name), change) for field in fields(value)}
        return replace(value, **changed)
    return value


def _leaves(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if not is_dataclass(value):
        return []
    return [leaf for field in fields(value) for leaf in _leaves(getattr(value, field.name))]


def _copy(tensor: Tensor, device: torch.device) -> Tensor:
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    whole = tensor.as_strided((reach + 1,), (1,)).to(device, copy=True)
    return whole.as_strided(tensor.shape, tensor.stride())
