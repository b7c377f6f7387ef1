"""The oracle's answers about the gate."""

from __future__ import annotations

from functools import partial

from harness.paths import base
from harness.paths.requests.gating import Gated, Predicate, Refusal
from oracles import gate
from oracles.gate import Rule


def answers(path: base.Path) -> base.Answers:
    return {Predicate: partial(predicate, gate.RULES), Refusal: refusal}


def predicate(rules: dict[str, Rule], request: Predicate) -> base.Outcome:
    """Everyone who asks gets one verdict; the builder warns."""
    config = request.config
    shape = gate.Shape(
        config.get("index_topk"),
        config.get("index_head_dim"),
        config.get("index_n_heads"),
        config.get("index_kpool"),
    )
    one = gate.settled(gate.decide(rules[request.rule], request.asked, shape, request.chip), taken=False)
    text = " ".join(request.chip if name == "chip" else gate.NAMES[name][0] for name in one.blockers)
    places = 1 + request.layers
    return base.Outcome(
        Gated((one.taken,) * places, (text,) * one.warnings, places if one.probes is None else one.probes)
    )


def refusal(request: Refusal) -> base.Outcome:
    return base.Outcome(gate.NAMES[request.by][0] if request.blocked else None)
