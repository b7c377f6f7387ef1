"""What a path must leave as it was: every tensor of a request but those it is asked to write.

A scorer that clamps a caller's weights in place answers this call rightly and spoils the next,
which nobody compares. Contents are digested before and after; what changed becomes a finding. A
request that does not say what is ``written`` cannot be asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor

from harness.findings import Finding

OWN = "expected"
"""Field that the harness itself reads; no path is told of it."""


def digests(request: Any) -> dict[str, bytes]:
    """Digest of each tensor that the path must only read, by field name: all but ``request.written``."""
    return {name: _digest(tensor) for name, tensor in _tensors(request, (OWN, *request.written))}


def changed(request: Any, before: dict[str, bytes]) -> tuple[Finding, ...]:
    """One finding for each tensor whose content is not what it was."""
    now = digests(request)
    asked, where = type(request).__name__, "the host function"
    return tuple(Finding("input-changed", asked, name, where, 1) for name in now if now[name] != before[name])


def _tensors(request: Any, skipped: tuple[str, ...]) -> Iterator[tuple[str, Tensor]]:
    for field in fields(request):
        value = getattr(request, field.name)
        if field.name in skipped:
            continue
        if isinstance(value, Tensor):
            yield field.name, value
        elif is_dataclass(value):
            yield from _tensors(value, skipped)


def _digest(tensor: Tensor) -> bytes:
    flat = torch.empty(tensor.numel(), dtype=tensor.dtype)
    flat.copy_(tensor.detach().flatten())
    return blake2b(flat.view(torch.uint8).numpy().tobytes(), digest_size=16).digest()
