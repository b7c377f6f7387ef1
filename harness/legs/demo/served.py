"""The served model: a Llama from transformers, whose attention goes through the miniature indexer.

Contract: sequences live in the slots 0 to n - 1 of one store, each with its length; a step takes one token a
sequence and gives the next one, greedy. Keys are written to the store and to the index once, when they are
made. The failure to fear is a sequence that attends to what an earlier one left in its slot, so what lies
at or beyond a sequence's length is never visible.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from harness.legs.demo.index import Index

NAME = "harness-indexed"
ROWS = 512
"""Rows of a prompt that are attended for at a time."""


class Store:
    """Keys, values and index keys of all layers, float32 [slots, heads, length, D] each."""

    def __init__(self, index: Index, layers: int, heads: int, size: int, slots: int, length: int) -> None:
        self._index = index
        shape = layers, slots, heads, length, size
        self._keys, self._values, self._marks = (torch.zeros(shape) for _ in range(3))
        self.lengths = [0] * slots
        self.first = 0
        """Slot of the first sequence of the batch that is computed just now."""

    def move(self, source: int, target: int) -> None:
        """Sequence ``source`` into slot ``target``."""
        for plane in (self._keys, self._values, self._marks):
            plane[:, target].copy_(plane[:, source])
        self.lengths[target] = self.lengths[source]

    def attend(
        self, module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any
    ) -> tuple[Tensor, None]:
        """transformers' attention function: query [B, Hq, T, D], key and value [B, H, T, D]; [B, T, Hq, D].

        T is 1, or B is 1 and all rows are new.
        """
        layer, batch, rows = module.layer_idx, query.shape[0], query.shape[2]
        slots = slice(self.first, self.first + batch)
        starts = torch.tensor(self.lengths[slots])
        marks = self._index.keys(key.contiguous())
        for plane, new in ((self._keys, key), (self._values, value), (self._marks, marks)):
            if rows == 1:
                plane[layer, torch.arange(slots.start, slots.stop), :, starts] = new[:, :, 0]
            else:
                plane[layer, slots, :, :rows] = new
        width = int(starts.max()) + rows
        keys, values, marks = (
            plane[layer, slots, :, :width] for plane in (self._keys, self._values, self._marks)
        )
        asked = self._index.queries(query.contiguous()).unflatten(1, (key.shape[1], -1))
        parts = []
        for begin in range(0, rows, ROWS):
            some = slice(begin, min(begin + ROWS, rows))
            last = (starts.unsqueeze(1) + torch.arange(rows)[some])[:, None, :, None]
            width = int(last.max()) + 1
            seen = torch.arange(width) <= last
            seen = self._index.selected(asked[:, :, :, some], marks[:, :, :width], seen)
            allowed = seen if seen.shape[1] == 1 else seen.repeat_interleave(asked.shape[2], dim=1)
            parts.append(
                scaled_dot_product_attention(
                    query[:, :, some],
                    keys[:, :, :width],
                    values[:, :, :width],
                    attn_mask=allowed,
                    scale=options["scaling"],
                    enable_gqa=True,
                )
            )
        return torch.cat(parts, 2).transpose(1, 2), None


class Served:
    """A model that generates for up to ``slots`` sequences of up to ``length`` tokens."""

    def __init__(self, folder: Path, index: Index, slots: int, length: int) -> None:
        from transformers import AttentionInterface, LlamaForCausalLM

        self._model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        config = self._model.config
        self._store = Store(
            index, config.num_hidden_layers, config.num_key_value_heads, config.head_dim, slots, length
        )
        AttentionInterface.register(NAME, self._store.attend)
        self._model.set_attn_implementation(NAME)
        self.slots, self.length, self.end = slots, length, int(config.eos_token_id)

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
        found = self._model(
            input_ids=torch.tensor(tokens),
            position_ids=starts + torch.arange(rows),
            use_cache=False,
            logits_to_keep=1,
        )
        for slot in range(first, first + len(tokens)):
            store.lengths[slot] += rows
        return [int(one) for one in found.logits[:, -1].argmax(-1)]
