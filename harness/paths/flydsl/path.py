"""The in-tree path: answers every request with its own kernels, emulated or on a gfx950.

The host functions are the same on every executor. How it would fail silently: an in-tree
kernel that is wrong and a harness that says so look alike, so the kernels are kept plain and
are held, like any path, to bit equality under the trees they declare and to no findings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any, ClassVar

import torch
from torch import Tensor

from harness.emulator import backend
from harness.emulator.program import UnsupportedOperation
from harness.paths import base
from harness.paths.flydsl import schedules
from harness.paths.flydsl.abi import GROUP
from harness.paths.requests import scoring, writing

SCORER = ("out", "q_codes", "q_scales", "k_codes", "k_scales", "block_tables", "weights", "schedule")
"""Tensor arguments of the scorers' launchers, in order: names of the operands in findings."""
QUANTISER = ("codes", "scales", "x")
WRITER = ("k_codes", "k_scales", "k", "slots")
PLANES = SCORER[1:7]
TREES = {scoring.DecodeScores: "decode", scoring.PrefillScores: "prefill", scoring.VarqlenScores: "prefill"}
PARTS = (
    "harness.paths.flydsl.eightbit",
    "harness.paths.flydsl.gating",
    "harness.paths.flydsl.sharding",
    "harness.paths.flydsl.staging",
    "harness.paths.flydsl.pooling",
    "harness.paths.flydsl.publishing",
    "harness.paths.flydsl.replaying",
    "harness.paths.flydsl.rotating",
    "harness.paths.flydsl.writing",
    "harness.paths.flydsl.selecting",
)
"""Modules that answer the requests of other areas, each by a function ``answers(path)``."""


class FlydslPath(base.Path):
    """In-tree kernels; live on a gfx950, emulated elsewhere."""

    name: ClassVar[str] = "flydsl"
    parts = PARTS

    def __init__(self) -> None:
        self._live = on_gfx950()
        if not self._live:
            backend.install()
        # After install: FlyDSL reads its environment when it is first used.
        from harness.paths.flydsl import host

        self._host = host
        self._stream = None if self._live else 0

    @property
    def executor(self) -> str:
        return "device gfx950" if self._live else "emulated"

    def answers(self) -> Mapping[type, Callable[[Any], base.Outcome]]:
        return {
            scoring.DecodeSchedule: self._decode_schedule,
            scoring.PrefillSchedule: self._prefill_schedule,
            scoring.VarqlenWindows: self._varqlen_windows,
            scoring.DecodeScores: self._decode_scores,
            scoring.PrefillScores: self._prefill_scores,
            scoring.VarqlenScores: self._varqlen_scores,
            writing.Quantise: self._quantise,
            writing.WriteKeys: self._write_keys,
        }

    def tree(self, request: Any) -> str | None:
        """The kernels keep production's order of summation: one tree each for decode and prefill."""
        trees = {
            scoring.DecodeScores: "decode",
            scoring.PrefillScores: "prefill",
            scoring.VarqlenScores: "prefill",
        }
        return trees.get(type(request))

    def provenance(self) -> dict[str, Any]:
        return {"flydsl": metadata.version("flydsl"), "kernels": "in-tree", "executor": self.executor}

    def _decode_schedule(self, request: scoring.DecodeSchedule) -> base.Outcome:
        made = schedules.decode_schedule(
            request.context_lens, units=request.units, next_n=request.next_n, max_seq_len=request.max_seq_len
        )
        return base.Outcome(made, facts={"executor": "torch"})

    def _prefill_schedule(self, request: scoring.PrefillSchedule) -> base.Outcome:
        windows = (request.row_seq, request.row_start, request.row_end)
        made = schedules.prefill_schedule(*windows, units=request.units, max_seq_len=request.max_seq_len)
        return base.Outcome(made, facts={"executor": "torch"})

    def _varqlen_windows(self, request: scoring.VarqlenWindows) -> base.Outcome:
        made = schedules.varqlen_windows(request.cu_seq_q, request.context_lens, request.total_q)
        return base.Outcome(made, facts={"executor": "torch"})

    def _decode_scores(self, request: scoring.DecodeScores) -> base.Outcome:
        own = {
            "context_lens": self._put(request.context_lens),
            "next_n": request.next_n,
            "schedule": self._put(request.schedule),
        }
        return self._scores(request, self._host.decode_scores, own)

    def _prefill_scores(self, request: scoring.PrefillScores) -> base.Outcome:
        fields = ("row_seq", "row_start", "row_end", "schedule")
        own = {field: self._put(getattr(request, field)) for field in fields}
        return self._scores(request, self._host.prefill_scores, own)

    def _varqlen_scores(self, request: scoring.VarqlenScores) -> base.Outcome:
        own = {field: self._put(getattr(request, field)) for field in ("cu_seq_q", "context_lens")}
        return self._scores(request, self._host.varqlen_scores, own)

    def _scores(self, request: Any, host: Callable[..., Tensor], own: dict[str, Any]) -> base.Outcome:
        arguments = {
            **{field: self._put(getattr(request.planes, field)) for field in PLANES},
            **own,
            "max_seq_len": request.max_seq_len,
            "weight_scale": request.weight_scale,
            "units": request.units,
            "out": self._put(request.out),
            "stream": self._stream,
        }
        expected = {} if request.expected is None else {"out": request.expected}
        outcome = self._launch(lambda: host(**arguments), SCORER, request.planes.defined, expected)
        value = outcome.value if request.out is None else self._back(outcome.value, request.out)
        return base.Outcome(value, outcome.findings, outcome.facts)

    def _quantise(self, request: writing.Quantise) -> base.Outcome:
        x = self._put(request.x)
        rows, dim = x.shape
        sizes = {"codes": (rows, dim // 2), "scales": (rows, dim // GROUP)}
        expected = {name: torch.ones(size, dtype=torch.bool) for name, size in sizes.items()}
        return self._launch(lambda: self._host.quantise(x, stream=self._stream), QUANTISER, expected=expected)

    def _write_keys(self, request: writing.WriteKeys) -> base.Outcome:
        k, slots = self._put(request.k), self._put(request.slots)
        planes = (self._put(request.k_codes), self._put(request.k_scales))
        outcome = self._launch(lambda: self._host.write_keys(k, slots, *planes, stream=self._stream), WRITER)
        into = (request.k_codes, request.k_scales)
        value = tuple(self._back(plane, own) for plane, own in zip(planes, into, strict=True))
        return base.Outcome(value, outcome.findings, outcome.facts)

    def _launch(
        self,
        call: Callable[[], Any],
        order: tuple[str, ...],
        defined: Mapping[str, Tensor] | None = None,
        expected: Mapping[str, Tensor] | None = None,
    ) -> base.Outcome:
        """Run ``call`` on the executor there is. Raises `base.Unsupported`."""
        if self._live:
            return base.Outcome(from_device(call()), facts={"executor": self.executor})
        try:
            with backend.session(order=order, defined=defined, expected=expected) as seen:
                value = call()
        except UnsupportedOperation as refusal:
            raise base.Unsupported(str(refusal)) from refusal
        return base.Outcome(value, seen.findings, {"executor": self.executor, **seen.facts})

    def _put(self, tensor: Any) -> Any:
        """On the device when there is one, with its strides: they are part of what is tested."""
        if not self._live or tensor is None:
            return tensor
        if not tensor.numel():
            return tensor.to("cuda")
        reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
        whole = tensor.as_strided((reach + 1,), (1,)).to("cuda")
        return whole.as_strided(tensor.shape, tensor.stride())

    def _back(self, tensor: Tensor, into: Tensor) -> Tensor:
        """The caller's own tensor ``into``, holding what was computed on the device."""
        return into if tensor is into else into.copy_(tensor)


def from_device(value: Any) -> Any:
    """A tensor, or a tuple of them, on the CPU; None stays None."""
    if isinstance(value, tuple):
        return tuple(part.cpu() for part in value)
    return value if value is None else value.cpu()


def on_gfx950() -> bool:
    """Whether torch sees a gfx950."""
    if not torch.version.hip or not torch.cuda.is_available():
        return False
    return str(torch.cuda.get_device_properties(0).gcnArchName).startswith("gfx950")
