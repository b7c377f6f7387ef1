"""In-tree FP8 path: host functions around the Triton kernels of `eightbit_kernels`.

Interpreted without a GPU, native with one (any: nothing in the kernels belongs to a chip). How it
would fail silently: the interpreter taken for a device, so every outcome says what ran.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from harness.paths import base
from harness.paths.flydsl import abi
from harness.paths.requests import eightbit as asked

TOPS = {"fn": 448.0, "fnuz": 240.0}
QUERY_FLOOR, KEY_FLOOR = 1e-10, 1e-4
DIM = 128
ROW_BYTES = (132, 144)
BLOCK = 32
"""Vectors that one program quantises or moves."""


def answers(path: base.Path) -> base.Answers:
    return {
        asked.QuantiseQueries8: quantise_queries,
        asked.WriteKeys8: write_keys,
        asked.GatherKeys8: gather_keys,
        asked.PagedScores8: paged_scores,
        asked.FlatScores8: flat_scores,
    }


@cache
def kernels() -> ModuleType:
    """The kernels, interpreted where nothing else can be."""
    from harness.paths import registry

    if not torch.cuda.is_available():
        registry.prepare_environment("flydsl")
    from harness.paths.flydsl import eightbit_kernels

    return eightbit_kernels


def quantise_queries(request: asked.QuantiseQueries8) -> base.Outcome:
    q, weights = _put(request.q), _put(request.weights)
    rows, heads, dim = q.shape
    codes = torch.empty(rows, heads, dim, dtype=torch.uint8, device=q.device)
    folded = torch.empty(rows, heads, dtype=torch.float32, device=q.device)
    reciprocal = float(1 / torch.tensor(TOPS[request.fmt], dtype=torch.float32))
    kernels().quantise_queries_kernel[_programs(rows * heads)](
        q.contiguous(), weights.contiguous(), codes, folded, rows * heads, QUERY_FLOOR, reciprocal,
        request.weights_scale, request.fmt == "fnuz", request.ue, BLOCK,
    )  # fmt: skip
    return _outcome((codes, folded))


def write_keys(request: asked.WriteKeys8) -> base.Outcome:
    pool = _put(_pages(request.cache))
    kernels().write_keys_kernel[_programs(len(request.k))](
        _put(request.k), _put(request.slots), pool, pool.view(torch.float32), len(request.k),
        _page_bytes(pool), KEY_FLOOR, TOPS[request.fmt], request.fmt == "fnuz", request.ue,
        request.tile == "tiled", BLOCK,
    )  # fmt: skip
    return _outcome(_back(pool, request.cache))


def gather_keys(request: asked.GatherKeys8) -> base.Outcome:
    pool, sequences = _put(_pages(request.cache)), len(request.cu_lens) - 1
    abi.table(request.block_tables)
    tables, cu_lens = _put(request.block_tables), _put(request.cu_lens)
    keys = int(request.cu_lens[-1])
    codes = torch.empty(keys, DIM, dtype=torch.uint8, device=pool.device)
    scales = torch.empty(keys, dtype=torch.float32, device=pool.device)
    kernels().gather_keys_kernel[_programs(keys)](
        pool, pool.view(torch.float32), tables, cu_lens, codes, scales, keys, _page_bytes(pool),
        tables.stride(0), sequences, _power_above(sequences), request.tile == "tiled", BLOCK,
    )  # fmt: skip
    return _outcome((codes, scales))


def paged_scores(request: asked.PagedScores8) -> base.Outcome:
    abi.table(request.block_tables)
    pool, out = _put(_pages(request.cache)), _put(request.out)
    q_codes, weights, tables = (
        _put(tensor) for tensor in (request.q_codes, request.weights, request.block_tables)
    )
    rows, heads, _ = q_codes.shape
    pages = -(-int(request.context_lens.max()) // 64)
    if rows and pages:
        kernels().paged_scores_kernel[(rows, pages)](
            out, q_codes, weights, pool, pool.view(torch.float32), tables, _put(request.context_lens),
            out.stride(0), _page_bytes(pool), tables.stride(0), request.next_n, heads,
            request.fmt == "fnuz", request.tile == "tiled", _power_above(heads),
        )  # fmt: skip
    return _outcome(_back(out, request.out))


def flat_scores(request: asked.FlatScores8) -> base.Outcome:
    q_codes, weights, k_codes, k_scales, starts, ends = (
        _put(getattr(request, name))
        for name in ("q_codes", "weights", "k_codes", "k_scales", "starts", "ends")
    )
    rows, heads, _ = q_codes.shape
    keys = len(k_codes)
    out = torch.empty(rows, keys, dtype=torch.float32, device=q_codes.device)
    if request.clean:
        out.fill_(-torch.inf)
    kernels().flat_scores_kernel[(rows, -(-keys // 64))](
        out, q_codes, weights, k_codes, k_scales, starts, ends, out.stride(0), heads,
        request.fmt == "fnuz", _power_above(heads),
    )  # fmt: skip
    return _outcome(out)


def _pages(cache: Tensor) -> Tensor:
    """``cache`` as uint8 [blocks, page bytes]. Raises ValueError unless it is of the ABI."""
    blocks, rows, row_bytes = cache.shape
    if rows != 64 or row_bytes not in ROW_BYTES or not cache.is_contiguous():
        raise ValueError(
            f"cache is {list(cache.shape)}, allowed are contiguous pages of 64 rows of 132 or 144 bytes"
        )
    return cache.view(blocks, rows * row_bytes)


def _programs(vectors: int) -> tuple[int]:
    return (-(-vectors // BLOCK),)


def _page_bytes(pool: Tensor) -> int:
    return int(pool.shape[1])


def _power_above(count: int) -> int:
    return max(16, 1 << (count - 1).bit_length())


def _put(tensor: Tensor) -> Tensor:
    """On the device when there is one, with its strides."""
    if not torch.cuda.is_available():
        return tensor
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.as_strided((reach + 1,), (1,)).to("cuda").as_strided(tensor.shape, tensor.stride())


def _back(tensor: Tensor, into: Tensor) -> Tensor:
    """The caller's own tensor, holding what was computed."""
    return into if tensor.data_ptr() == into.data_ptr() else into.copy_(tensor.view(into.shape))


def _outcome(value: Any) -> base.Outcome:
    ran = "device" if torch.cuda.is_available() else "interpreted"
    at_home = tuple(part.cpu() for part in value) if isinstance(value, tuple) else value.cpu()
    return base.Outcome(at_home, facts={"executor": ran})
