"""In-tree rotate-and-quantise of DeepSeek-V4: host functions around the Triton kernels of `rotating_kernel`.

Interpreted without a GPU, native with one. How it would fail silently: a stride that the kernel takes for
granted makes it read in bounds and wrong, so rows may lie apart where a stride is handed over, and tensors
without one must be contiguous, which is refused here in one sentence.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType

import numpy
import torch
from torch import Tensor

from harness.paths import base
from harness.paths.flydsl.writing import as_bits, put
from harness.paths.requests.rotating import ROTATED, RotateKeys, RotateQueries


def answers(path: base.Path) -> base.Answers:
    return {RotateQueries: queries, RotateKeys: keys}


@cache
def kernels() -> ModuleType:
    """The kernels, interpreted where nothing else can be."""
    from harness.paths import registry

    if not torch.cuda.is_available():
        registry.prepare_environment("flydsl")
    from harness.paths.flydsl import rotating_kernel

    return rotating_kernel


def queries(request: RotateQueries) -> base.Outcome:
    """Write in place. Raises ValueError for tensors with gaps where none may be."""
    _whole(request, ("positions", *ROTATED))
    rows, heads, dim = request.x.shape
    tables = (request.positions, request.positions) if request.cos is None else (request.cos, request.sin)
    x, cos, sin, positions = (as_bits(put(_given(t))) for t in (request.x, *tables, request.positions))
    written = [put(tensor) for tensor in request.outputs]
    with numpy.errstate(all="ignore"):  # the interpreter's: NaN and infinity are data here
        kernels().queries_kernel[(rows * heads,)](
            x, cos, sin, positions, *written, heads, x.stride(0), x.stride(1), cos.stride(0), sin.stride(0),
            _root(dim), DIM=dim, STAGES=dim.bit_length() - 1, HADAMARD=request.hadamard,
            ROPE=0 if request.cos is None else 2 * request.cos.shape[1], EIGHT=request.to == "fp8",
            GROUP=request.group, TILES=request.scales.shape[-1] if request.shuffled else 0,
        )  # fmt: skip
    return _outcome(request, written)


def keys(request: RotateKeys) -> base.Outcome:
    """Write in place. Raises ValueError for tensors with gaps where none may be."""
    _whole(request, ("norm_weight", "positions", "slots", *ROTATED))
    rows, _, dim = request.x.shape
    given = request.x, request.norm_weight, request.cos, request.sin, request.positions, request.slots
    read = [as_bits(put(tensor)) for tensor in given]
    written = [put(tensor) for tensor in request.outputs]
    with numpy.errstate(all="ignore"):
        kernels().keys_kernel[(rows,)](
            *read, *written, request.x.stride(0), request.cos.stride(0), request.sin.stride(0), _root(dim),
            request.epsilon, DIM=dim, STAGES=dim.bit_length() - 1, ROPE=2 * request.cos.shape[1],
            HADAMARD=request.hadamard, GROUP=request.group, PAGE=request.page, SHUFFLED=request.shuffled,
        )  # fmt: skip
    return _outcome(request, written)


def _given(tensor: Tensor | None) -> Tensor:
    assert tensor is not None  # cos and sin are given both or not at all
    return tensor


def _root(dim: int) -> float:
    """fl32(dim^-0.5)."""
    return float(torch.tensor(dim**-0.5, dtype=torch.float32))


def _whole(request: RotateQueries | RotateKeys, names: tuple[str, ...]) -> None:
    for name in names:
        if not getattr(request, name).is_contiguous():
            raise ValueError(f"{name} has gaps, allowed is contiguous memory")
    if request.x.stride(-1) != 1:
        raise ValueError("x has gaps along its last axis, allowed are gaps between rows")


def _outcome(request: RotateQueries | RotateKeys, written: list[Tensor]) -> base.Outcome:
    for own, tensor in zip(request.outputs, written, strict=True):
        if tensor is not own:
            own.copy_(tensor)
    ran = "device" if torch.cuda.is_available() else "interpreted"
    return base.Outcome(request.outputs, facts={"executor": ran})
