"""Whether two legs answer the same question: same prompts, same settings; any difference is named.

A difference in shots, seed, stops or prompts changes scores by more than an indexer does, and the table
that shows it looks like any other. What neither leg knows is no difference, and is told as unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from harness.legs.journal import Place

FREE = ("model_args", "server", "environment", "indexer")
"""Entries of an identity that may differ between legs: they are what is compared."""

PROMPTS = "the prompts differ (their hashes do)"

OWN = ("model_args",)
"""Entries that may differ between samples of one leg: its address (the model's name is compared)."""


def differences(base: Iterable[Place], other: Iterable[Place], free: Collection[str] = FREE) -> list[str]:
    """One sentence for each setting in which a sample of ``other`` is not like one of ``base``.

    Entries in ``free`` are not looked at.
    """
    said: dict[str, None] = {}
    for one in base:
        for two in other:
            for text in _between(one.manifest()["identity"], two.manifest()["identity"], free):
                said[text] = None
    return list(said)


def _between(one: Mapping[str, Any], two: Mapping[str, Any], free: Collection[str]) -> Iterable[str]:
    for name in sorted(set(one) | set(two)):
        mine, theirs = one.get(name), two.get(name)
        if name == "model_args" and isinstance(mine, dict) and isinstance(theirs, dict):
            name, mine, theirs = "model", mine.get("model"), theirs.get("model")
        if name in free or mine == theirs or None in (mine, theirs):
            continue
        if name == "prompts":
            yield PROMPTS
        else:
            yield f"{name} {theirs!r} against {mine!r}"
