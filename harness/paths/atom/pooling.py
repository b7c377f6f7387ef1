"""ATOM's index caches: the pool that it declares and allocates, with a torch that allocates nothing.

fp8 rows are those of the MLA builder. fp4 planes are those of its pool where it declares them, else of the
DeepSeek-V4 builder, whose planes have the same layout. What is charged for a page is asked of ATOM too: with
and without the indexer, because a page holds other keys as well. How this would fail silently: a
shape that is made up here; a builder that reads what it is not given therefore raises, by name.
"""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from harness.paths import base
from harness.paths.atom import tree as atom_tree
from harness.paths.atom.path import AtomPath
from harness.paths.atom.space import Space
from harness.paths.requests.pooling import PoolGeometry, pool_of
from oracles.pool import Pool

MLA = "atom/model_ops/attentions/aiter_mla.py"
V4 = "atom/model_ops/attentions/deepseek_v4_attn.py"
DECLARED = "atom/model_ops/attentions/mla_kv_pool.py"
MLA_BUILDER, V4_BUILDER, MLA_POOL = (
    "AiterMLAMetadataBuilder",
    "DeepseekV4AttentionMetadataBuilder",
    "MlaKvPool",
)
ALLOCATE = "allocate_kv_cache_tensors"
ROW = "aligned_index_cache_dim"
DTYPES = SimpleNamespace(
    fp8=torch.float8_e4m3fn, d_dtypes={"fp8": torch.float8_e4m3fn, "bf16": torch.bfloat16}
)
"""aiter's names of the types, whose sizes are all that is read here."""


class Unallocated:
    """``torch`` as a builder sees it: ``zeros`` and ``empty`` allocate nothing, the rest is as it is."""

    def __getattr__(self, name: str) -> Any:
        if name in ("zeros", "empty"):
            return lambda *size, device=None, **more: getattr(torch, name)(*size, device="meta", **more)
        return getattr(torch, name)


def answers(path: base.Path) -> base.Answers:
    assert isinstance(path, AtomPath)
    return {PoolGeometry: lambda request: geometry(path, request)}


def geometry(path: AtomPath, request: PoolGeometry) -> base.Outcome:
    """The planes of the newest pool that the tree has. Raises `Unsupported` naming what it lacks."""
    if path.has((DECLARED,), MLA_POOL) and (request.form == "fp8" or declares_fp4(path)):
        return path.outcome(declared(path, request), MLA_POOL)
    if request.form == "fp8":
        return path.outcome(of_builder(path, request), f"{MLA_BUILDER}.{ALLOCATE}")
    return path.outcome(of_v4(path, request), f"{V4_BUILDER}.{ALLOCATE}")


def declares_fp4(path: AtomPath) -> bool:
    """Whether the pool of this tree knows fp4."""
    return "index_fp4" in inspect.signature(path.load((DECLARED,), MLA_POOL)).parameters


def declared(path: AtomPath, request: PoolGeometry) -> Pool:
    """A pool object that is declared, priced and allocated."""
    config = SimpleNamespace(index_head_dim=request.dim)
    arguments: dict[str, Any] = {
        "layers": 1,
        "block_size": request.page_rows,
        "entry_dim": 576,
        "kv_dtype": torch.bfloat16,
        "index_layers": request.layers,
        "index_rows_per_block": request.page_rows,
        "index_dim": path.load((MLA,), ROW, ("hf_config",))(hf_config=config),
        "index_dtype": torch.float8_e4m3fn,
    }
    if request.form == "fp4":
        arguments |= {"index_head_dim": request.dim, "index_fp4": True}
    pool = path.load((DECLARED,), MLA_POOL, tuple(arguments))
    made, without = pool(**arguments), pool(**(arguments | {"index_layers": 0}))
    made.allocate(request.blocks, "meta")
    names = {"codes": "index", "scales": "index_scale"} if request.form == "fp4" else {"rows": "index"}
    planes = {
        plane: [made.layer(name, layer) for layer in range(request.layers)] for plane, name in names.items()
    }
    return pool_of(planes, made.entry_bytes - without.entry_bytes)


def of_builder(path: AtomPath, request: PoolGeometry) -> Pool:
    """The fp8 cache of the MLA builder, a tensor of all layers."""
    made = builder(path, request, indexer=True)
    charged = made.sub_pool_specs()[0].entry_bytes
    other = builder(path, request, indexer=False).sub_pool_specs()[0].entry_bytes
    tensors = made.allocate_kv_cache_tensors(num_kv_heads=1, num_draft_layers=0)
    return pool_of({"rows": list(tensors["index_cache"])}, charged - other)


def builder(path: AtomPath, request: PoolGeometry, *, indexer: bool) -> Any:
    """The MLA builder of a model whose pages are ``page_rows`` tokens, with an indexer or without."""
    runner = SimpleNamespace(
        config=SimpleNamespace(kv_cache_dtype="fp8", hf_config=SimpleNamespace(index_head_dim=request.dim)),
        block_size=request.page_rows,
        physical_block_size=request.page_rows,
        num_physical_kvcache_blocks=request.blocks,
        is_deepseek_v32=indexer,
        _get_total_num_layers=lambda: request.layers,
    )
    return stand_in(path, MLA, MLA_BUILDER, model_runner=runner)


def of_v4(path: AtomPath, request: PoolGeometry) -> Pool:
    """The two fp4 planes of the DeepSeek-V4 builder."""
    runner = SimpleNamespace(device="cpu", num_physical_kvcache_blocks=request.blocks)
    made = stand_in(
        path,
        V4,
        V4_BUILDER,
        model_runner=runner,
        csa_layers=list(range(request.layers)),
        csa_rows_per_block=request.page_rows,
        _indexer_fp4=True,
        _idx_k_tiles=request.dim // 128,
    )
    tensors = made.allocate_kv_cache_tensors(num_kv_heads=1, num_draft_layers=0)
    planes: dict[str, list[Tensor]] = {
        "codes": list(tensors["v4_csa_idx_kv"]),
        "scales": list(tensors["v4_csa_idx_kv_scale"]),
    }
    return pool_of(planes, made._indexer_block_bytes())


def stand_in(path: AtomPath, file: str, owner: str, **attributes: Any) -> Any:
    """An object with the methods of ``owner`` in ``file``. Raises `Unsupported` when there are none."""
    path.load((file,), f"{owner}.{ALLOCATE}", ("num_kv_heads", "num_draft_layers"))
    module = file.removesuffix(".py").replace("/", ".")
    space = Space(path.root, path.aiter, {f"{module}.torch": Unallocated(), "aiter.dtypes": DTYPES})
    return atom_tree.stand_in(space, file, owner, **attributes)
