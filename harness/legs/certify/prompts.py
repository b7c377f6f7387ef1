"""Is every prompt longer than index_topk? At or below it all keys are selected, and no indexer matters.

Contract: a prompt whose tokens nobody counted is never taken as long enough. Where samples disagree about a
prompt the smallest count is used, and the disagreement is told. A decode step j of a reply (from 0: the
prefill's last row) has a context of prompt tokens + j, so a short prompt can grow past index_topk; the share
of such steps is told beside the verdict and does not change it.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from harness.legs.certify.certificate import Point, Verdict
from harness.legs.certify.measured import Leg, several

NAME = "prompts"


def point(leg: Leg, counted: Mapping[int, int] | None = None) -> Point:
    """The point of ``leg``; ``counted``: question to tokens where the server told none."""
    found = figures(leg, counted or {})
    verdict, said = _judged(leg.asked.index_topk, found)
    return Point(NAME, verdict, said + _disagreement(found), figures=found)


def figures(leg: Leg, counted: Mapping[int, int]) -> dict[str, Any]:
    """Prompts by their tokens; min, p50 and max are None where no prompt has a count."""
    told: dict[int, set[int]] = {int(one["question"]): set() for one in leg.records}
    for one in leg.records:
        if one["prompt_tokens"] is not None:
            told[int(one["question"])].add(int(one["prompt_tokens"]))
    tokens = {**counted, **{question: min(seen) for question, seen in told.items() if seen}}
    lengths = sorted(tokens.values())
    steps, above = decode_steps(leg, tokens)
    return {
        "index_topk": leg.asked.index_topk,
        "prompts": len(told),
        "counted": len(tokens),
        "by_tokenizer": sum(not told[question] for question in tokens),
        "min": lengths[0] if lengths else None,
        "p50": statistics.median(lengths) if lengths else None,
        "max": lengths[-1] if lengths else None,
        "short": sum(length <= leg.asked.index_topk for length in lengths),
        "decode_steps": steps,
        "decode_steps_above": above,
        "disagreeing": sum(len(seen) > 1 for seen in told.values()),
    }


def decode_steps(leg: Leg, tokens: Mapping[int, int]) -> tuple[int, int]:
    """(steps, those at a context above index_topk) of all replies whose tokens are known."""
    steps, above = 0, 0
    for one in leg.records:
        prompt, made = one["prompt_tokens"], one["completion_tokens"]
        prompt = tokens.get(int(one["question"])) if prompt is None else prompt
        if prompt is None or made is None:
            continue
        steps += made
        above += max(0, min(made, prompt + made - 1 - leg.asked.index_topk))
    return steps, above


def _judged(topk: int, found: Mapping[str, Any]) -> tuple[Verdict, str]:
    prompts, short = found["prompts"], found["short"]
    if topk == 0:
        return Verdict.NOT_ASKED, f"index_topk is 0: no sparse indexer{_lengths(found)}"
    if short:
        said = f"does not exercise the sparse indexer: {short} of {prompts} prompts are at most {topk} tokens"
        return Verdict.FAILS, said + _lengths(found) + _share(found)
    if not prompts:
        return Verdict.UNKNOWN, "no prompt was asked"
    lacking = prompts - found["counted"]
    if lacking:
        return Verdict.UNKNOWN, f"{lacking} of {prompts} prompts have no token count{_lengths(found)}"
    said = f"{prompts} of {prompts} prompts are longer than {topk} tokens"
    return Verdict.HOLDS, said + _lengths(found) + _share(found)


def _lengths(found: Mapping[str, Any]) -> str:
    if found["min"] is None:
        return ""
    own = found["by_tokenizer"]
    who = f", {own} of {found['counted']} by the tokenizer" if own else ""
    return f" (min {found['min']}, p50 {found['p50']:g}, max {found['max']}{who})"


def _share(found: Mapping[str, Any]) -> str:
    steps, above = found["decode_steps"], found["decode_steps_above"]
    if not steps:
        return "; decode steps were not counted"
    return f"; {100 * above / steps:.2f} % of {steps} decode steps are above it"


def _disagreement(found: Mapping[str, Any]) -> str:
    many = found["disagreeing"]
    return f"; token counts of {several(many, 'prompt')} disagree between samples" if many else ""
