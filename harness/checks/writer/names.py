"""What a wrong output of a writer would be right for: the known wrong rules, tried one after the other.

Each rule is the writer with one thing changed; a name is given only where codes and scales (or the
weights) come out byte for byte, so a name is no guess. None may fit: two things can be wrong at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from harness.checks.writer.wanted import as_bits, settle
from harness.paths.requests.writing import WRITTEN_TOKENS, WriteTokens
from oracles import layout, normalise, prepare
from oracles.formats import GROUP, PRODUCTION, QuantRule, quantise
from oracles.normalise import Range

PAGE = layout.PAGE_ROWS


@dataclass(frozen=True)
class Rules:
    """A writer with every rule spelled out; the defaults are right."""

    quant: QuantRule = PRODUCTION
    other_pairing: bool = False
    shift: int = 0
    variance: str = "population"
    eps: float | None = None
    bf16_norm: bool = False
    norm: bool = True
    nibbles: str = "low-first"
    place: Callable[[Tensor], Tensor] = layout.bent_row
    weights: Callable[[WriteTokens], Tensor] = lambda asked: asked.weights
    slots: Callable[[WriteTokens], Tensor] = lambda asked: asked.slots
    skips: bool = True


def lanes_of(rows: int) -> Callable[[Tensor], Tensor]:
    """The bent row, as in pages of ``rows``."""
    return lambda row: row % rows % 16 * (rows // 16) + row % rows // 16 + row // rows * rows


def wrapped(asked: WriteTokens) -> Tensor:
    """Negative slots counted from the end of the pool."""
    return asked.slots % (asked.k_codes.shape[0] * PAGE)


def folded(asked: WriteTokens) -> Tensor:
    return (asked.weights.float() * asked.weights_scale).bfloat16()


RULES: dict[str, Rules] = {
    "the nibbles of every byte are swapped": Rules(nibbles="high-first"),
    "the bend is missing: scales lie in token order": Rules(place=lambda row: row),
    "scales are bent as in pages of 32 rows": Rules(place=lanes_of(32)),
    "scales are bent as in pages of 16 rows": Rules(place=lanes_of(16)),
    "ties go away from zero": Rules(quant=replace(PRODUCTION, ties="away")),
    "ties go toward zero": Rules(quant=replace(PRODUCTION, ties="zero")),
    "ties go down": Rules(quant=replace(PRODUCTION, ties="down")),
    "the scale is rounded down to a power of two": Rules(quant=replace(PRODUCTION, scale="floor")),
    "the scale is rounded up from 1.75 * 2^n only": Rules(quant=replace(PRODUCTION, scale="even")),
    "the maximum is divided by 7": Rules(quant=replace(PRODUCTION, divisor="seventh")),
    "the maximum of a group is at least 1e-4": Rules(quant=replace(PRODUCTION, amax_floor=1e-4)),
    "-0 became 0": Rules(quant=replace(PRODUCTION, keep_negative_zero=False)),
    "RoPE turns the other pairs": Rules(other_pairing=True),
    "RoPE reads the next position": Rules(shift=1),
    "RoPE reads the position before": Rules(shift=-1),
    "the variance is that of a sample": Rules(variance="sample"),
    "eps is 1e-5": Rules(eps=1e-5),
    "there is no eps": Rules(eps=0.0),
    "LayerNorm's weight and bias were rounded to bfloat16": Rules(bf16_norm=True),
    "the key was not normalised": Rules(norm=False),
    "the weight scale is in the weights already": Rules(weights=folded),
    "negative slots count from the end of the pool": Rules(slots=wrapped),
    "negative slots became slot 0": Rules(slots=lambda asked: asked.slots.clamp(min=0)),
    "rows without a slot were computed": Rules(skips=False),
}


SIDES = {
    "q_scales": ("q_scales", "q_codes"),
    "q_codes": ("q_scales", "q_codes"),
    "weights_out": ("weights_out",),
    "k_scales": ("k_scales", "k_codes"),
    "k_codes": ("k_scales", "k_codes"),
}
"""Outputs that a rule must explain together with the one that is wrong."""


def name(field: str, asked: WriteTokens, before: Sequence[Tensor], found: Mapping[str, Tensor]) -> str:
    """The wrong rule under which output ``field`` of ``found`` is right; empty when there is none."""
    for text, rules in RULES.items():
        try:
            fits = all(
                torch.equal(output(side, rules, asked, before, found), found[side]) for side in SIDES[field]
            )
        except ValueError:  # a rule that does not go with this request, two rows in one slot say
            continue
        if fits:
            return f"right if {text}"
    untouched = torch.equal(found[field], as_bits(before[WRITTEN_TOKENS.index(field)]))
    return "nothing was written" if untouched else ""


def output(
    field: str, rules: Rules, asked: WriteTokens, before: Sequence[Tensor], found: Mapping[str, Tensor]
) -> Tensor:
    """One output under ``rules``, as near to ``found`` as they allow; bits of bfloat16 as int16.

    Raises ValueError where there is none.
    """
    made = as_bits(before[WRITTEN_TOKENS.index(field)]).clone()
    if field.startswith("k_"):
        return _keys(field, rules, asked, made, found)
    active = asked.slots >= 0
    if asked.compute_all_q_rope or not rules.skips:
        active = torch.ones_like(active)
    if field == "weights_out":
        made[active] = as_bits(rules.weights(asked))[active]
        return made
    tables = _tables(rules, asked, active)
    turned = prepare.rope(asked.q[active], *tables, pairing=_pairing(rules, asked))
    codes, scales = quantise(prepare.without_nans(turned), rules.quant)
    if field == "q_scales":
        made[active] = layout.write_query_scales(scales)
    else:
        made[active] = layout.pack_nibbles(codes, order=rules.nibbles)
    return made


def _keys(field: str, rules: Rules, asked: WriteTokens, plane: Tensor, found: Mapping[str, Tensor]) -> Tensor:
    slots = rules.slots(asked)
    kept = slots >= 0
    if int(slots.max()) >= asked.k_codes.shape[0] * PAGE:
        raise ValueError("slots past the pool")
    block, row = slots[kept] // PAGE, slots[kept] % PAGE
    place = rules.place(row)
    normal = _normal(rules, asked, asked.k[kept])
    held = settle(
        normalise.rope_range(normal, *_tables(rules, asked, kept), pairing=_pairing(rules, asked)),
        layout.unpack_nibbles(found["k_codes"][block, :, :, row].flatten(1), order=rules.nibbles),
        found["k_scales"][block, :, :, place].flatten(1),
        rules.quant,
    )
    codes = held.codes if rules.quant.keep_negative_zero else held.codes.masked_fill(held.codes == 8, 0)
    if field == "k_scales":
        plane[block, :, :, place] = held.scales.unflatten(1, (-1, layout.GROUPS))
    else:
        packed = layout.pack_nibbles(codes, order=rules.nibbles)
        plane[block, :, :, row] = packed.unflatten(1, (-1, layout.GROUPS, GROUP // 2))
    return plane


def _normal(rules: Rules, asked: WriteTokens, key: Tensor) -> Range:
    """Right values of the normalised keys under ``rules``."""
    if not rules.norm:
        return Range(key, key)
    weight, bias = asked.norm_weight, asked.norm_bias
    if rules.bf16_norm:
        weight, bias = weight.bfloat16().float(), bias.bfloat16().float()
    eps = asked.epsilon if rules.eps is None else rules.eps
    if rules.variance == "population":
        return normalise.layer_norm_range(key, weight, bias, eps=eps)
    made = prepare.layer_norm(key, weight, bias, eps=eps, variance=rules.variance)
    return Range(made, made)


def _tables(rules: Rules, asked: WriteTokens, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """cos, sin and the positions that are looked up."""
    place = (asked.positions[rows] + rules.shift).clamp(0, asked.cos.shape[0] - 1)
    return asked.cos, asked.sin, place


def _pairing(rules: Rules, asked: WriteTokens) -> str:
    others = [pairing for pairing in prepare.PAIRINGS if pairing != asked.pairing]
    return others[0] if rules.other_pairing else asked.pairing
