"""Which source files are mutated, and which suites ask what they do.

A file that no suite of its target imports would survive every fault, which is why an unchanged run of each
target's cases has to be green, and why a target without a single kill is suspect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class SourceTarget:
    """``file`` of ``tree`` (``project``, ``aiter``, ``atom``), judged by ``suites`` on ``path``.

    ``functions``: only in these definitions (``name`` or ``Class.method``); empty: in the whole file.
    """

    name: str
    file: str
    suites: tuple[str, ...]
    path: str = "flydsl"
    tree: str = "project"
    functions: tuple[str, ...] = ()


HERE = "harness/paths/flydsl"
THERE = "aiter/ops/flydsl/kernels/mqa_logits"


def _own(name: str, *suites: str) -> SourceTarget:
    return SourceTarget(name, f"{HERE}/{name}.py", suites)


def _atoms(name: str, file: str, suites: tuple[str, ...], *functions: str) -> SourceTarget:
    return SourceTarget(f"atom-{name}", f"atom/{file}", suites, "atom", "atom", functions)


TARGETS: Mapping[str, SourceTarget] = {
    target.name: target
    for target in (
        _own("schedules", "schedule", "varqlen", "decode", "prefill"),
        _own("sharding", "dcp-decode", "dcp-prefill"),
        _own("staging", "dcp-prefill"),
        _own("publishing", "speculative", "replay"),
        _own("selecting", "topk"),
        _own("gating", "gate"),
        _own("pooling", "pool"),
        _own("quantise", "quantise", "write"),
        _own("writing", "writer"),
        SourceTarget(
            "aiter-decode-schedule",
            f"{THERE}/pa_mqa_logits_fp4.py",
            ("schedule", "decode"),
            "aiter",
            "aiter",
            ("_varctx_cta_info_kernel", "compute_varctx_schedule"),
        ),
        SourceTarget(
            "aiter-prefill-schedule",
            f"{THERE}/pa_mqa_logits_fp4_prefill.py",
            ("schedule", "varqlen", "prefill"),
            "aiter",
            "aiter",
            (
                "compute_prefill_schedule",
                "_prefill_cta_info_kernel",
                "_varqlen_windows_kernel",
                "compute_varqlen_windows",
            ),
        ),
        _atoms(
            "ownership",
            "model_ops/dcp_ops.py",
            ("dcp-decode",),
            "get_dcp_local_seq_lens",
            "dcp_owner_rank",
            "dcp_local_index",
            "dcp_global_pos",
            "dcp_pack_topk_candidates",
            "_count_owned_dcp_kernel",
            "_compact_filter_dcp_kernel",
            "triton_filter_and_convert_dcp_index",
        ),
        _atoms("exchange", "models/deepseek_v2.py", ("dcp-decode",), "_dcp_decode_candidate_exchange"),
        _atoms(
            "gather-plan",
            "model_ops/attentions/aiter_mla.py",
            ("dcp-prefill", "dcp-decode"),
            "AiterMLAMetadataBuilder._build_dcp_indexer_prefill_meta",
            "AiterMLAMetadataBuilder._dcp_round_robin_slot",
        ),
        _atoms(
            "draft-schedule",
            "model_ops/attentions/deepseek_v4_attn.py",
            ("speculative", "replay"),
            "DeepseekV4AttentionMetadataBuilder._build_v4_indexer_meta",
        ),
        _atoms(
            "pool",
            "model_ops/attentions/aiter_mla.py",
            ("pool",),
            "AiterMLAMetadataBuilder.allocate_kv_cache_tensors",
        ),
    )
}
