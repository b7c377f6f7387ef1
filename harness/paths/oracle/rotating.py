"""The oracle's answers to the requests of V4's rotate-and-quantise kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from harness.paths import base
from harness.paths.requests.rotating import RotateKeys, RotateQueries
from oracles import layout, rotate, rotate_codes
from oracles.formats import PRODUCTION, QuantRule
from oracles.rotate import Turn
from oracles.rotate_codes import Rule


@dataclass(frozen=True)
class Rules:
    """Every rule that two implementations could disagree on, so that a fault is one of them changed."""

    difference: str = "left-right"
    place: str = "last"
    power: float = -0.5
    four: QuantRule = PRODUCTION
    nibbles: str = "low-first"
    bend: bool = True

    def turn(self, request: RotateQueries | RotateKeys) -> Turn:
        return Turn(request.cos, request.sin, request.hadamard, self.difference, self.place, self.power)

    def packed(self, codes: Tensor) -> Tensor:
        """Codes [..., D] in the order that packing takes them in."""
        return layout.unpack_nibbles(layout.pack_nibbles(codes, order=self.nibbles))


def answers(path: base.Path) -> Mapping[type, Callable[[Any], base.Outcome]]:
    """Request type to method, by the rules of the kernels."""
    return by(Rules())


def by(rules: Rules) -> Mapping[type, Callable[[Any], base.Outcome]]:
    """Request type to method, by ``rules``."""
    return {
        RotateQueries: lambda request: _queries(rules, request),
        RotateKeys: lambda request: _keys(rules, request),
    }


def _queries(rules: Rules, request: RotateQueries) -> base.Outcome:
    values = rotate.turned(rules.turn(request), rotate.plain(request.x), request.positions)
    made = rotate_codes.quantise(Rule(request.to, request.group, rules.four), values)
    codes = layout.pack_nibbles(rules.packed(made.codes)) if request.to == "fp4" else made.codes
    request.codes.copy_(codes)
    request.scales.copy_(rotate_codes.query_scales(made.scales, shuffled=request.shuffled))
    return base.Outcome(request.outputs)


def _keys(rules: Rules, request: RotateKeys) -> base.Outcome:
    kept = request.slots >= 0
    normal = rotate.normal(request.x[kept, 0], request.norm_weight, request.epsilon)
    values = rotate.turned(rules.turn(request), normal, request.positions[kept])
    made = rotate_codes.quantise(Rule("fp4", request.group, rules.four), values)
    rotate_codes.write_keys(
        request.codes, request.scales, rules.packed(made.codes), made.scales, request.slots[kept],
        shuffled=request.shuffled, bend=rules.bend,
    )  # fmt: skip
    return base.Outcome(request.outputs)
