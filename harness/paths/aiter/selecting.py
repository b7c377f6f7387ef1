"""aiter's top-k: the HIP ops that the indexer calls, and the Triton one.

``top_k_per_row_decode`` and ``top_k_per_row_prefill`` are HIP: live on the chip (written, not yet run on
one), elsewhere compiled from the tree's source and run in the emulator. ``aiter.ops.triton.topk.topk`` is a
general top-k, not what the indexer calls; in Triton's interpreter each key that it takes is a turn of a loop
in Python, so rows that would need too many turns are refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from harness.hip import topk_subjects
from harness.hip.compilers import CannotCompile
from harness.paths.aiter import hip, hosted, tree
from harness.paths.base import Answers, Outcome, OutOfScope
from harness.paths.requests.selecting import PlainTopK, SelectDecode, SelectPrefill

if TYPE_CHECKING:
    from harness.paths.aiter.path import AiterPath

OPS = "aiter.ops.topk"
DECODE, PREFILL = "top_k_per_row_decode", "top_k_per_row_prefill"
TRITON, GENERAL = "aiter.ops.triton.topk", "topk"
TINY = 1024
CHUNK = 1024
TURNS = 1 << 10
"""Turns of the loop over keys that are borne in the interpreter: a few seconds."""


def answers(path: AiterPath) -> Answers:
    return {
        SelectDecode: lambda request: decode(path, request),
        SelectPrefill: lambda request: prefill(path, request),
        PlainTopK: lambda request: plain(path.source(), request),
    }


def decode(path: AiterPath, request: SelectDecode) -> Outcome:
    """The HIP decode op. Raises `OutOfScope` without chip and compiler, else `Unsupported`."""
    given = {"next_n": request.next_n, "seqLens": request.context_lens}
    return _live(path, DECODE, request, given)


def prefill(path: AiterPath, request: SelectPrefill) -> Outcome:
    """The HIP prefill op, without values. Raises as `decode`."""
    given = {"rowStarts": request.row_start, "rowEnds": request.row_end, "values": None}
    return _live(path, PREFILL, request, given)


def _live(
    path: AiterPath, name: str, request: SelectDecode | SelectPrefill, given: dict[str, Any]
) -> Outcome:
    if not path.executor.startswith("device"):
        return _emulated(path, name, request, given)
    logits, ids = on_device(request.logits), request.ids.to("cuda")
    arguments = {
        "logits": logits,
        **{key: value.to("cuda") if isinstance(value, Tensor) else value for key, value in given.items()},
        "indices": ids,
        "numRows": logits.shape[0],
        "stride0": logits.stride(0),
        "stride1": logits.stride(1),
        "k": request.k,
        "stable": request.stable,
    }
    tree.function(tree.load(path.source(), OPS), name, tuple(arguments))(**arguments)
    request.ids.copy_(ids)
    return Outcome(request.ids, facts={"executor": path.executor, "subject": f"aiter {name}"})


def _emulated(
    path: AiterPath, name: str, request: SelectDecode | SelectPrefill, given: dict[str, Any]
) -> Outcome:
    logits = request.logits
    if logits.shape[1] > 1 and logits.stride(1) != 1:
        raise OutOfScope(f"aiter's {name} takes rows whose columns lie next to each other")
    arguments = {
        "logits": logits,
        **given,
        "indices": request.ids,
        "numRows": logits.shape[0],
        "stride0": logits.stride(0),
        "stride1": logits.stride(1),
        "k": request.k,
        "stable": request.stable,
    }
    try:
        launch = getattr(topk_subjects, name)(**arguments)
    except CannotCompile as refusal:
        raise OutOfScope(str(refusal)) from None
    return hip.outcome(request.ids, hip.run(path, launch), name, launch)


def plain(root: FilePath, request: PlainTopK) -> Outcome:
    """The Triton top-k. Raises `OutOfScope` where it is not made for the input or is too slow.

    It fills with the least finite float32, which is above minus infinity: keys come up twice, or from
    past the row (found in aiter e4048607a5, results/LOG.md).

    Up to 1024 columns its block is as long as k where that is above 128, and must be a power of two.
    """
    rows, width = request.scores.shape
    chunks = 1 if width <= TINY else -(-width // max(CHUNK, request.k))
    if width <= TINY and request.k & (request.k - 1) and request.k > 128:
        raise OutOfScope(
            f"aiter's Triton top-k makes blocks of k keys, and k = {request.k} is no power of two"
        )
    turns = rows * chunks * request.k
    live = torch.cuda.is_available()
    if turns > TURNS and not live:
        raise OutOfScope(
            f"aiter's Triton top-k would take {turns} turns of its loop interpreted, borne are {TURNS}"
        )
    if not bool(request.scores.isfinite().all()):
        raise OutOfScope("aiter's Triton top-k goes wrong on infinities, and the indexer does not call it")
    function = _general(root)
    with warnings.catch_warnings():
        # Of the interpreter: integers as conditions, infinity times zero.
        warnings.simplefilter("ignore")
        _, ids = function(x=request.scores.to("cuda") if live else request.scores, k=request.k)
    ran = "device" if live else "interpreted"
    return Outcome(ids.cpu(), facts={"executor": ran, "subject": "aiter triton topk"})


@cache
def _general(root: FilePath) -> Callable[..., Any]:
    provided = {"aiter.ops.triton.utils._triton.arch_info.is_tdm_avail": lambda: False}
    return tree.function(hosted.load(root, TRITON, provided), GENERAL, ("x", "k"))


def on_device(tensor: Tensor) -> Tensor:
    """A copy on the device with the same strides."""
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.as_strided((reach + 1,), (1,)).to("cuda").as_strided(tensor.shape, tensor.stride())
