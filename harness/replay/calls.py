"""One entry of a recording: its name, and what runs it again at the addresses it was recorded with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Call:
    """``again`` repeats the call: same pointers, scalars and grid, whatever the tensors hold by then."""

    name: str
    again: Callable[[], None]


class CaptureRefused(Exception):
    """The step does what no stream capture can hold; one sentence."""
