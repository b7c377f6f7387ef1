"""Faults of the FP8 default, which must come out unchanged: one bit of a page, and rules by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from harness.faults.fault import Answer, Fault, Plant
from harness.paths.base import Outcome
from harness.paths.oracle.eightbit import Rules, by
from harness.paths.requests.eightbit import (
    FlatScores8,
    GatherKeys8,
    PagedScores8,
    QuantiseQueries8,
    WriteKeys8,
    WriteTokens8,
)
from oracles import eightbit, eightbit_score
from oracles.formats import decode
from oracles.windows import Windows

FN = "fp8-n1-h16-d128-ctx20-fmtfn-ue1-tileflat-tshuffled-fbytes-s1"
FNUZ = FN.replace("fmtfn", "fmtfnuz")
TILED = FN.replace("tileflat", "tiletiled")
NATURAL = "fp8-n1-h16-d128-ctx3-fmtfn-ue0-tileflat-tshuffled-fnatural-s1"
BOUNDARY = "fp8-n1-h16-d128-ctx4-fmtfn-ue0-tileflat-tshuffled-fboundary-s1"
TWO = "fp8-n1-h16-d128-ctx20x2-fmtfn-ue1-tileflat-tshuffled-fbytes-s1"
SOURCE = "aiter: ops/cache.py indexer_k_quant_and_cache; ops/triton: fp8_mqa_logits, pa_mqa_logits"


CONCERNS: Mapping[str, tuple[type, ...]] = {
    "query": (QuantiseQueries8, WriteTokens8),
    "key": (WriteKeys8, WriteTokens8),
    "ties": (QuantiseQueries8, WriteKeys8, WriteTokens8),
    "power": (QuantiseQueries8, WriteKeys8, WriteTokens8),
    "folded": (QuantiseQueries8, WriteTokens8),
    "slots": (WriteKeys8, WriteTokens8),
    "written": (WriteKeys8, WriteTokens8),
    "read": (GatherKeys8, PagedScores8),
    "tables": (GatherKeys8, PagedScores8),
    "fmt": (PagedScores8, FlatScores8),
    "rows": (PagedScores8, FlatScores8),
    "score": (PagedScores8, FlatScores8),
}
"""Rule of `Rules` to the requests that it concerns; all others are the path's own to answer."""


def ruled(**wrong: Any) -> Plant:
    """The oracle's answers by rules of which ``wrong`` (one field or method) is another."""
    ((name, value),) = wrong.items()
    made = type("Wrong", (Rules,), {name: staticmethod(value)})() if callable(value) else Rules(**wrong)

    def answering(method: Callable[[Any], Outcome]) -> Any:
        return lambda request, right: method(request)

    return lambda: {kind: answering(method) for kind, method in by(made).items() if kind in CONCERNS[name]}


def one_bit(request: WriteKeys8, right: Answer) -> Outcome:
    """The lowest bit of the last key's scale."""
    outcome = right(request)
    kept = request.slots[request.slots >= 0]
    if len(kept):
        slot = int(kept[-1])
        page = request.cache[slot // 64].flatten()
        page[64 * 128 + slot % 64 * 4] ^= 1
        request.cache[slot // 64] = page.view(request.cache.shape[1:])
    return outcome


def without_relu(operands: eightbit_score.Operands) -> Tensor:
    q, k = (decode(operands.fmt, codes).double() for codes in (operands.q_codes, operands.k_codes))
    total = (operands.weights.double().unsqueeze(-1) * (q @ k.T)).sum(1)
    return (total * operands.k_scales.double()).float()


def without_key_scale(operands: eightbit_score.Operands) -> Tensor:
    return eightbit_score.scores(replace(operands, k_scales=torch.ones_like(operands.k_scales))).value


def one_key_less(rows: Windows) -> Windows:
    return Windows(rows.seq, rows.start, torch.where(rows.end > rows.start, rows.end - 1, rows.end))


def fault(name: str, wrong: str, seen: str, weak: str, case: str, plant: Plant) -> Fault:
    return Fault(name, "fp8", wrong, seen, weak, case, SOURCE, plant)


FAULTS: tuple[Fault, ...] = (
    fault(
        "fp8-drift",
        "one bit of a key's scale in the page of the FP8 default changes",
        "fault catalogue",
        "accuracy runs: 1e-7 of one key",
        NATURAL,
        lambda: {WriteKeys8: one_bit},
    ),
    fault(
        "fp8-fnuz-as-fn",
        "codes of E4M3FNUZ are read as E4M3FN, each worth twice as much",
        "indexer numerics: E4M3FN on gfx950, E4M3FNUZ on gfx942",
        f"a chip of the other format ({FN}); cosine and order of the scores",
        FNUZ,
        ruled(fmt=lambda fmt: "fn"),
    ),
    fault(
        "fp8-tiled-read-flat",
        "a page that is tiled 16 x 16 is read row after row",
        "vllm #52109, #50455, sglang #31563 (B13)",
        f"flat pages ({FN})",
        TILED,
        ruled(read=lambda tile: "flat"),
    ),
    fault(
        "fp8-tiled-written-flat",
        "a page that is to be tiled 16 x 16 is written row after row",
        "vllm #52109, #50455, sglang #31563 (B13)",
        f"flat pages ({FN}); a reader that is flat as well",
        BOUNDARY.replace("tileflat", "tiletiled"),
        ruled(written=lambda tile: "flat"),
    ),
    fault(
        "fp8-plain-scale",
        "scales are not rounded up to powers of two although they must be",
        "ROCm/aiter #3451, vllm #43907 (B04)",
        f"scales of any value ({NATURAL})",
        BOUNDARY.replace("ue0", "ue1"),
        ruled(power=lambda ue: False),
    ),
    fault(
        "fp8-query-divides",
        "a query's maximum is divided by the format's top instead of multiplied by the rounded reciprocal",
        "ROCm/aiter #3451, vllm #43907 (B04)",
        "scales that are powers of two",
        BOUNDARY,
        ruled(query=replace(eightbit.QUERY, step="divide")),
    ),
    fault(
        "fp8-key-floor",
        "a key's maximum is raised to 1e-10 instead of 1e-4",
        "vllm #41015 (B03)",
        f"keys that are not quiet ({NATURAL})",
        BOUNDARY,
        ruled(key=replace(eightbit.KEY, floor=1e-10)),
    ),
    fault(
        "fp8-tie-away",
        "a value half way between two codes goes to the larger magnitude, not to the even code",
        "ROCm/aiter #3992 (B02)",
        "values off the midpoints",
        BOUNDARY,
        ruled(ties="away"),
    ),
    fault(
        "fp8-weights-unscaled",
        "the weight scale is left out when the query's scale is folded into the weights",
        "sglang #13459, vllm #43907 (B10)",
        "cosine and order of the scores",
        NATURAL,
        ruled(folded=lambda weights, scales, scale: eightbit.fold_weights(weights, scales, 1.0)),
    ),
    fault(
        "fp8-relu-missing",
        "the heads are added up without a ReLU",
        "1CatAI/1Cat-vLLM #250 (B28)",
        "positive dots",
        FN,
        ruled(score=without_relu),
    ),
    fault(
        "fp8-key-scale-dropped",
        "scores lack the key's scale",
        "vllm #41015 and neighbours",
        "keys of one scale",
        FN,
        ruled(score=without_key_scale),
    ),
    fault(
        "fp8-window-end-early",
        "every row sees one key too few",
        "fault catalogue: N-1-n applied wrongly",
        "comparison of selected keys where the last is not among them",
        FN,
        ruled(rows=one_key_less),
    ),
    fault(
        "fp8-slot-negative-write",
        "a slot of -1 wraps to the end of the pool",
        "fault catalogue",
        "full batches; caches with a spare page",
        NATURAL,
        ruled(slots=lambda slots: torch.where(slots < 0, slots.abs() - 1, slots)),
    ),
    fault(
        "fp8-own-pages-only",
        "all rows read the pages of the first sequence",
        "fault catalogue",
        f"one sequence ({FN})",
        TWO,
        ruled(tables=lambda tables: tables[:1].expand(tables.shape)),
    ),
)
