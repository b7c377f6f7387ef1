"""The fused FP8 writer of a path that has only its parts: a quantiser of queries and a writer of keys.

LayerNorm and RoPE are then the oracle's, all codes, scales, weights and pages the path's own. A path with a
fused writer is asked for that, whether it can run it or not: parts in its place would hide what it does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from harness.paths import base
from harness.paths.requests.eightbit import QuantiseQueries8, WriteKeys8, WriteTokens8
from harness.paths.wrapped import Wrapped
from oracles import prepare

PARTS = (QuantiseQueries8, WriteKeys8)


class Unfused(Wrapped):
    """``inner``, which answers `WriteTokens8` by its parts where it has these and not the whole."""

    def around(self, method: Callable[[Any], base.Outcome]) -> Callable[[Any], base.Outcome]:
        return method

    @cached_property
    def table(self) -> base.Answers:
        own = self.inner.table
        if WriteTokens8 in own or any(part not in own for part in PARTS):
            return own
        return {**own, WriteTokens8: self._write}

    def run(self, request: Any) -> base.Outcome:
        if isinstance(request, WriteTokens8) and WriteTokens8 not in self.inner.table:
            return super().run(request)
        return self.inner.run(request)

    def _write(self, request: WriteTokens8) -> base.Outcome:
        """Every row has a slot here. Raises what the parts raise."""
        turned = (request.cos, request.sin, request.positions)
        q = prepare.rope(request.q, *turned, pairing=request.pairing)
        normal = prepare.layer_norm(request.k, request.norm_weight, request.norm_bias, eps=request.epsilon)
        k = prepare.rope(normal, *turned, pairing=request.pairing)
        queries = self.inner.run(
            QuantiseQueries8(q, request.weights, request.weights_scale, request.fmt, request.ue)
        )
        keys = self.inner.run(
            WriteKeys8(k, request.slots, request.cache, request.fmt, request.ue, request.tile)
        )
        for own, made in zip(request.outputs, (*queries.value, keys.value), strict=True):
            own.copy_(made)
        facts = {"subject": f"{self.name}, LayerNorm and RoPE of the oracle", **_executor(keys)}
        return base.Outcome(request.outputs, (*queries.findings, *keys.findings), facts)


def _executor(outcome: base.Outcome) -> dict[str, Any]:
    return {name: fact for name, fact in outcome.facts.items() if name == "executor"}
