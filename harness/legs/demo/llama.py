"""The demo's model: a Llama decoder over weights that one file maps into memory.

Contract: ``logits`` is what the architecture defines (RMSNorm before attention and before the gated MLP,
rotary positions on half-split heads, grouped query heads, the embedding as output), with attention left to
the caller. One file holds the weights as they are multiplied, so a server that starts reads nothing else. The
failure to fear is a model that is slightly another one and still writes sentences; the tests hold it against
the definition.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import linear, rms_norm, silu

FILE = "model.safetensors"
Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(layer, query [B, Hq, T, D], key [B, H, T, D], value [B, H, T, D]) to attention's output [B, T, Hq * D]."""


@dataclass(frozen=True)
class Shape:
    """``heads`` query heads on ``groups`` key heads of ``size`` columns; ``theta`` and ``eps`` as usual."""

    layers: int
    heads: int
    groups: int
    size: int
    theta: float
    eps: float
    end: int


def save(shape: Shape, weights: dict[str, Tensor], folder: Path) -> None:
    """Write ``folder/model.safetensors``: ``embed``, ``norm``, and of each layer ``0.qkv``, ``0.out``,
    ``0.gate_up``, ``0.down``, ``0.norms``, all float32 and contiguous."""
    from safetensors.torch import save_file

    save_file(weights, folder / FILE, metadata={"shape": json.dumps(asdict(shape))})


class Llama:
    """The model in ``folder``, as `save` wrote it."""

    def __init__(self, folder: Path) -> None:
        from safetensors import safe_open

        with safe_open(folder / FILE, framework="pt") as file:
            self.shape = Shape(**json.loads(file.metadata()["shape"]))
            self._weights: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        powers = torch.arange(0, self.shape.size, 2).float() / self.shape.size
        self._frequencies = 1.0 / self.shape.theta**powers

    def logits(self, tokens: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """float32 [B, V] after the last of ``tokens`` int64 [B, T] at ``positions`` int64 [B, T]."""
        at, eps = self._weights, self.shape.eps
        angles = (positions.unsqueeze(-1) * self._frequencies).unsqueeze(1)  # [B, 1, T, D / 2]
        turn = angles.cos(), angles.sin()
        x = at["embed"][tokens]
        for layer in range(self.shape.layers):
            norms = at[f"{layer}.norms"]
            mixed = linear(rms_norm(x, x.shape[-1:], norms[0], eps), at[f"{layer}.qkv"])
            q, k, v = self._heads(mixed)
            x = x + linear(attend(layer, turned(q, turn), turned(k, turn), v), at[f"{layer}.out"])
            gate, up = linear(rms_norm(x, x.shape[-1:], norms[1], eps), at[f"{layer}.gate_up"]).chunk(2, -1)
            x = x + linear(silu(gate).mul_(up), at[f"{layer}.down"])
        return linear(rms_norm(x[:, -1], x.shape[-1:], at["norm"], eps), at["embed"])

    def _heads(self, mixed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key, value [B, heads, T, D] of [B, T, (Hq + 2 H) * D]."""
        shape = self.shape
        heads = mixed.unflatten(-1, (-1, shape.size)).transpose(1, 2)
        q, k, v = heads.split((shape.heads, shape.groups, shape.groups), 1)
        return q, k, v


def turned(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """``x`` [B, H, T, D] with columns i and i + D / 2 turned by their angle (cosine, sine)."""
    one, two = x.chunk(2, -1)
    cos, sin = turn
    return torch.cat((one * cos - two * sin, two * cos + one * sin), -1)
