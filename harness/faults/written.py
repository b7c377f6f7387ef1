"""A writer with any one of its rules wrong: what the faults of the quantise and write stages answer with.

Contract: with every rule as it stands the answers are those of the oracle path, byte for byte (a test holds
them together); a fault changes one field of `How`. Rows are stored in order, so that where two take one slot
the later one stays. It fails silently when a rule is left out of one of the three writers: the fault is then
planted in fewer places than it says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harness.faults.fault import Answer, Plant
from harness.paths.base import Outcome
from harness.paths.requests.writing import Quantise, WriteKeys, WriteTokens
from oracles import formats, layout, prepare
from oracles.formats import PRODUCTION, QuantRule


def same(value: Any) -> Any:
    return value


def own_slots(slots: Tensor, pool: int) -> Tensor:
    return slots


def own_weights(request: WriteTokens) -> Tensor:
    return request.weights


def normalised(request: WriteTokens, k: Tensor) -> Tensor:
    """LayerNorm of keys bfloat16 [R, D] as it must be."""
    return prepare.layer_norm(k, request.norm_weight, request.norm_bias, eps=request.epsilon)


def with_slot(slots: Tensor, every: bool) -> Tensor:
    """bool [T]: rows whose queries are written."""
    return (slots >= 0) | every


def clamped(positions: Tensor, table: int) -> Tensor:
    return positions.clamp(0, table - 1)


def in_groups(plane: Tensor, block: int, row: int, packed: Tensor) -> None:
    """Put the packed codes uint8 [K, 4, 16] of one key into row ``row`` of a page of ``plane``."""
    plane[block, :, :, row] = packed


@dataclass(frozen=True)
class How:
    """Every rule of the writers.

    ``rule`` for keys, ``query_rule`` for queries (None: the same); ``order`` of nibbles; ``stored`` puts a
    key's codes into a page; ``bend`` is the place of a page row in the scale plane; ``slots`` those really
    written, given all and the size of the pool; ``turned`` comes after the rotation of queries; ``rows``
    (slots, compute_all_q_rope) are those whose queries are written, ``spared`` the outputs that rows without
    a slot are left without; ``place`` is the row of the tables that a position takes where all rows are
    computed; ``refuses`` more rows than slots.
    """

    rule: QuantRule = PRODUCTION
    query_rule: QuantRule | None = None
    order: str = "low-first"
    stored: Callable[[Tensor, int, int, Tensor], None] = in_groups
    bend: Callable[[int], int] = layout.bent_row
    slots: Callable[[Tensor, int], Tensor] = own_slots
    pairing: Callable[[str], str] = same
    turned: Callable[[Tensor], Tensor] = same
    normal: Callable[[WriteTokens, Tensor], Tensor] = normalised
    weights: Callable[[WriteTokens], Tensor] = own_weights
    rows: Callable[[Tensor, bool], Tensor] = with_slot
    spared: tuple[str, ...] = ()
    place: Callable[[Tensor, int], Tensor] = clamped
    refuses: bool = True

    def quantise(self, request: Quantise, right: Answer) -> Outcome:
        codes, scales = formats.quantise(request.x, self.rule)
        return Outcome((layout.pack_nibbles(codes, order=self.order), scales))

    def write_keys(self, request: WriteKeys, right: Answer) -> Outcome:
        self._scatter(request.k, request.slots, request.k_codes, request.k_scales)
        return Outcome((request.k_codes, request.k_scales))

    def write_tokens(self, request: WriteTokens, right: Answer) -> Outcome:
        """In the request's buffers. Raises ValueError for more rows than slots, with nothing written."""
        rows, slots = len(request.q), request.slots
        if len(slots) != rows and self.refuses:
            raise ValueError(f"slots has {len(slots)} entries, allowed is one for each of {rows} rows")
        # What lies behind the slots is taken for more of them, and what their positions are nobody knows.
        slots = torch.cat((slots, torch.arange(rows - len(slots))))
        mine = self.rows(slots, request.compute_all_q_rope)
        self._queries(request, mine, slots)
        written = self.slots(slots, pool_of(request)) >= 0
        place = self._places(request, slots)[written]
        normal = self.normal(request, request.k[written])
        keys = prepare.rope(normal, request.cos, request.sin, place, pairing=self.pairing(request.pairing))
        self._scatter(keys, slots[written], request.k_codes, request.k_scales)
        return Outcome(request.outputs)

    def _queries(self, request: WriteTokens, mine: Tensor, slots: Tensor) -> None:
        place = self._places(request, slots)[mine]
        pairing = self.pairing(request.pairing)
        q = self.turned(prepare.rope(request.q[mine], request.cos, request.sin, place, pairing=pairing))
        codes, scales = formats.quantise(prepare.without_nans(q), self.query_rule or self.rule)
        made = {
            "q_codes": layout.pack_nibbles(codes, order=self.order),
            "q_scales": layout.write_query_scales(scales),
            "weights_out": self.weights(request)[mine].bfloat16(),
        }
        number = mine.nonzero().flatten()
        for name, value in made.items():
            some = slots[mine] >= 0 if name in self.spared else torch.ones_like(number, dtype=torch.bool)
            getattr(request, name)[number[some]] = value[some]

    def _places(self, request: WriteTokens, slots: Tensor) -> Tensor:
        """Rows of the tables; those of rows that were given no slot are what `place` makes of nonsense."""
        table, held = len(request.cos), slots >= 0
        held[len(request.slots) :] = False
        return torch.where(held, request.positions, self.place(request.positions, table))

    def _scatter(self, k: Tensor, slots: Tensor, k_codes: Tensor, k_scales: Tensor) -> None:
        """Quantise keys bfloat16 [R, D] and put them in ``slots``, row by row."""
        codes, scales = formats.quantise(prepare.without_nans(k), self.rule)
        packed = layout.pack_nibbles(codes, order=self.order).unflatten(1, (-1, 4, 16))
        bytes_, pages = scales.unflatten(1, (-1, 4)), k_codes.shape[3]
        for row, slot in enumerate(self.slots(slots, len(k_codes) * pages).tolist()):
            if slot >= 0:
                self.stored(k_codes, slot // pages, slot % pages, packed[row])
                k_scales[slot // pages, :, :, self.bend(slot % pages)] = bytes_[row]

    @property
    def plant(self) -> Plant:
        """Planted in the quantiser, the key writer and the fused writer."""
        return lambda: {Quantise: self.quantise, WriteKeys: self.write_keys, WriteTokens: self.write_tokens}

    @property
    def in_writers(self) -> Plant:
        """Planted in what writes pages."""
        return lambda: {WriteKeys: self.write_keys, WriteTokens: self.write_tokens}

    @property
    def in_fused(self) -> Plant:
        """Planted in the fused writer alone."""
        return lambda: {WriteTokens: self.write_tokens}


def pool_of(request: WriteTokens) -> int:
    """Slots of the pool."""
    return request.k_codes.shape[0] * request.k_codes.shape[3]
