"""aiter's FP8 scorers: its Triton kernels behind its own host functions, in Triton's interpreter.

What runs and what cannot:
- paged, flat pages: ``deepgemm_fp8_paged_mqa_logits`` with its Gluon flag off, as under a Triton before
  3.5; where rows of a page are padded its view of the scales fails, and the kernel is launched here with
  the strides that the host would pass.
- paged, tiled pages: only a Gluon kernel reads them, which the interpreter does not run: `Unsupported`.
- flat keys: ``fp8_mqa_logits`` without its Gluon kernel, as under a Triton before 3.6.
- writers and gather are HIP, compiled from the tree's source and run in the emulator, for E4M3FN only
  (gfx950); the unfused quantiser of queries is another kernel: not asked.
The interpreter takes codes to float16 before a dot, which is exact, but takes NaN codes for numbers;
operands hold none. Chips are those of the formats: gfx950 for E4M3FN, gfx942 for E4M3FNUZ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path as FilePath
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from harness.hip import cache_subjects
from harness.hip.launching import Launch
from harness.paths import signatures
from harness.paths.aiter import hip, hosted, interpreting, tree
from harness.paths.base import Answers, Outcome, OutOfScope, Unsupported
from harness.paths.requests.eightbit import (
    FlatScores8,
    GatherKeys8,
    PagedScores8,
    WriteKeys8,
    WriteTokens8,
)

if TYPE_CHECKING:
    from harness.paths.aiter.path import AiterPath

HOSTS = ("aiter.ops.triton.attention", "aiter.ops.triton")
KERNELS = ("aiter.ops.triton._triton_kernels.attention", "aiter.ops.triton._triton_kernels")
PAGED, FLAT = "pa_mqa_logits", "fp8_mqa_logits"
PAGED_HOST, PAGED_KERNEL = "deepgemm_fp8_paged_mqa_logits", "_deepgemm_fp8_paged_mqa_logits"
CHIPS = {"fn": "gfx950", "fnuz": "gfx942"}
DTYPES = {"fn": torch.float8_e4m3fn, "fnuz": torch.float8_e4m3fnuz}
PAGE_ROWS, DIM, CHUNK = 64, 128, 256
POISON = 0xFF
UNITS = 4
"""Compute units that the grid is made for; they decide who scores which chunk and no score."""
WAVES = 2
WITHOUT_GLUON = {"enable_gluon_pa_mqa_logits": False, "_gluon_fp8_mqa_logits_kernel": None}
"""Globals of the host modules that keep it from kernels which the interpreter does not run."""


def answers(path: AiterPath) -> Answers:
    return {
        PagedScores8: lambda request: paged(path.source(), request),
        FlatScores8: lambda request: flat(path.source(), request),
        WriteKeys8: lambda request: write_keys(path, request),
        WriteTokens8: lambda request: write_tokens(path, request),
        GatherKeys8: lambda request: gather_keys(path, request),
    }


def write_keys(path: AiterPath, request: WriteKeys8) -> Outcome:
    """``indexer_k_quant_and_cache`` of the tree. Raises what `hip.run` raises, `OutOfScope` for E4M3FNUZ."""
    _only_fn(request.fmt)
    launch = cache_subjects.indexer_k_quant_and_cache(
        request.k, request.cache, request.slots, DIM, "ue8m0" if request.ue else "", request.tile == "tiled"
    )
    return hip.answered(path, launch, (request.cache,), request.cache, "indexer_k_quant_and_cache")


def write_tokens(path: AiterPath, request: WriteTokens8) -> Outcome:
    """``indexer_qk_rope_quant_and_cache`` of the tree in FP8 mode. Raises as `write_keys`.

    Until aiter 4a1cc773f3 the kernel takes the LayerNorm's parameters in the type of q. They are handed over
    in the type that it declares, as its callers had to.
    """
    _only_fn(request.fmt)
    launch = _writer(request, hip.writer_template(path))
    if "float" not in hip.declared(path, launch).get("norm_weight", ""):
        cast = {name: getattr(request, name).to(request.q.dtype) for name in ("norm_weight", "norm_bias")}
        launch = replace(launch, arguments={**launch.arguments, **cast})
    return hip.answered(path, launch, request.outputs, request.outputs, "indexer_qk_rope_quant_and_cache")


def _writer(request: WriteTokens8, template: tuple[str, ...]) -> Launch:
    return cache_subjects.indexer_qk_rope_quant_and_cache(
        request.q, request.q_codes, request.weights, request.weights_out, request.k, request.cache,
        request.slots, request.norm_weight, request.norm_bias, request.positions, request.cos, request.sin,
        request.epsilon, DIM, "ue8m0" if request.ue else "", request.weights_scale,
        request.tile == "tiled", request.pairing == "neox", template=template,
    )  # fmt: skip


def _only_fn(fmt: str) -> None:
    if fmt != "fn":
        raise OutOfScope("a gfx950 writes E4M3FN, E4M3FNUZ is gfx942's")


def gather_keys(path: AiterPath, request: GatherKeys8) -> Outcome:
    """``cp_gather_indexer_k_quant_cache`` of the tree; it moves bytes, so every format is in its scope."""
    count = int(request.cu_lens[-1])
    codes = torch.full((count, DIM), POISON, dtype=torch.uint8)
    scales = torch.full((count, 4), POISON, dtype=torch.uint8)
    launch = cache_subjects.cp_gather_indexer_k_quant_cache(
        request.cache, codes, scales, request.block_tables, request.cu_lens, request.tile == "tiled"
    )
    seen = hip.run(path, launch)
    value = codes, scales.view(torch.float32)[:, 0]
    return hip.outcome(value, seen, "cp_gather_indexer_k_quant_cache", launch)


def paged(root: FilePath, request: PagedScores8) -> Outcome:
    """Scores over flat pages. Raises `Unsupported` for tiled ones, and what `hosted.load` raises."""
    if request.tile == "tiled":
        raise Unsupported(
            "tiled pages are read by a Gluon kernel of aiter only (Preshuffle), and Triton's interpreter "
            "runs no Gluon"
        )
    rows, heads, dim = request.q_codes.shape
    sequences = rows // request.next_n
    q = request.q_codes.view(DTYPES[request.fmt]).view(sequences, request.next_n, heads, dim)
    padded = request.cache.shape[2] != DIM + 4
    with interpreting.lent():
        (_launched if padded else _hosted)(root, request, q)
    by = "its kernel, launched by the harness" if padded else "its host function"
    name = tree.find(root, PAGED, KERNELS if padded else HOSTS)
    return _outcome(request.out, PAGED_KERNEL, by, name)


def _hosted(root: FilePath, request: PagedScores8, q: Tensor) -> None:
    arguments = {
        "q_fp8": q,
        "kv_cache": request.cache.unsqueeze(2),
        "weights": request.weights,
        "out_logits": request.out,
        "context_lens": request.context_lens,
        "kv_indices": request.block_tables,
        "max_model_len": request.max_seq_len,
        "Preshuffle": False,
        "KVBlockSize": PAGE_ROWS,
        "ChunkK": CHUNK,
        "TotalCuCount": UNITS,
        "WavePerEU": WAVES,
    }
    host = _function(_host(root, PAGED, request.fmt), PAGED_HOST, arguments)
    try:
        host(**arguments)
    except AssertionError as refusal:
        raise Unsupported(
            f"{PAGED_HOST} of this aiter refuses pages of {PAGE_ROWS} keys without Gluon"
            + (f": {refusal}" if str(refusal) else "")
        ) from refusal
    except AttributeError as problem:
        # The host ends by reading the compiled kernel's hash; the interpreter has run it and has none.
        if problem.name != "hash" or problem.obj is not None:
            raise


def _launched(root: FilePath, request: PagedScores8, q: Tensor) -> None:
    pool = request.cache.view(len(request.cache), -1)
    values = pool[:, : PAGE_ROWS * DIM].view(DTYPES[request.fmt])
    scales = pool[:, PAGE_ROWS * DIM : PAGE_ROWS * (DIM + 4)].view(torch.float32)
    split = (max(1, UNITS // (q.shape[0] * q.shape[1])) + 4) // 5 * 5 * WAVES
    arguments = {
        "batch_size": q.shape[0],
        "next_n": request.next_n,
        "heads_num": q.shape[2],
        "Q_buffer": q,
        "stride_q_batch": q.stride(0),
        "stride_q_next_n": q.stride(1),
        "stride_q_heads": q.stride(2),
        "KV_buffer": values,
        "stride_k_block": values.stride(0),
        "stride_k_token": DIM,
        "scale_buffer": scales,
        "stride_scale_block": scales.stride(0),
        "stride_scale_token": 1,
        "context_len_ptr": request.context_lens,
        "kv_indices": request.block_tables,
        "weights": request.weights,
        "stride_w_batch": request.weights.stride(0),
        "OutLogits_buffer": request.out,
        "stride_out_batch": request.out.stride(0),
        "max_model_len": request.max_seq_len,
        "max_blk_len": request.block_tables.shape[1],
        "ChunkQ": q.shape[2],
        "ChunkK": CHUNK,
        "HiddenDim": DIM,
        "KVBlockSize": PAGE_ROWS,
        "SplitKV": split,
    }
    module = tree.load(root, tree.find(root, PAGED, KERNELS))
    kernel = getattr(module, PAGED_KERNEL, None)
    if kernel is None:
        raise Unsupported(f"{module.__name__} of this aiter has no kernel {PAGED_KERNEL}")
    signatures.check(kernel.fn, PAGED_KERNEL, tuple(arguments), "this aiter")
    kernel[(q.shape[0] * q.shape[1] * split,)](**arguments)


def flat(root: FilePath, request: FlatScores8) -> Outcome:
    """Scores over flat keys. Raises `OutOfScope` where its host refuses, and what `hosted.load` raises."""
    arguments = {
        "Q": request.q_codes.view(DTYPES[request.fmt]),
        "KV": request.k_codes.view(DTYPES[request.fmt]),
        "kv_scales": request.k_scales,
        "weights": request.weights,
        "cu_starts": request.starts,
        "cu_ends": request.ends,
        "clean_logits": request.clean,
    }
    host = _function(_host(root, FLAT, request.fmt), FLAT, arguments)
    try:
        with interpreting.lent():
            value = host(**arguments)
    except AssertionError as refusal:
        heads = request.q_codes.shape[1]
        raise OutOfScope(f"{FLAT} of this aiter refuses {heads} heads: {refusal}") from refusal
    return _outcome(value, "_fp8_mqa_logits_kernel", "its host function", tree.find(root, FLAT, HOSTS))


@cache
def _host(root: FilePath, name: str, fmt: str) -> ModuleType:
    """The host module ``name`` as it is on the chip of ``fmt``."""
    chip = CHIPS[fmt]
    provided = {
        "aiter.dtypes": SimpleNamespace(fp8=DTYPES[fmt]),
        "aiter.jit.utils.chip_info.get_gfx": lambda: chip,
        "aiter.ops.triton.utils._triton.arch_info.get_arch": lambda: chip,
        "aiter.ops.triton.utils.types.get_fp8_e4m3_dtype": lambda: DTYPES[fmt],
    }
    made = hosted.load(root, tree.find(root, name, HOSTS), provided)
    made.__dict__.update({flag: value for flag, value in WITHOUT_GLUON.items() if flag in made.__dict__})
    return made


def _function(module: ModuleType, name: str, arguments: dict[str, Any]) -> Callable[..., Any]:
    return tree.function(module, name, tuple(arguments))


def _outcome(value: Any, kernel: str, by: str, module: str) -> Outcome:
    """``by``: how the kernel was reached, through ``module`` (dotted)."""
    told = {"executor": "interpreted", "subject": f"aiter {kernel} by {by}"}
    return Outcome(value, facts={**told, "source": tree.file_of(module)})
