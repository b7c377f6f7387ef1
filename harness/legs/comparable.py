"""Whether two legs answer the same question: same prompts, same settings; any difference is named.

A difference in shots, seed, stops or prompts changes scores by more than an indexer does, and the table
that shows it looks like any other. What is not known of one of the two is no difference and no agreement.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from harness.legs.journal import Place
from harness.legs.shown import short

FREE = ("model_args", "server", "environment", "indexer")
"""Entries of an identity that may differ between legs: they are what is compared."""

OWN = ("model_args",)
"""Entries that may differ between samples of one leg: its address (the model's name is compared)."""

PROMPTS = "the prompts differ (their hashes do)"

NEEDED = ("fewshot_seed", "lm_eval", "model_args", "prompts", "shots", "stops", "task")
"""Entries that are not known where an identity lacks them, also where both do."""

NONE = ("chat_template", "gen_kwargs", "indexer", "limit")
"""Entries of which null says that there is none: no template, no further settings, no limit."""

WORDS = {"model_args": "model"}
"""What an entry is called where its name is not what is compared."""

Found = tuple[list[str], list[str]]
"""(a sentence for each difference, names of entries that are not known), each once."""


def differences(base: Iterable[Place], other: Iterable[Place], free: Collection[str] = FREE) -> Found:
    """In what a sample of ``other`` is not like one of ``base``, and what of them nobody knows.

    Entries in ``free`` are not looked at.
    """
    said: dict[str, None] = {}
    unknown: dict[str, None] = {}
    others = [_entries(place, free) for place in other]
    for mine in (_entries(place, free) for place in base):
        for theirs in others:
            for name in sorted({*mine, *theirs}):
                if not (_known(mine, name) and _known(theirs, name)):
                    unknown[WORDS.get(name, name)] = None
                elif mine[name] != theirs[name]:
                    told = f"{WORDS.get(name, name)} {theirs[name]!r} against {mine[name]!r}"
                    said[PROMPTS if name == "prompts" else told] = None
    return list(said), list(unknown)


def unknown(where: Place) -> list[str]:
    """The names in `NEEDED` of what is not known of one sample."""
    entries = _entries(where, ())
    return [WORDS.get(name, name) for name in NEEDED if not _known(entries, name)]


def versions(base: Iterable[Place], other: Iterable[Place]) -> str:
    """What must be said of the servers' versions, which may differ; empty where all are known and one."""
    mine, theirs = ({_version(place) for place in places} for places in (base, other))
    if None in mine | theirs:
        return "whether the servers are of one version is not known"
    if mine != theirs or len(mine) > 1:
        here, there = (" and ".join(sorted(map(short, found))) for found in (theirs, mine))
        return f"the servers' versions differ ({here} against {there})"
    return ""


def _version(where: Place) -> str | None:
    """What the server's version command printed; None where it has none, or nobody kept it."""
    server = where.manifest()["identity"].get("server")
    found = server.get("version") if isinstance(server, dict) else None
    return None if found is None else str(found)


def _entries(where: Place, free: Collection[str]) -> dict[str, Any]:
    """What is compared of a sample: its identity without what is ``free``, the model's name in any case."""
    identity = where.manifest()["identity"]
    found = dict.fromkeys(NEEDED) | {name: value for name, value in identity.items() if name not in free}
    return found | {"model_args": _model(identity.get("model_args"))}


def _known(entries: Mapping[str, Any], name: str) -> bool:
    return name in entries and (entries[name] is not None or name in NONE)


def _model(arguments: Any) -> Any:
    """The model's name in what lm-eval calls ``model_args``; None where it is not told."""
    if isinstance(arguments, str):
        arguments = dict(part.partition("=")[::2] for part in arguments.split(","))
    return (arguments.get("model") or arguments.get("pretrained")) if isinstance(arguments, dict) else None
