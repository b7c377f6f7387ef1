"""Whether ATOM's indexer and builder really refuse: their own methods, run on stand-ins for the rest.

A function that refuses helps nobody who does not call it, or calls it with the wrong knob. What runs is
the method as it stands; the layers it makes, the process groups, the pool and the device are stood
in for. A method that wants more than that is `Unsupported`, never a refusal.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import torch

from harness.paths import base
from harness.paths.atom import tree
from harness.paths.atom.path import AtomPath
from harness.paths.atom.space import Space

FILE, OWNER = "atom/models/deepseek_v2.py", "Indexer"
MODULE = "atom.models.deepseek_v2"
CONSTRUCTOR = f"{OWNER}.__init__"
GET_GFX = "aiter.jit.utils.chip_info.get_gfx"
BUILDER_FILE, BUILDER = "atom/model_ops/attentions/aiter_mla.py", "AiterMLAMetadataBuilder"
BINDING = f"{BUILDER}.build_kv_cache_tensor"
ARGUMENTS = ("atom_config", "config", "hidden_size", "q_lora_rank", "quant_config", "cache_config")
LAYERS = ("ReplicatedLinear", "IndexerWkWeightsProjLinear", "LayerNorm", "DeepseekV32IndexerCache")
MODEL = {
    "index_topk": 2048,
    "index_head_dim": 128,
    "index_n_heads": 64,
    "qk_rope_head_dim": 64,
    "model_type": "deepseek_v32",
}
"""DeepSeek-V3.2's indexer, as far as a constructor reads it."""
NO_ROPE = {"qk_rope_head_dim": 0}


def construct(path: AtomPath, by: str) -> str | None:
    """The message the constructor refuses with when ``by`` blocks (empty: nothing does), or None.

    The fused writer can be switched off, or not fit the indexer (one without RoPE); both must be refused.
    """
    path.load((FILE,), CONSTRUCTOR, ARGUMENTS)
    messages = [_constructed(path, by, MODEL)]
    if by == "nowriter":
        messages.append(_constructed(path, "", MODEL | NO_ROPE))
    return None if None in messages else messages[0]


def _constructed(path: AtomPath, by: str, model: Mapping[str, Any]) -> str | None:
    server = SimpleNamespace(
        index_cache_dtype="fp4",
        max_model_len=4096,
        max_num_seqs=1,
        enable_tbo=by == "ubatch",
        enable_tbo_decode=False,
        compilation_config=SimpleNamespace(static_forward_context={}),
    )
    space = Space(path.root, path.aiter, stood_in(server, by))
    arguments = dict.fromkeys(ARGUMENTS) | {
        "atom_config": server,
        "config": SimpleNamespace(**model),
        "hidden_size": 7168,
        "q_lora_rank": 1536,
    }
    own = tree.stand_in(space, FILE, OWNER)
    return refused_by(lambda: tree.method(space, FILE, OWNER, "__init__", own)(**arguments), CONSTRUCTOR)


def refused_by(call: Callable[[], Any], name: str) -> str | None:
    """The message that ``call`` refuses with, or None. Raises `Unsupported` for what is no refusal."""
    try:
        call()
    except (AssertionError, NotImplementedError, ValueError) as refused:
        return f"{type(refused).__name__}: {refused}"
    except (AttributeError, KeyError, NameError, RuntimeError, TypeError) as problem:
        text = str(problem).partition("\n")[0]
        sentence = f"{name} of {tree.OWNER} does not run on stand-ins: {text}"
        raise base.Unsupported(sentence) from problem
    return None


def bind(path: AtomPath, split: bool) -> base.Outcome:
    """The builder binds an indexer's cache, which decided otherwise than the builder if ``split``."""
    path.load((BUILDER_FILE,), BINDING, ("module",))
    keys = torch.zeros(2, 1, 4, 64, 16, dtype=torch.uint8)
    planes = {"kv": torch.zeros(2, 64, 576), "index": keys, "index_scale": keys[..., 0].clone()}
    indexer = SimpleNamespace(_indexer_fp4=not split, k_cache=SimpleNamespace(kv_cache=[None]))
    module = Layer(indexer)
    runner = SimpleNamespace(
        has_mla_indexer=True,
        index_cache_layer_map={0: 0},
        config=SimpleNamespace(max_model_len=4096),
    )
    builder = tree.stand_in(
        path.space,
        BUILDER_FILE,
        BUILDER,
        model_runner=runner,
        kv_pool=SimpleNamespace(layer=lambda kind, row: planes[kind], entry_dim=576),
        pool_rows=defaultdict(lambda: {module: 0}),
        _indexer_fp4=True,
    )
    return path.outcome(refused_by(lambda: builder.build_kv_cache_tensor(module), BINDING), BINDING)


class Layer:
    """An attention layer as the builder sees it."""

    base_attention, use_mla, layer_num = None, True, 0

    def __init__(self, indexer: Any) -> None:
        self.indexer = indexer


def stood_in(server: SimpleNamespace, by: str) -> dict[str, Any]:
    """Layers that hold nothing, one rank of everything, a gfx950, and a device that is the CPU."""
    names: dict[str, Any] = dict.fromkeys(LAYERS, lambda *_arguments, **_keywords: SimpleNamespace())
    names |= {
        "get_hip_quant": lambda *_arguments: None,
        "QuantType": SimpleNamespace(per_1x128=None),
        "pcp_is_enabled": lambda: by == "prefillcp",
        "get_current_atom_config": lambda: server,
        "get_tensor_model_parallel_world_size": lambda: 1,
        "ENABLE_DS_INDEXER_QK_ROPE_CACHE_FUSION": by != "nowriter",
        "ENABLE_GLM_FUSED_INDEXER": True,
        "torch": OnCpu(),
    }
    return {GET_GFX: lambda: "gfx950", **{f"{MODULE}.{name}": value for name, value in names.items()}}


class OnCpu:
    """torch, whose buffers are made on the CPU whatever device is asked for."""

    ops = SimpleNamespace(aiter=SimpleNamespace(sparse_attn_indexer=None))

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def empty(self, *size: Any, **options: Any) -> torch.Tensor:
        return torch.empty(*size, **{**options, "device": "cpu"})
