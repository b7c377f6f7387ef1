"""Which source files are mutated, and which suites ask what they do.

A file that no suite of its target imports would survive every fault, which is why an unchanged run of each
target's cases has to be green, and why a target without a single kill is suspect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class SourceTarget:
    """``file`` of ``tree`` (``project``, ``aiter``), judged by ``suites`` on ``path``.

    ``functions``: only in these definitions; empty: in the whole file.
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
    )
}
