"""Captures a step on a device as a server does: in one stream, as a graph, replayed as a whole.

Parts that no stream of this device can hold (kernels that run in the emulator) stay between the graphs
and are recorded as on the CPU, so that the rest is captured for real. How this would fail silently: a
first launch compiles and allocates, and a capture that holds it replays something else; every part
therefore runs once before it is captured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch

from harness.replay import recorder
from harness.replay.calls import CaptureRefused
from harness.replay.parts import Part


@dataclass(frozen=True)
class Pieces:
    """Graphs and recordings in order."""

    pieces: tuple[Any, ...]
    names: None = None

    def replay(self) -> None:
        for piece in self.pieces:
            piece.replay()
        torch.cuda.synchronize()


def capture(parts: Sequence[Part]) -> Pieces:
    """Record ``parts``. Raises `CaptureRefused` when the stream refuses what a part does."""
    pieces: list[Any] = []
    for native, group in groupby(parts, key=lambda part: part.native):
        run = list(group)
        pieces.append(_graph(run) if native else recorder.record(lambda run=run: _run(run)))  # type: ignore[misc]
    return Pieces(tuple(pieces))


def _graph(parts: list[Part]) -> Any:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        _run(parts)
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            _run(parts)
    except RuntimeError as refusal:
        names = ", ".join(part.name for part in parts)
        raise CaptureRefused(
            f"the stream refuses to hold {names}: {str(refusal).splitlines()[0]}"
        ) from refusal
    return graph


def _run(parts: Sequence[Part]) -> None:
    for part in parts:
        part.run()
