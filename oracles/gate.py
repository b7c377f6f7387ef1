"""When FP4 is taken, when FP8 is fallen back to with one warning, and what must raise (spec indexer.md 8).

Contract: the verdict follows from the shape of the indexer and the chip, never from a model's name, and
is the same for whoever asks. It fails silently when a shape that the kernels cannot do is taken,
or when something that the user asked for is dropped without a word. There is a rule a model family:
DeepSeek-V4's indexer has one shape, so its rule looks at the chip only; what it says of chips other than
gfx950 and gfx942 has changed (gfx950 only until ATOM #1971, all but gfx942 since), so that is open.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

FP4 = "fp4"
PAGE = 64
"""The only page size the scorers accept."""


@dataclass(frozen=True)
class Rule:
    """What is looked at. ``chips``: those it may be; ``never``: those it may not be if others are open.

    ``head_dim``: the only one, ``heads``: what their number must be a multiple of, ``topk``: index_topk
    must be set, ``unpooled``: index_kpool must be unset or 1; None and False: not looked at.
    """

    name: str
    topk: bool = False
    head_dim: int | None = None
    heads: int | None = None
    unpooled: bool = False
    chips: tuple[str, ...] = ("gfx950",)
    never: tuple[str, ...] | None = None
    probes_for_others: bool = False


DSA = Rule("dsa", topk=True, head_dim=128, heads=16, unpooled=True)
"""Sparse indexers of the DeepSeek-V3.2 kind."""
V4 = Rule("v4", never=("gfx942",))
"""DeepSeek-V4."""
RULES = {rule.name: rule for rule in (DSA, V4)}

REFUSALS = {"dsa": ("nowriter", "prefillcp", "ubatch", "transfer", "page", "split"), "v4": ("transfer",)}
"""Rule to what raises although FP4 could be taken; ``split``: two places that decided differently."""

NAMES = {
    "topk": ("index_topk", "sparse indexer"),
    "head_dim": ("head_dim", "head dim"),
    "heads": ("n_heads", "heads"),
    "kpool": ("kpool", "pool"),
    "nowriter": ("writer", "fused"),
    "prefillcp": ("pcp", "prefill context parallel"),
    "ubatch": ("micro-batch", "microbatch", "ubatch"),
    "transfer": ("transfer",),
    "page": ("block-size", "block size", "page size", "-row blocks"),
    "split": ("verdict", "diverge", "disagree"),
}
"""What blocks to the words one of which a warning or refusal must hold to have named it."""


@dataclass(frozen=True)
class Shape:
    """An indexer, as its model's configuration describes it; None: not set."""

    topk: int | None
    head_dim: int | None
    heads: int | None
    kpool: int | None


@dataclass(frozen=True)
class Decision:
    """``taken`` (None: open); ``blockers`` in the way (``chip`` goes by its own name); ``warnings`` due.

    ``probes``: how often the chip may be looked up, None: as often as one likes.
    """

    taken: bool | None
    blockers: tuple[str, ...]
    warnings: int
    probes: int | None


def decide(rule: Rule, asked: str | None, shape: Shape, chip: str) -> Decision:
    """The verdict when ``asked`` (``fp4``, ``fp8`` ... or None) is asked for on ``chip``."""
    if asked != FP4:
        return Decision(False, (), 0, None if rule.probes_for_others else 0)
    found = blockers(rule, shape, chip)
    if found == ("chip",) and rule.never is not None and chip not in rule.never:
        return Decision(None, found, 0, None)
    return Decision(not found, found, int(bool(found)), None)


def blockers(rule: Rule, shape: Shape, chip: str) -> tuple[str, ...]:
    """All that is in the way of FP4: ``topk``, ``head_dim``, ``heads``, ``kpool``, ``chip``."""
    found = {
        "topk": rule.topk and not shape.topk,
        "head_dim": rule.head_dim is not None and shape.head_dim != rule.head_dim,
        "heads": rule.heads is not None and (not shape.heads or shape.heads % rule.heads != 0),
        "kpool": rule.unpooled and shape.kpool not in (None, 0, 1),
        "chip": chip not in rule.chips,
    }
    return tuple(name for name, there in found.items() if there)


def settled(decision: Decision, taken: bool) -> Decision:
    """An open ``decision`` once somebody has made it: the rest of it follows."""
    if decision.taken is not None:
        return decision
    return replace(
        decision, taken=taken, blockers=() if taken else decision.blockers, warnings=int(not taken)
    )


def named(text: str, found: tuple[str, ...], chip: str = "") -> bool:
    """Whether ``text`` names one of the blockers ``found``, in whatever case."""
    words = {word for blocker in found for word in ((chip,) if blocker == "chip" else NAMES[blocker])}
    return any(word.lower() in text.lower() for word in words if word)
