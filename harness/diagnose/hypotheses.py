"""Which wrong rule makes the scores what they are: how often each head is added, what was read instead.

Contract: as of `scorewise`, whose cells it looks at; a rule is named with how many of the cells it gives.
"""

from __future__ import annotations

import re
from collections import Counter

import torch

from harness.diagnose.scorewise import EVERY, FEW, Scored, floats
from harness.judge import naming
from harness.judge.wanted import operands_of
from oracles.score import dot_products

_NUMBERS = re.compile(r"[0-9]+")


def coefficients(scored: Scored) -> str:
    """How often each head is in the wrong scores, if they are sums of the heads' terms at all."""
    heads = scored.got.request.planes.heads
    terms, values = [], []
    for row in scored.wrong[scored.inside][:, 0].unique()[:heads].tolist():
        start, end = int(scored.rows.start[row]), int(scored.rows.end[row])
        operands = operands_of(scored.inputs, row)
        relu = dot_products(operands)[0].double().clamp(min=0)  # [H, L]
        scaled = relu * operands.weights[0].double()[:, None] * operands.weight_scale
        terms.append(scaled.T)
        values.append(floats(scored.mine[row, start:end]).double())
        if sum(map(len, values)) >= 8 * heads:
            break
    if not terms:
        return ""
    matrix, vector = torch.cat(terms), torch.cat(values)
    known = matrix.isfinite().all(1) & vector.isfinite()
    matrix, vector = matrix[known], vector[known]
    present = matrix.abs().amax(0) > 0 if len(matrix) else torch.zeros(heads, dtype=torch.bool)
    if len(matrix) < 2 * heads or not bool(present.any()):
        return ""
    solved = torch.linalg.lstsq(matrix[:, present], vector, driver="gelsd").solution
    rest = (matrix[:, present] @ solved - vector).abs()
    roundings = (heads + 2) * 2.0**-24
    if bool((rest > matrix.abs().sum(1) * roundings * 4).any()):
        return ""
    counts = torch.ones(heads, dtype=torch.float64)
    counts[present] = (solved * 64).round() / 64
    odd = [(head, value) for head, value in enumerate(counts.tolist()) if value != 1]
    kinds = {value for _, value in odd}
    if not odd or (len(odd) > heads // 2 and len(kinds) > 1):
        return ""
    said = [
        f"{value:g} times heads {_ranges([head for head, other in odd if other == value])}"
        for value in sorted(kinds)
    ]
    return "the scores are the sums with " + ", ".join(said)


def _ranges(numbers: list[int]) -> str:
    """``0-3, 8``."""
    said: list[list[int]] = []
    for number in numbers:
        if said and number == said[-1][1] + 1:
            said[-1][1] = number
        else:
            said.append([number, number])
    return ", ".join(f"{low}-{high}" if low < high else str(low) for low, high in said)


def rules(scored: Scored) -> str:
    """Wrong rules that give the values of the cells in the sample, most frequent first."""
    cells, met = scored.sample(), Counter[str]()
    want = floats(scored.right)
    for row, column in cells:
        got = floats(scored.mine[row, column])
        said = naming.explain(scored.inputs, want, got, row, column, EVERY)
        met.update(set(said) if len(cells) == 1 else {_general(one) for one in said})
    often = [(said, count) for said, count in met.most_common(FEW) if 2 * count >= len(cells)]
    return "; ".join(f"{said} ({count} of {len(cells)})" for said, count in often)


def _general(said: str) -> str:
    """A hint without the numbers of its own cell; those of a rule (which group, which heads) stay."""
    return said if said.startswith("the value is right") else _NUMBERS.sub("#", said)
