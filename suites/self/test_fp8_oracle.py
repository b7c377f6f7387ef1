"""The FP8 oracles: numbers by hand, the scalar twins, and proofs that prove no more than is true."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import permutations

import pytest
import torch
from torch import Tensor

from harness.case import case_lists
from harness.case.lists.fp8 import TOKENS
from harness.fill import fill_eightbit, noise, pages
from oracles import eightbit, eightbit_pages, eightbit_score
from oracles.eightbit import FORMATS, KEY, QUERY
from oracles.scalar import eightbit as scalar
from oracles.scalar.fma import add, multiply

RULES = pytest.mark.parametrize("rule", [QUERY, KEY], ids=["query", "key"])
KINDS = pytest.mark.parametrize("fmt", FORMATS)
POWER = pytest.mark.parametrize("power", [True, False], ids=["ue8m0", "plain"])


def vector(*values: float) -> Tensor:
    """One vector of 128 that starts with ``values``."""
    return torch.tensor([*values, *[0.0] * (128 - len(values))]).unsqueeze(0)


@pytest.mark.parametrize(
    ("amax", "fmt", "rule", "power", "scale"),
    [
        (448.0, "fn", KEY, True, 1.0),
        (449.0, "fn", KEY, True, 2.0),
        (225.0, "fn", KEY, True, 1.0),
        (224.0, "fn", QUERY, True, 0.5),
        (240.0, "fnuz", KEY, True, 1.0),
        (241.0, "fnuz", QUERY, True, 2.0),
        (224.0, "fn", KEY, False, 0.5),
        (60.0, "fnuz", QUERY, False, 0.25),
        (0.0, "fn", KEY, True, 2.0**-22),  # 1e-4 / 448 = 2^-22.1
        (0.0, "fn", QUERY, True, 2.0**-42),  # 1e-10 / 448 = 2^-42.03
        (0.0, "fnuz", KEY, True, 2.0**-21),  # 1e-4 / 240 = 2^-21.2
        (9e-5, "fn", KEY, True, 2.0**-22),
    ],
)
def test_scales_by_hand(amax: float, fmt: str, rule: eightbit.ScaleRule, power: bool, scale: float) -> None:
    """amax over the format's top, rounded up where a power of two is asked, never below the floor."""
    _, got = eightbit.quantise(vector(amax), FORMATS[fmt], rule, power_of_two=power)
    assert float(got) == scale


def test_codes_by_hand() -> None:
    """With a scale of one, codes are those of the values; 17 and 19 are ties and go to the even code."""
    codes, _ = eightbit.quantise(
        vector(448.0, 1.0, -1.0, 17.0, 19.0, 2.0**-9, 2.0**-10, -0.0), FORMATS["fn"], KEY, power_of_two=True
    )
    assert codes[0, :8].tolist() == [0x7E, 0x38, 0xB8, 0x58, 0x5A, 0x01, 0x00, 0x80]
    codes, _ = eightbit.quantise(vector(240.0, 1.0, -0.0), FORMATS["fnuz"], KEY, power_of_two=True)
    assert codes[0, :3].tolist() == [0x7F, 0x40, 0x00]


def test_one_format_read_as_the_other_is_off_by_two() -> None:
    """E4M3FN is worth twice E4M3FNUZ wherever both are numbers."""
    codes = torch.tensor([code for code in range(256) if code & 0x7F != 0x7F and code != 0x80]).to(
        torch.uint8
    )
    fn, fnuz = (eightbit.decode(FORMATS[fmt], codes) for fmt in ("fn", "fnuz"))
    assert torch.equal(fn, 2 * fnuz)


@KINDS
@RULES
@POWER
def test_the_scalar_twin_quantises_alike(fmt: str, rule: eightbit.ScaleRule, power: bool) -> None:
    """Bit for bit, over zeros of both signs, magnitudes of many orders and the quantiser's edges."""
    x = noise.gaussian(5, "x", (12, 128)) * torch.exp2(torch.arange(12.0) * 4 - 34)[:, None]
    x[0], x[1] = 0.0, -0.0
    edges = fill_eightbit.fill("boundary", fill_eightbit.Shape(1, 16, (16,), fmt, power, 3)).k
    assert edges is not None
    x = torch.cat([x, edges.float()])
    codes, scales = eightbit.quantise(x, FORMATS[fmt], rule, power_of_two=power)
    for row, code, scale in zip(x.tolist(), codes.tolist(), scales.tolist(), strict=True):
        assert scalar.quantise(row, FORMATS[fmt], rule, power_of_two=power) == (code, scale)


@KINDS
@RULES
def test_no_bfloat16_lies_where_log2_would_round_down(fmt: str, rule: eightbit.ScaleRule) -> None:
    """Production's exp2(ceil(log2 s)) is the power above s, for the amax of every bfloat16 vector."""
    amax = torch.arange(1, 0x7F80).to(torch.int16).view(torch.bfloat16).float()
    plain = eightbit.scale_of(amax, FORMATS[fmt], rule, power_of_two=False)
    above = eightbit.scale_of(amax, FORMATS[fmt], rule, power_of_two=True)
    assert torch.equal(torch.exp2(torch.ceil(torch.log2(plain))), above)
    gap = plain / (above / 2)
    assert float(gap.min()) > 1 + 2.0**-9  # 3 ulp would be enough


def test_values_that_are_none_are_refused() -> None:
    """A NaN or an infinity has no scale."""
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError, match="finite"):
            eightbit.quantise(vector(bad), FORMATS["fn"], KEY, power_of_two=True)


def test_weights_are_folded_in_two_roundings() -> None:
    """fl(fl(w * q_scale) * weights_scale), as the scalar twin has it."""
    w, q = torch.tensor([[1.1, -3.3]]).bfloat16(), torch.tensor([[0.3, 7.7]])
    got = eightbit.fold_weights(w, q, 0.011)
    want = [scalar.fold_weight(float(a), float(b), 0.011) for a, b in zip(w[0], q[0], strict=True)]
    assert got[0].tolist() == want


@pytest.mark.parametrize("order", eightbit_pages.ORDERS)
def test_every_byte_of_a_page_has_one_owner(order: str) -> None:
    """The address map goes over the page in the order that the words of the specification give."""
    places = list(scalar.code_places(order))
    assert [int(eightbit_pages.code_offset(*place, order)) for place in places] == list(range(64 * 128))
    assert eightbit_pages.scale_offset(0) == 8192 and eightbit_pages.scale_offset(63) == 8192 + 252


CONTRACT = [(row, column) for row in fill_eightbit.ROWS for column in fill_eightbit.COLUMNS]
OFFSETS = {
    (0, 0): 0,
    (0, 15): 15,
    (0, 16): 256,
    (0, 127): 1807,
    (15, 16): 496,
    (16, 0): 2048,
    (63, 127): 8191,
}


@pytest.mark.parametrize("row_bytes", [132, 144])
@pytest.mark.parametrize("order", eightbit_pages.ORDERS)
def test_the_layout_contract(order: str, row_bytes: int) -> None:
    """A value only in column d of key t lands on one byte of the page and is read back there (B13)."""
    for row, column in CONTRACT:
        cache = torch.zeros(2, 64, row_bytes, dtype=torch.uint8)
        codes = torch.zeros(1, 128, dtype=torch.uint8)
        codes[0, column] = 0x38
        slots = torch.tensor([64 + row])
        eightbit_pages.write_keys(cache, codes, torch.tensor([2.0]), slots, order)
        page = cache[1].flatten()
        byte = next(at for at, place in enumerate(scalar.code_places(order)) if place == (row, column))
        if order == "tiled" and (row, column) in OFFSETS:
            assert byte == OFFSETS[row, column]
        assert page[:8192].nonzero().flatten().tolist() == [byte]
        assert page[8192:].view(torch.float32).nonzero().flatten().tolist() == [row]
        assert not cache[0].any()
        read, scales = eightbit_pages.read_slots(cache, slots, order)
        assert torch.equal(read, codes) and scales.tolist() == [2.0]
        other = "flat" if order == "tiled" else "tiled"
        moved = not torch.equal(eightbit_pages.read_slots(cache, slots, other)[0], codes)
        assert moved == ((row, column) in MOVED)


MOVED = set(CONTRACT) - {(0, 0), (0, 15), (16, 0), (16, 15), (15, 127), (63, 127)}
"""Places that the two orders disagree about: all but the first and the last 16 bytes of 16 keys."""


def test_smoke_asks_for_the_whole_contract_of_both_orders() -> None:
    """Some address case holds each (row, column) pair of the contract, flat and tiled."""
    for order in eightbit_pages.ORDERS:
        asked = set()
        for case in case_lists.listed("fp8", "smoke"):
            if case.f == "address" and case.tile == order:
                position, column = fill_eightbit.places(case.ctx)
                asked |= {*zip((position % 64).tolist(), column.tolist(), strict=True)}
        assert asked >= set(CONTRACT)


def test_smoke_spreads_over_formats_scales_orders_and_fills() -> None:
    """Each format with each kind of scale in each order or kind, every fill, every table style in use."""
    cases = case_lists.listed("fp8", "smoke")
    assert {(case.fmt, case.ue, case.tile) for case in cases if case.n} >= {
        (fmt, ue, order) for fmt in FORMATS for ue in (0, 1) for order in ("flat", "tiled")
    }
    assert {(case.fmt, case.ue) for case in cases if case.w} == {(f, ue) for f in FORMATS for ue in (0, 1)}
    assert {case.f for case in cases if not case.r} == set(fill_eightbit.SCORED)
    assert {case.f for case in cases if case.r} == set(TOKENS)
    assert {case.t for case in cases if case.n} == {"shuffled", "tight", "wide", "strided"}


def small(fill: str, fmt: str, ue: bool, heads: int) -> eightbit_score.Operands:
    shape = fill_eightbit.Shape(3, heads, (24,), fmt, ue, 7)
    made = fill_eightbit.fill(fill, shape)
    return eightbit_score.Operands(made.q_codes, made.weights, made.k_codes, made.k_scales, shape.format)


def cells(operands: eightbit_score.Operands) -> list[tuple[int, int]]:
    return [(row, 5 * row + 3) for row in range(len(operands.q_codes))]


@pytest.mark.parametrize("fill", fill_eightbit.SCORED)
@KINDS
def test_scores_are_those_of_the_scalar_twin(fill: str, fmt: str) -> None:
    """Exact values agree, and a proven cell is representable by the twin's own count."""
    operands = small(fill, fmt, False, 16)
    made = eightbit_score.scores(operands)
    for row, key in cells(operands):
        q, w = operands.q_codes[row].tolist(), operands.weights[row].tolist()
        k, scale = operands.k_codes[key].tolist(), float(operands.k_scales[key])
        exact = scalar.score(q, w, k, scale, operands.fmt)
        assert abs(Fraction(float(made.exact[row, key])) - exact) <= abs(exact) * Fraction(1, 2**45)
        if bool(made.proven[row, key]):
            assert scalar.representable(q, w, k, scale, operands.fmt)
            assert Fraction(float(made.value[row, key])) == exact


@KINDS
@pytest.mark.parametrize("ue", [True, False])
@pytest.mark.parametrize("heads", [16, 64, 128])
def test_the_exact_fill_is_exact(fmt: str, ue: bool, heads: int) -> None:
    """Every cell of fill bytes is proven, for every number of heads."""
    assert bool(eightbit_score.scores(small("bytes", fmt, ue, heads)).proven.all())


def in_order(operands: eightbit_score.Operands, row: int, key: int, *, backwards: bool, late: bool) -> float:
    """One cell in float32, added in one of two orders, the key's scale before or after the heads."""
    q = eightbit.decode(operands.fmt, operands.q_codes[row]).tolist()
    k = eightbit.decode(operands.fmt, operands.k_codes[key]).tolist()
    scale, total = float(operands.k_scales[key]), 0.0
    heads = range(len(q))
    for head in reversed(heads) if backwards else heads:
        dot = 0.0
        for column in reversed(range(128)) if backwards else range(128):
            dot = add(multiply(q[head][column], k[column]), dot)
        relu = max(dot, 0.0) if late else multiply(max(dot, 0.0), scale)
        total = add(multiply(relu, float(operands.weights[row][head])), total)
    return multiply(total, scale) if late else total


@pytest.mark.parametrize("fill", fill_eightbit.SCORED)
def test_any_order_stays_within_what_is_demanded(fill: str) -> None:
    """Proven cells come out the same bits in every order; the others within the bound."""
    operands = small(fill, "fn", False, 16)
    made = eightbit_score.scores(operands)
    for row, key in [(2, 20)]:
        for backwards in (False, True):
            for late in (False, True):
                got = in_order(operands, row, key, backwards=backwards, late=late)
                assert abs(got - float(made.exact[row, key])) <= float(made.allowed[row, key])
                if bool(made.proven[row, key]):
                    assert got == float(made.value[row, key])


def one_cell(q: list[float], k: list[float], weights: list[float], scale: float) -> eightbit_score.Scores:
    """Scores of one row (a head for each weight, all alike) against one key, from values E4M3 holds."""
    fmt = FORMATS["fn"]
    q_codes = eightbit.encode(fmt, vector(*q), ties="even").unsqueeze(1).expand(1, len(weights), 128)
    k_codes = eightbit.encode(fmt, vector(*k), ties="even")
    w, s = torch.tensor([weights]), torch.tensor([scale])
    return eightbit_score.scores(eightbit_score.Operands(q_codes, w, k_codes, s, fmt))


BIG, UNIT = 256.0, 2.0**-4


@pytest.mark.parametrize(
    ("q", "k", "weights", "scale", "proven"),
    [
        ([BIG, UNIT], [BIG, UNIT], [1.0], 1.0, False),  # 2^16 + 2^-8: exactly 2^24 units
        ([BIG, UNIT], [BIG / 2, UNIT], [1.0], 1.0, True),  # one bit less
        ([BIG, UNIT], [BIG / 2, UNIT], [1.0], 3.0, False),  # an odd scale needs two bits more
        ([BIG, UNIT], [BIG / 8, UNIT], [1.0], 3.0, True),
        ([BIG, UNIT], [BIG / 16, UNIT], [1.0, 2.0], 3.0, True),  # 2^20 units, times 3 * 3
        ([BIG, UNIT], [BIG / 8, UNIT], [1.0, 2.0], 3.0, False),
        ([BIG, UNIT], [BIG / 16, UNIT], [1.0, 2.0, 4.0], 3.0, False),  # times 7 * 3
        ([1.0], [1.0], [1.0], 2.0**-126, True),
        ([0.5], [1.0], [1.0], 2.0**-126, False),  # below the smallest normal number
        ([1.0], [-1.0], [-1.0], 1.0, False),  # zero, and every term is -0
        ([1.0], [-1.0], [-1.0, 1.0], 1.0, True),  # zero, and one term is +0
        ([0.0], [1.0], [1.0], 1.0, False),  # zero, and no product is more than a zero of some sign
    ],
)
def test_what_is_proven(
    q: list[float], k: list[float], weights: list[float], scale: float, proven: bool
) -> None:
    """One bit either side of each bound, and the sign of zero."""
    assert bool(one_cell(q, k, weights, scale).proven) == proven


def test_an_order_that_differs_is_not_proven() -> None:
    """2^16 + 2^-8 + 2^-8 depends on the order, and is left to the bound."""
    made = one_cell([BIG, UNIT, UNIT], [BIG, UNIT, UNIT], [1.0], 1.0)
    terms = (2.0**16, 2.0**-8, 2.0**-8)
    sums = {add(add(a, b), c) for a, b, c in permutations(terms)}
    assert len(sums) == 2 and not bool(made.proven)
    assert all(abs(one - float(made.exact)) <= float(made.allowed) for one in sums)


def test_slots_follow_the_table() -> None:
    """Key 64 of a sequence is row 0 of its second page."""
    table = torch.tensor([5, 2], dtype=torch.int32)
    assert eightbit_pages.slots_of(table, 66)[[0, 63, 64, 65]].tolist() == [320, 383, 128, 129]
    assert pages.PAGE == eightbit_pages.PAGE_ROWS
