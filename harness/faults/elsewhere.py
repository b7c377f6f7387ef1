"""What has gone wrong on paths like this one and can be planted in none: it is about legs and their figures.

Contract: each entry says why no request of a path can have the fault and what of this harness shows it
instead; a test holds the list, together with where the faults of the catalogue were seen, against the list
of all field reports, so that none is forgotten. ``shown`` names modules that must be there.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Elsewhere:
    """Field report ``report``: ``what`` went wrong, ``why`` no path has it, where it is ``shown``."""

    report: str
    what: str
    why: str
    shown: tuple[str, ...]


EVALUATION = "it is about how a server is asked and its replies are scored; the path's bytes are right"
STATISTICS = "it is about what accuracies can carry; the path's bytes are right"

ALL: tuple[Elsewhere, ...] = (
    Elsewhere(
        "B49",
        "the draft layer takes over the target's selection though it has an indexer of its own",
        "which layer's scores a selection is made from is decided by the model; a path is given the scores",
        ("harness.legs.logs",),
    ),
    Elsewhere(
        "B53",
        "prompts are cut from the left and answers at the end, and count all the same",
        EVALUATION,
        ("harness.legs.certify.answers", "harness.legs.certify.prompts"),
    ),
    Elsewhere(
        "B55",
        "a stop string fires inside the model's reasoning",
        EVALUATION,
        ("harness.legs.certify.answers", "harness.legs.certify.settings"),
    ),
    Elsewhere(
        "B56",
        "two ways of extracting an answer, one of them brittle",
        EVALUATION,
        ("harness.legs.pool.answers", "harness.legs.certify.settings"),
    ),
    Elsewhere(
        "B57",
        "endpoint, template or first token change the prompt between the arms",
        EVALUATION,
        ("harness.legs.certify.settings", "harness.legs.comparable"),
    ),
    Elsewhere(
        "B58",
        "arms with other shots or another few-shot seed are compared",
        EVALUATION,
        ("harness.legs.certify.settings", "harness.legs.comparable"),
    ),
    Elsewhere(
        "B59",
        "prompts no longer than index_topk select every key, and no indexer matters",
        "a path that selects everything is right",
        ("harness.legs.certify.prompts",),
    ),
    Elsewhere(
        "B60",
        "accuracy falls for reasons outside the indexer",
        "the indexer's bytes are right; legs compared with a base leg tell who is to blame",
        ("harness.legs.pooling", "harness.legs.certify.settings"),
    ),
    Elsewhere(
        "B62",
        "a limit lies inside the noise of its own leg",
        STATISTICS,
        ("harness.legs.pool.pooled", "harness.legs.claims.audit"),
    ),
    Elsewhere(
        "B63",
        "temperature 0 is not repeatable, and a difference within the noise is called one",
        STATISTICS,
        ("harness.legs.certify.repeats", "harness.legs.pool.answers"),
    ),
)
