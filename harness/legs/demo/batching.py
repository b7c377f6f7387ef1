"""Requests of many clients as one batch that changes from step to step.

Contract: each request gets the tokens it would get alone, as far as the model's arithmetic does not depend on
the batch; it ends at the first of end token, stop string, and token limit, and its text ends before the stop
string. A request whose future is done already (its client hung up) takes no further step.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Protocol


class Model(Protocol):
    """What generates; sequences are in the slots 0 to n - 1."""

    slots: int
    length: int
    end: int

    def begin(self, slot: int, tokens: list[int]) -> int: ...

    def step(self, tokens: list[int]) -> list[int]: ...

    def end_sequence(self, slot: int, last: int) -> None: ...


@dataclass(frozen=True)
class Completion:
    """``finish_reason`` is stop or length; ``tokens`` counts all that were generated."""

    text: str
    finish_reason: str
    tokens: int


@dataclass
class Request:
    """``prompt``: its tokens. ``future`` becomes a `Completion`, or the error that the model raised."""

    prompt: list[int]
    max_tokens: int
    stop: Sequence[str] = ()
    future: Future[Completion] = field(default_factory=Future)
    made: list[int] = field(default_factory=list)


def cut(text: str, stop: Sequence[str]) -> str | None:
    """``text`` before the first of the stop strings in it; None when there is none."""
    places = [place for place in map(text.find, stop) if place >= 0]
    return text[: min(places)] if places else None


class Batcher:
    """Runs the model in a thread of its own; `submit` from any thread."""

    def __init__(self, model: Model, text: Callable[[list[int]], str]) -> None:
        self._model, self._text = model, text
        self._waiting: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._active: list[Request] = []
        self._open = True
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether requests are still served."""
        return self._thread.is_alive()

    def submit(self, request: Request) -> Future[Completion]:
        self._waiting.put(request)
        return request.future

    def close(self) -> None:
        """End when the requests at hand have ended."""
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        while self._open or self._active:
            self._admit()
            if self._active:
                self._advance()

    def _admit(self) -> None:
        """Take what waits into free slots; wait for it only when there is nothing else to do."""
        while self._open and len(self._active) < self._model.slots:
            try:
                request = self._waiting.get(block=not self._active)
            except queue.Empty:
                return
            if request is None:
                self._open = False
            elif not request.future.done():
                self._start(request)

    def _start(self, request: Request) -> None:
        try:
            token = self._model.begin(len(self._active), request.prompt)
        except Exception as error:
            request.future.set_exception(error)
            return
        self._active.append(request)
        self._took(len(self._active) - 1, token)

    def _advance(self) -> None:
        try:
            tokens = self._model.step([request.made[-1] for request in self._active])
        except Exception as error:
            for request in self._active:
                if not request.future.done():
                    request.future.set_exception(error)
            self._active.clear()
            return
        for slot in reversed(range(len(tokens))):
            self._took(slot, tokens[slot])

    def _took(self, slot: int, token: int) -> None:
        """One more token of the request in ``slot``; a request that has ended leaves it."""
        request = self._active[slot]
        request.made.append(token)
        found = self._ended(request, token)
        if found is None and not request.future.done():
            return
        last = len(self._active) - 1
        self._model.end_sequence(slot, last)
        self._active[slot] = self._active[last]
        self._active.pop()
        if found is not None and not request.future.done():
            request.future.set_result(found)

    def _ended(self, request: Request, token: int) -> Completion | None:
        count = len(request.made)
        if token == self._model.end:
            return Completion(self._text(request.made[:-1]), "stop", count)
        text = self._text(request.made)
        before = cut(text, request.stop)
        if before is not None:
            return Completion(before, "stop", count)
        return Completion(text, "length", count) if count >= request.max_tokens else None
