"""What is asked of the gate: is FP4 taken, and does what cannot be served raise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Predicate:
    """Whether the indexer scores in FP4: asked once by the builder, then by each of ``layers`` indexers.

    ``rule``: ``dsa`` or ``v4``. ``asked``: index cache dtype, or None. ``config``: attributes of the model's
    configuration (``index_topk``, ``index_head_dim``, ``index_n_heads``, ``index_kpool``), one that is
    missing here is missing there. ``chip``: what a look-up of the chip gives. The value is `Gated`.
    """

    written: ClassVar[tuple[str, ...]] = ()

    rule: str
    asked: str | None
    config: Mapping[str, int | None]
    chip: str
    layers: int


@dataclass(frozen=True)
class Gated:
    """Verdicts, the builder's first; texts of the warnings given; how often the chip was looked up."""

    taken: tuple[object, ...]
    warnings: tuple[str, ...]
    probes: int


@dataclass(frozen=True)
class Refusal:
    """FP4 is asked for where it could be taken, and ``by`` stands in the way if ``blocked``.

    ``by``: ``nowriter``, ``prefillcp``, ``ubatch``, ``transfer``, ``page``, ``split`` (the builder and an
    indexer have decided differently, and its cache is about to be bound). ``page``: indexer rows a page.
    The value is the message it was refused with, or None if it was not.
    """

    written: ClassVar[tuple[str, ...]] = ()

    rule: str
    by: str
    blocked: bool
    page: int
