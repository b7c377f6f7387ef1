"""The served model: a Llama whose attention goes through the miniature indexer.

Contract: sequences live in the slots 0 to n - 1 of one store, each with its length; a step takes one token a
sequence and gives the next one, greedy. Keys are written to the store and to the index once, when they are
made. The failure to fear is a sequence that attends to what an earlier one left in its slot, so what lies
at or beyond a sequence's length is never visible.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from harness.legs.demo.index import Index
from harness.legs.demo.llama import Llama

ROWS = 512
"""Rows of a prompt that are attended for at a time."""


class Store:
    """Keys, values and index keys of all layers, float32 [slots, heads, length, D] each."""

    def __init__(self, index: Index, layers: int, heads: int, size: int, slots: int, length: int) -> None:
        self._index = index
        shape = layers, slots, heads, length, size
        self._planes = [torch.zeros(shape) for _ in range(3)]
        self.lengths = [0] * slots
        self.first = 0
        """Slot of the first sequence of the batch that is computed just now."""

    def move(self, source: int, target: int) -> None:
        """Sequence ``source`` into slot ``target``."""
        for plane in self._planes:
            plane[:, target].copy_(plane[:, source])
        self.lengths[target] = self.lengths[source]

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Attention of new rows, which are written first: query [B, Hq, T, D], key and value [B, H, T, D] to
        [B, T, Hq * D].

        T is 1, or B is 1 and all rows are new.
        """
        batch, groups, rows = key.shape[:3]
        slots = slice(self.first, self.first + batch)
        starts = torch.tensor(self.lengths[slots])
        for plane, new in zip(self._planes, (key, value, self._index.keys(key)), strict=True):
            if rows == 1:
                plane[layer, torch.arange(slots.start, slots.stop), :, starts] = new[:, :, 0]
            else:
                plane[layer, slots, :, :rows] = new
        asked = query.unflatten(1, (groups, -1))  # [B, H, heads of a key head, T, D]
        marked = self._index.queries(asked)
        parts = []
        for begin in range(0, rows, ROWS):
            some = slice(begin, min(begin + ROWS, rows))
            last = (starts.unsqueeze(1) + torch.arange(rows)[some])[:, None, :, None]
            width = int(last.max()) + 1
            keys, values, marks = (plane[layer, slots, :, :width] for plane in self._planes)
            seen = self._index.selected(marked[:, :, :, some], marks, torch.arange(width) <= last)
            parts.append(attention(asked[:, :, :, some], keys, values, seen))
        return torch.cat(parts, 3).flatten(1, 2).transpose(1, 2).flatten(2)


def attention(query: Tensor, keys: Tensor, values: Tensor, seen: Tensor) -> Tensor:
    """[B, G, H, T, D] of ``query`` [B, G, H, T, D] over ``keys`` and ``values`` [B, G, W, D], of which each
    row attends to ``seen`` bool [B, G or 1, T, W].

    Key heads are a batch of their own, so that neither keys nor mask are repeated for their query heads.
    """
    batch, groups, heads, rows = query.shape[:4]
    width = keys.shape[2]
    wide = batch * groups, heads, width, -1
    mask = seen.expand(batch, groups, rows, width).flatten(0, 1).unsqueeze(1)
    if rows == 1:  # the heads are the rows, over keys that are read once
        query, wide = query.transpose(2, 3), (batch * groups, 1, width, -1)
    found = scaled_dot_product_attention(
        query.flatten(0, 1),
        keys.flatten(0, 1).unsqueeze(1).expand(wide),
        values.flatten(0, 1).unsqueeze(1).expand(wide),
        attn_mask=mask.expand(-1, -1, query.shape[3], -1),
    )
    return found.reshape(batch, groups, heads, rows, -1)


class Served:
    """A model that generates for up to ``slots`` sequences of up to ``length`` tokens."""

    def __init__(self, folder: Path, index: Index, slots: int, length: int) -> None:
        self._model = Llama(folder)
        shape = self._model.shape
        self._store = Store(index, shape.layers, shape.groups, shape.size, slots, length)
        self.slots, self.length, self.end = slots, length, shape.end

    def begin(self, slot: int, tokens: list[int]) -> int:
        """A new sequence into ``slot``, the first free one; its first token."""
        self._store.lengths[slot] = 0
        return self._next(slot, [tokens])[0]

    def step(self, tokens: list[int]) -> list[int]:
        """One token to each sequence of the slots from 0 on; their next tokens."""
        return self._next(0, [[one] for one in tokens])

    def end_sequence(self, slot: int, last: int) -> None:
        """Forget the sequence of ``slot``; that of slot ``last``, the last in use, takes its place."""
        if slot != last:
            self._store.move(last, slot)

    @torch.inference_mode()
    def _next(self, first: int, tokens: list[list[int]]) -> list[int]:
        store, rows = self._store, len(tokens[0])
        store.first = first
        starts = torch.tensor(store.lengths[first : first + len(tokens)]).unsqueeze(1)
        logits = self._model.logits(torch.tensor(tokens), starts + torch.arange(rows), store.attend)
        for slot in range(first, first + len(tokens)):
            store.lengths[slot] += rows
        return [int(one) for one in logits.argmax(-1)]
