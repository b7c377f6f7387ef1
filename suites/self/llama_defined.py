"""The small model by its definition, in float64, and how far a rounded evaluation may be from it.

One row, one head, one position after the other. Every step declares what rounding it may add, by the usual
bounds (Higham, Accuracy and Stability of Numerical Algorithms, 3.1: n u |a| |b| for a sum of n products in
any order); derivatives carry each of these to the logits, to first order. Nothing is chosen by hand but the
accuracy of the exponential, which torch states in the name of what its attention calls (exp_u20).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from harness.legs.demo.llama import Shape

EXPONENTIAL = 40
"""Roundings that an exponential of 20 units in the last place is worth."""


class Rounding:
    """Values with what an evaluation may add to each, in units of its unit roundoff."""

    def __init__(self) -> None:
        self._added: list[tuple[Tensor, Tensor]] = []

    def at(self, value: Tensor, error: Tensor) -> Tensor:
        """``value``, which may be off by ``error`` unit roundoffs (absolute, of its shape)."""
        change = torch.zeros_like(value, requires_grad=True)
        self._added.append((change, error.detach()))
        return value + change

    def product(self, matrix: Tensor, vector: Tensor) -> Tensor:
        """``matrix`` times ``vector``, sums in any order."""
        return self.at(matrix @ vector, matrix.shape[-1] * (matrix.abs() @ vector.abs()))

    def relative(self, value: Tensor, roundings: float | Tensor) -> Tensor:
        return self.at(value, roundings * value.abs())

    def bound(self, found: Tensor) -> Tensor:
        """How far each of ``found`` may be off, to first order."""
        changes = [change for change, _ in self._added]
        total = []
        for one in found:
            slopes = torch.autograd.grad(one, changes, retain_graph=True, allow_unused=True)
            parts = zip(slopes, self._added, strict=True)
            total.append(sum((s.abs() * error).sum() for s, (_, error) in parts if s is not None))
        return torch.stack([torch.as_tensor(one) for one in total])


def logits(weights: dict[str, Tensor], shape: Shape, tokens: list[int]) -> tuple[Tensor, Tensor]:
    """(logits [V] after the last token, how many unit roundoffs each may be off)."""
    at, off = {name: value.double() for name, value in weights.items()}, Rounding()

    def normed(row: Tensor, scale: Tensor) -> Tensor:
        # The mean of n squares, halved by the root; then eps, root, quotient and two products.
        return off.relative(row / (row.square().mean() + shape.eps).sqrt() * scale, (len(row) + 1) / 2 + 5)

    rows, size = [at["embed"][one] for one in tokens], shape.size
    for layer in range(shape.layers):
        norms = at[f"{layer}.norms"]
        mixed = [off.product(at[f"{layer}.qkv"], normed(row, norms[0])).view(-1, size) for row in rows]
        keys = [turned(off, one[shape.heads], place, shape.theta) for place, one in enumerate(mixed)]
        rows = [
            off.relative(row + off.product(at[f"{layer}.out"], attended(off, mixed, keys, place, shape)), 1)
            for place, row in enumerate(rows)
        ]
        for place, row in enumerate(rows):
            gate, up = off.product(at[f"{layer}.gate_up"], normed(row, norms[1])).chunk(2)
            inner = off.relative(gate * gate.sigmoid() * up, EXPONENTIAL + 4)
            rows[place] = off.relative(row + off.product(at[f"{layer}.down"], inner), 1)
    found = off.product(at["embed"], normed(rows[-1], at["norm"]))
    return found.detach(), off.bound(found)


def turned(off: Rounding, x: Tensor, position: int, theta: float) -> Tensor:
    """Columns i and i + size / 2 of ``x`` turned by position / theta^(2 i / size)."""
    half = len(x) // 2
    angle = torch.tensor([position / theta ** (2 * i / len(x)) for i in range(half)], dtype=torch.float64)
    a, b = x[:half], x[half:]
    value = torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()))
    # An angle of three roundings, sine and cosine of two; a product and a sum.
    roundings = (3 * angle + 4) * (a.abs() + b.abs())
    return off.at(value, torch.cat((roundings, roundings)))


def attended(off: Rounding, mixed: list[Tensor], keys: list[Tensor], place: int, shape: Shape) -> Tensor:
    """What the heads of one position take of all positions up to it, [heads * size]."""
    seen, values = torch.stack(keys[: place + 1]), torch.stack([one[-1] for one in mixed[: place + 1]])
    heads = []
    for head in range(shape.heads):
        query = turned(off, mixed[place][head], place, shape.theta)
        score = off.relative(off.product(seen, query) / math.sqrt(shape.size), 3)
        # The distance to the largest, the exponential, their sum and a quotient.
        far = score.max() - score
        weight = off.relative(score.softmax(0), far + EXPONENTIAL + len(score) + 2)
        heads.append(off.product(values.T, weight))
    return torch.cat(heads)
