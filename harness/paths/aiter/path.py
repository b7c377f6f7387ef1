"""The production path: aiter's FP4 scorers and schedule builders, called as a server calls them.

One adapter for every executor. On a gfx950 the functions run live on the device; elsewhere
their FlyDSL kernels run in the emulator and their Triton builders in Triton's interpreter
(``TRITON_INTERPRET=1`` must be set before triton is imported). What ran is in ``executor``
and, per request, in the outcome's facts. A version of aiter that lacks a function, a
parameter or a module gives `Unsupported` with its name; nothing is called by position, so a
reordered signature cannot swap two tensors silently.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path as FilePath
from typing import Any, ClassVar

import torch
from torch import Tensor

from harness.emulator import backend
from harness.emulator.program import UnsupportedOperation
from harness.paths.aiter import tree as aiter_tree
from harness.paths.base import Outcome, Path, Unsupported
from harness.paths.requests.scoring import (
    DecodeSchedule,
    DecodeScores,
    Planes,
    PrefillSchedule,
    PrefillScores,
    VarqlenScores,
    VarqlenWindows,
)
from harness.paths.requests.selecting import SelectDecode, SelectPrefill

HOMES = ("aiter.ops.flydsl.kernels.mqa_logits", "aiter.ops.flydsl.kernels")
"""Where the kernels live in aiter, newest first (they moved in August 2026)."""

DECODE = "pa_mqa_logits_fp4"
PREFILL = "pa_mqa_logits_fp4_prefill"
BLOCK_K = 256
"""Columns a chunk, as production launches the scorers (indexer.md 4)."""

PREFILL_UNITS = 512
"""Schedule slots of a prefill when the request leaves them open; never fewer than rows."""

_TENSORS = ("out", "q_codes", "q_scales", "k_codes", "k_scales", "block_tables", "weights", "schedule")
"""Tensor arguments of the launchers, in order; names findings by the harness's own terms."""

_PLANES = ("q_fp4", "q_scale", "kv_cache", "kv_scale", "block_tables", "weights")


PARTS = (
    "harness.paths.aiter.eightbit",
    "harness.paths.aiter.publishing",
    "harness.paths.aiter.replaying",
    "harness.paths.aiter.rotating",
    "harness.paths.aiter.writing",
    "harness.paths.aiter.selecting",
)
"""Modules that answer the requests of other areas, each by a function ``answers(path)``."""


class AiterPath(Path):
    """aiter from a source tree, or the installed one when ``tree`` is None."""

    name: ClassVar[str] = "aiter"
    parts = PARTS

    def __init__(self, tree: FilePath | None = None) -> None:
        self._tree = tree
        self.rerun_args = () if tree is None else ("--aiter", str(tree))
        self._live = _on_gfx950()
        if not self._live:
            backend.install()

    @property
    def executor(self) -> str:
        return "device gfx950" if self._live else "emulated"

    def answers(self) -> Mapping[type, Callable[[Any], Outcome]]:
        return {
            DecodeSchedule: self._decode_schedule,
            PrefillSchedule: self._prefill_schedule,
            VarqlenWindows: self._varqlen_windows,
            DecodeScores: self._decode_scores,
            PrefillScores: self._prefill_scores,
            VarqlenScores: self._varqlen_scores,
        }

    def source(self) -> FilePath:
        return aiter_tree.locate(self._tree)

    def tree(self, request: Any) -> str | None:
        return {DecodeScores: "decode", PrefillScores: "prefill", VarqlenScores: "prefill"}.get(type(request))

    def zeros(self, request: Any) -> str:
        """Its HIP top-k ranks by the bits of a number (``twiddle_in`` in topk_per_row_kernels.cu)."""
        return "ordered" if isinstance(request, SelectDecode | SelectPrefill) else "equal"

    def _function(self, module: str, name: str, *parameters: str) -> Callable[..., Any]:
        root = self.source()
        return aiter_tree.function(
            aiter_tree.load(root, aiter_tree.find(root, module, HOMES)), name, parameters
        )

    def _decode_schedule(self, request: DecodeSchedule) -> Outcome:
        arguments = {
            "context_lens": self._put(request.context_lens),
            "block_k": BLOCK_K,
            "parallel_unit_num": request.units,
            "max_seq_len": request.max_seq_len,
            "next_n": request.next_n,
        }
        build = self._function(DECODE, "compute_varctx_schedule", *arguments)
        return self._interpreted(build(**arguments)[1], build)

    def _prefill_schedule(self, request: PrefillSchedule) -> Outcome:
        arguments = {
            "row_to_batch": self._put(request.row_seq),
            "local_starts": self._put(request.row_start),
            "local_ends": self._put(request.row_end),
            "block_k": BLOCK_K,
            "parallel_unit_num": request.units,
            "max_seq_len": request.max_seq_len,
        }
        build = self._function(PREFILL, "compute_prefill_schedule", *arguments)
        return self._interpreted(build(**arguments)[1], build)

    def _varqlen_windows(self, request: VarqlenWindows) -> Outcome:
        arguments = {
            "cu_seq_q": self._put(request.cu_seq_q),
            "context_lens": self._put(request.context_lens),
            "total_q": request.total_q,
        }
        build = self._function(PREFILL, "compute_varqlen_windows", *arguments)
        return self._interpreted(build(**arguments), build)

    def _decode_scores(self, request: DecodeScores) -> Outcome:
        rows = request.planes.q_codes.shape[0]
        split = (rows // request.next_n, request.next_n)
        tensors = self._planes(request.planes)
        tensors["q_fp4"] = tensors["q_fp4"].view(*split, *tensors["q_fp4"].shape[1:])
        tensors["q_scale"] = tensors["q_scale"].view(*split, *tensors["q_scale"].shape[1:])
        arguments = {
            **tensors,
            "context_lens": self._put(request.context_lens),
            "next_n": request.next_n,
            "parallel_unit_num": request.units,
            **self._common(request, "total_ctas"),
        }
        return self._score(request, self._function(DECODE, "flydsl_pa_mqa_logits_fp4", *arguments), arguments)

    def _prefill_scores(self, request: PrefillScores) -> Outcome:
        units = request.units or max(PREFILL_UNITS, request.row_seq.shape[0])
        arguments = {
            **self._planes(request.planes),
            "row_to_batch": self._put(request.row_seq),
            "local_starts": self._put(request.row_start),
            "local_ends": self._put(request.row_end),
            "parallel_unit_num": units,
            **self._common(request, "n_ctas"),
        }
        host = self._function(PREFILL, "flydsl_pa_mqa_logits_fp4_prefill", *arguments)
        return self._score(request, host, arguments)

    def _varqlen_scores(self, request: VarqlenScores) -> Outcome:
        arguments = {
            **self._planes(request.planes),
            "cu_seq_q": self._put(request.cu_seq_q),
            "context_lens": self._put(request.context_lens),
            "parallel_unit_num": request.units,
            **self._common(request, ""),
        }
        host = self._function(PREFILL, "flydsl_pa_mqa_logits_fp4_varqlen", *arguments)
        return self._score(request, host, arguments)

    def _planes(self, planes: Planes) -> dict[str, Tensor]:
        fields = ("q_codes", "q_scales", "k_codes", "k_scales", "block_tables", "weights")
        return {name: self._put(getattr(planes, field)) for name, field in zip(_PLANES, fields, strict=True)}

    def _common(self, request: Any, count_name: str) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "max_seq_len": request.max_seq_len,
            "weight_scale": request.weight_scale,
            "block_k": BLOCK_K,
            "out": None if request.out is None else self._put(request.out),
            # An explicit null stream: without a GPU, torch has no current stream to ask for.
            "stream": None if self._live else 0,
        }
        schedule = getattr(request, "schedule", None)
        if schedule is not None:
            arguments |= {"cta_info": self._put(schedule), count_name: int(schedule.shape[0])}
        return arguments

    def _score(self, request: Any, host: Callable[..., Tensor], arguments: dict[str, Any]) -> Outcome:
        if self._live:
            value = host(**arguments)
            if request.out is not None:
                value = request.out.copy_(arguments["out"])
            return Outcome(self._take(value), facts={"executor": self.executor, **aiter_tree.whence(host)})
        defined = request.planes.defined
        expected = {} if request.expected is None else {"out": request.expected}
        roots = (str(self.source()),)
        try:
            with backend.session(order=_TENSORS, defined=defined, expected=expected, roots=roots) as seen:
                value = host(**arguments)
        except UnsupportedOperation as refusal:
            raise Unsupported(str(refusal)) from refusal
        except (AttributeError, ImportError, NameError, TypeError) as problem:
            if _raised_by_harness(problem):
                raise
            flydsl = f"FlyDSL {metadata.version('flydsl')}"
            skew = f"{type(problem).__name__}: {aiter_tree.first_line(problem)}"
            raise Unsupported(f"the kernels of this aiter do not trace under {flydsl}: {skew}") from problem
        facts = {"executor": self.executor, **aiter_tree.whence(host), **seen.facts}
        return Outcome(value, seen.findings, facts)

    def _interpreted(self, value: Any, build: Callable[..., Any]) -> Outcome:
        taken = tuple(self._take(part) for part in value) if isinstance(value, tuple) else self._take(value)
        executor = self.executor if self._live else "interpreted"
        return Outcome(taken, facts={"executor": executor, **aiter_tree.whence(build)})

    def _put(self, tensor: Tensor) -> Tensor:
        """On the device when there is one; strides are kept, because they are part of what is tested."""
        if not self._live:
            return tensor
        span = (
            sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)) + 1
        )
        moved = tensor.as_strided((span,), (1,)).to("cuda")
        return moved.as_strided(tensor.shape, tensor.stride())

    def _take(self, tensor: Tensor) -> Tensor:
        """Back from the device."""
        return tensor.cpu() if self._live else tensor


def _raised_by_harness(problem: BaseException) -> bool:
    """Whether the emulator or torch under it raised (a defect of ours), not the tracing of a kernel."""
    frames = traceback.extract_tb(problem.__traceback__)
    return any(f"{os.sep}harness{os.sep}emulator{os.sep}" in frame.filename for frame in frames[-12:])


def _on_gfx950() -> bool:
    if not torch.version.hip or not torch.cuda.is_available():
        return False
    return str(torch.cuda.get_device_properties(0).gcnArchName).startswith("gfx950")
