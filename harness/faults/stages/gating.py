"""Faults of the gate: what is taken that no kernel can do, what is refused by nobody, who is not told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from harness.faults.fault import Answer, Fault, Wrong
from harness.faults.plants import always, asking, telling
from harness.paths.base import Outcome
from harness.paths.requests.gating import Gated, Predicate, Refusal
from oracles import gate

PREDICATE = "ATOM atom/model_ops/sparse_indexer_fp4.py: sparse_indexer_fp4_enabled"
ASSERTED = "ATOM atom/model_ops/sparse_indexer_fp4.py: assert_fp4_indexer_supported"
PAGES = "ATOM atom/model_ops/sparse_indexer_fp4.py: fp4_index_block_shapes"
CHIP = gate.DSA.chips[0]

RIGHT = {"index_topk": 2048, "index_head_dim": 128, "index_n_heads": 64, "index_kpool": None}
"""A configuration that FP4 is taken for."""


def unseen(name: str) -> Callable[[Predicate], Predicate]:
    """Attribute ``name`` of a sparse indexer is what it may be, whatever it is."""

    def changed(request: Predicate) -> Predicate:
        if request.rule != gate.DSA.name:
            return request
        return replace(request, config={**request.config, name: RIGHT[name]})

    return changed


def any_chip(request: Predicate) -> Predicate:
    return replace(request, chip=CHIP)


def probing(request: Predicate, value: Gated) -> Gated:
    """The chip is looked up before anything else, by all who ask."""
    return replace(value, probes=1 + request.layers)


def silent(request: Predicate, value: Gated) -> Gated:
    return replace(value, warnings=())


def all_warn(request: Predicate, value: Gated) -> Gated:
    return replace(value, warnings=value.warnings * (1 + request.layers))


def split_verdicts(request: Predicate, right: Answer) -> Outcome:
    """The indexers look at the dtype and the chip alone, the builder at everything."""
    outcome = right(request)
    builder, others = outcome.value, right(replace(request, config=RIGHT)).value
    return replace(outcome, value=replace(builder, taken=(builder.taken[0], *others.taken[1:])))


def falls_back(*blockers: str) -> Wrong:
    """Nothing is raised for ``blockers`` (none named: for any)."""

    def answer(request: Refusal, right: Answer) -> Outcome:
        outcome = right(request)
        blocked = request.blocked and (not blockers or request.by in blockers)
        return replace(outcome, value=None) if blocked else outcome

    return answer


def whole_pages(request: Refusal, right: Answer) -> Outcome:
    """Pages that are a multiple of the only page size pass for it."""
    outcome = right(request)
    fits = request.by == "page" and request.page % gate.PAGE == 0
    return replace(outcome, value=None) if fits else outcome


def unnamed(request: Refusal, value: str | None) -> str | None:
    return value and "FP4 cannot be served here"


def asked(**changed: int | str) -> str:
    """The id of a case of the sparse indexer's predicate with one thing changed."""
    fields = {"ask": "fp4", "k": 2048, "d": 128, "h": 64, "kpool": 0, "chip": CHIP, **changed}
    return "gate-ruledsa-" + "-".join(f"{name}{value}" for name, value in fields.items())


def one(name: str, wrong: str, seen: str, weak: str, case: str, source: str, how: dict[type, Wrong]) -> Fault:
    return Fault(name, "gate", wrong, seen, weak, case, source, always(how))


CATALOGUE = "fault catalogue"
SUPPORTED = "supported models"
B48 = "sglang #19016, ROCm/ATOM #2216, #1984 (B48)"

FAULTS: tuple[Fault, ...] = (
    one(
        "kpool-accepted",
        "FP4 is taken for an indexer whose keys are pooled",
        CATALOGUE,
        SUPPORTED,
        asked(kpool=2),
        PREDICATE,
        {Predicate: asking(unseen("index_kpool"))},
    ),
    one(
        "headdim-accepted",
        "FP4 is taken for an indexer whose head dim is not 128",
        CATALOGUE,
        SUPPORTED,
        asked(d=64),
        PREDICATE,
        {Predicate: asking(unseen("index_head_dim"))},
    ),
    one(
        "heads-accepted",
        "FP4 is taken for an indexer whose heads are no multiple of 16",
        CATALOGUE,
        SUPPORTED,
        asked(h=24),
        PREDICATE,
        {Predicate: asking(unseen("index_n_heads"))},
    ),
    one(
        "topk-unset-accepted",
        "FP4 is taken for a model without a sparse indexer",
        "neighbour of kpool-accepted",
        SUPPORTED,
        asked(k=0),
        PREDICATE,
        {Predicate: asking(unseen("index_topk"))},
    ),
    one(
        "chip-accepted",
        "FP4 is taken on a chip that has no kernel for it",
        B48,
        "runs on gfx950",
        asked(chip="gfx942"),
        PREDICATE,
        {Predicate: asking(any_chip)},
    ),
    one(
        "chip-probed-for-fp8",
        "the chip is looked up though FP8 was asked for",
        CATALOGUE,
        "machines with a chip to look up",
        asked(ask="fp8"),
        PREDICATE,
        {Predicate: telling(probing)},
    ),
    one(
        "fallback-silent",
        "FP8 is fallen back to without a warning",
        "neighbour of refusal-silent",
        "nobody looks",
        asked(d=64),
        PREDICATE,
        {Predicate: telling(silent)},
    ),
    one(
        "fallback-told-by-all",
        "each indexer warns of the fallback, not the builder alone",
        "neighbour of refusal-silent",
        "that there is a warning",
        asked(d=64),
        PREDICATE,
        {Predicate: telling(all_warn)},
    ),
    one(
        "verdicts-split",
        "builder and indexers decide by rules of their own, and a cache of one kind meets the other scorer",
        B48,
        "the builder's verdict; supported models",
        asked(d=64),
        f"{PREDICATE}, asked in two places",
        {Predicate: split_verdicts},
    ),
    one(
        "verdict-overwritten",
        "a later stage that decides differently overwrites the first verdict and does not compare",
        B48,
        "stages that agree",
        "gate-ruledsa-bysplit",
        "ATOM atom/model_ops/attentions/aiter_mla.py: build_kv_cache_tensor",
        {Refusal: falls_back("split")},
    ),
    one(
        "refusal-silent",
        "what FP4 cannot be served with falls back and does not raise",
        CATALOGUE,
        "nobody looks",
        "gate-ruledsa-bynowriter",
        ASSERTED,
        {Refusal: falls_back()},
    ),
    one(
        "refusal-unnamed",
        "the refusal does not say what blocks",
        "neighbour of refusal-silent",
        "that something raises",
        "gate-ruledsa-bynowriter",
        ASSERTED,
        {Refusal: telling(unnamed)},
    ),
    one(
        "page-multiple-accepted",
        "pages of any multiple of 64 rows are taken",
        "neighbour of refusal-silent; LMCache #5010",
        "pages of 64 and of fewer rows",
        "gate-ruledsa-bypage",
        PAGES,
        {Refusal: whole_pages},
    ),
)
