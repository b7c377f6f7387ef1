"""A path that records what the path within it answers: every tensor it returns and every one it writes.

Bytes go to a file a tensor, named after the case, the request and the tensor; what a case's requests
were given is digested, so that two recordings can be seen to answer the same questions. Memory that the
path leaves uninitialised is filled with a constant first: garbage of two processes is never equal, and
what the caller may not read must not look like a change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from hashlib import blake2b
from pathlib import Path as FilePath
from typing import Any

import torch
from torch import Tensor

from harness.checks import untouched
from harness.paths import base
from harness.paths.base import Outcome, Unsupported
from harness.paths.wrapped import Wrapped

VALUE, UNSUPPORTED, ERROR = "value", "unsupported", "error"


class Tape(Wrapped):
    """``inner`` with a memory. `begin` starts a case, `requests` is what was recorded since."""

    def __init__(self, inner: base.Path, folder: FilePath) -> None:
        super().__init__(inner)
        self.folder = folder
        self.requests: list[dict[str, Any]] = []
        self._case = 0

    def begin(self, case: int) -> None:
        """What is recorded from now on belongs to case number ``case``."""
        self._case, self.requests = case, []

    def around(self, method: Callable[[Any], Outcome]) -> Callable[[Any], Outcome]:
        def run(request: Any) -> Outcome:
            event: dict[str, Any] = {"request": type(request).__name__, "inputs": inputs_of(request)}
            self.requests.append(event)
            try:
                with filled_memory():
                    outcome = method(request)
            except Unsupported as refusal:
                event |= {"outcome": UNSUPPORTED, "reason": str(refusal)}
                raise
            except Exception as problem:
                event |= {"outcome": ERROR, "reason": f"{type(problem).__name__}: {problem}"}
                raise
            findings = sorted({f"{one.kind} {one.operand}" for one in outcome.findings})
            subject = str(outcome.facts.get("subject", self.inner.name))
            event |= {"outcome": VALUE, "findings": findings, "subject": subject}
            event["tensors"] = [self._kept(name, tensor) for name, tensor in outputs(request, outcome.value)]
            return outcome

        return run

    def _kept(self, name: str, tensor: Tensor) -> dict[str, Any]:
        """Write the tensor's bytes and describe it."""
        raw = bytes_of(tensor)
        file = f"{self._case}-{len(self.requests) - 1}-{name}"
        (self.folder / file).write_bytes(raw)
        return {
            "name": name,
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "shape": list(tensor.shape),
            "digest": digest(raw),
            "file": file,
        }


def outputs(request: Any, value: Any) -> Iterator[tuple[str, Tensor]]:
    """Name and tensor of everything that is answered: the value, and what the request lets be written."""
    parts = value if isinstance(value, tuple | list) else (value,)
    for place, part in enumerate(parts):
        name = "value" if part is value else f"value[{place}]"
        if isinstance(part, Tensor):
            yield name, part
        elif part is not None:
            yield name, torch.tensor(list(repr(part).encode()), dtype=torch.uint8)  # compared as text
    for field in fields(request):
        tensor = getattr(request, field.name)
        if field.name in request.written and isinstance(tensor, Tensor):
            yield field.name, tensor


def inputs_of(request: Any) -> str:
    """Digest of the tensors that the request is read from, and of its other fields."""
    tensors = {name: value.hex() for name, value in untouched.digests(request).items()}
    plain = {
        field.name: value
        for field in fields(request)
        if isinstance(value := getattr(request, field.name), str | int | float | bool)
    }
    return digest(repr((tensors, plain)).encode())


def bytes_of(tensor: Tensor) -> bytes:
    """The tensor's elements in order, as bytes."""
    flat = torch.empty(tensor.numel(), dtype=tensor.dtype)
    flat.copy_(tensor.detach().reshape(-1))
    return flat.view(torch.uint8).numpy().tobytes()


def digest(raw: bytes) -> str:
    return blake2b(raw, digest_size=16).hexdigest()


@contextmanager
def filled_memory() -> Iterator[None]:
    """New tensors hold a constant until the block ends; the setting is put back."""
    before = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("warn")  # the other switch imports a compiler
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before)
