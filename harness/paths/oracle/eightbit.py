"""The oracle's answers to the requests of the FP8 default."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harness.paths import base
from harness.paths.requests import eightbit as asked
from oracles import eightbit, eightbit_pages, eightbit_score, eightbit_writer, windows
from oracles.eightbit import ScaleRule
from oracles.windows import Windows


@dataclass(frozen=True)
class Rules:
    """Every rule that two implementations could disagree on, so that a fault is one of them changed."""

    query: ScaleRule = eightbit.QUERY
    key: ScaleRule = eightbit.KEY
    ties: str = "even"

    def power(self, ue: bool) -> bool:
        """Whether scales are rounded up to powers of two."""
        return ue

    def written(self, tile: str) -> str:
        """The order in which codes are written."""
        return tile

    def read(self, tile: str) -> str:
        """The order in which codes are read."""
        return tile

    def fmt(self, fmt: str) -> str:
        """What codes are taken for when they are read."""
        return fmt

    def folded(self, weights: Tensor, q_scales: Tensor, weights_scale: float) -> Tensor:
        return eightbit.fold_weights(weights, q_scales, weights_scale)

    def slots(self, slots: Tensor) -> Tensor:
        return slots

    def tables(self, tables: Tensor) -> Tensor:
        return tables

    def rows(self, rows: Windows) -> Windows:
        return rows

    def score(self, operands: eightbit_score.Operands) -> Tensor:
        return eightbit_score.scores(operands).value


def answers(path: base.Path) -> Mapping[type, Callable[[Any], base.Outcome]]:
    """Request type to method, by the rules of the specification."""
    return by(Rules())


def by(rules: Rules) -> Mapping[type, Callable[[Any], base.Outcome]]:
    """Request type to method, by ``rules``."""
    return {
        asked.QuantiseQueries8: lambda request: _queries(rules, request),
        asked.WriteKeys8: lambda request: _write(rules, request),
        asked.WriteTokens8: lambda request: _tokens(rules, request),
        asked.GatherKeys8: lambda request: _gather(rules, request),
        asked.PagedScores8: lambda request: _paged(rules, request),
        asked.FlatScores8: lambda request: _flat(rules, request),
    }


def _queries(rules: Rules, request: asked.QuantiseQueries8) -> base.Outcome:
    fmt, power = eightbit.FORMATS[request.fmt], rules.power(request.ue)
    codes, scales = eightbit.quantise(request.q, fmt, rules.query, power_of_two=power, ties=rules.ties)
    return base.Outcome((codes, rules.folded(request.weights, scales, request.weights_scale)))


def _write(rules: Rules, request: asked.WriteKeys8) -> base.Outcome:
    fmt, power = eightbit.FORMATS[request.fmt], rules.power(request.ue)
    codes, scales = eightbit.quantise(request.k, fmt, rules.key, power_of_two=power, ties=rules.ties)
    slots, order = rules.slots(request.slots), rules.written(request.tile)
    eightbit_pages.write_keys(request.cache, codes, scales, slots, order)
    return base.Outcome(request.cache)


def _tokens(rules: Rules, request: asked.WriteTokens8) -> base.Outcome:
    writer = eightbit_writer.Writer8(
        request.norm_weight, request.norm_bias, request.cos, request.sin, request.pairing,
        eightbit.FORMATS[request.fmt], rules.power(request.ue), rules.written(request.tile),
        request.weights_scale, request.epsilon, rules.query, rules.key, rules.ties, rules.folded,
    )  # fmt: skip
    slots = rules.slots(request.slots)
    eightbit_writer.write_tokens(
        writer, request.q, request.k, request.weights, request.positions, slots, *request.outputs
    )
    return base.Outcome(request.outputs)


def _gather(rules: Rules, request: asked.GatherKeys8) -> base.Outcome:
    tables, order = rules.tables(request.block_tables), rules.read(request.tile)
    return base.Outcome(eightbit_pages.gather(request.cache, tables, request.cu_lens, order))


def _paged(rules: Rules, request: asked.PagedScores8) -> base.Outcome:
    rows = rules.rows(windows.decode_windows(request.context_lens, request.next_n))
    tables, order = rules.tables(request.block_tables), rules.read(request.tile)
    fmt = eightbit.FORMATS[rules.fmt(request.fmt)]
    for row in (rows.end > rows.start).nonzero().flatten().tolist():
        start, end = int(rows.start[row]), int(rows.end[row])
        slots = eightbit_pages.slots_of(tables[int(rows.seq[row])], end)[start:]
        keys = eightbit_pages.read_slots(request.cache, slots, order)
        own = request.q_codes[row : row + 1], request.weights[row : row + 1]
        request.out[row, start:end] = rules.score(eightbit_score.Operands(*own, *keys, fmt))[0]
    return base.Outcome(request.out)


def _flat(rules: Rules, request: asked.FlatScores8) -> base.Outcome:
    everyone = torch.zeros(len(request.starts), dtype=torch.int64)
    rows = rules.rows(Windows(everyone, request.starts.long(), request.ends.long()))
    fmt = eightbit.FORMATS[rules.fmt(request.fmt)]
    out = torch.full((len(request.starts), len(request.k_codes)), -torch.inf)
    for row in (rows.end > rows.start).nonzero().flatten().tolist():
        reach = slice(int(rows.start[row]), int(rows.end[row]))
        own = request.q_codes[row : row + 1], request.weights[row : row + 1]
        keys = request.k_codes[reach], request.k_scales[reach]
        out[row, reach] = rules.score(eightbit_score.Operands(*own, *keys, fmt))[0]
    return base.Outcome(out)
