"""Fills give what they promise: all codes, the exact grade, addresses that can be read, poison elsewhere."""

from __future__ import annotations

import hashlib
import itertools

import pytest
import torch
from torch import Tensor

from harness.case.cases import Case, parse
from harness.case.suite import FILLS
from harness.fill import fill_address, fill_values, fills, inputs, noise, pages
from harness.fill.fills import Filled, Shape, fill
from harness.judge import bits, wanted
from harness.judge.verdict import Grade
from oracles import formats, layout

GEOMETRIES = list(itertools.product((16, 64, 128), (128, 256)))
CASE = "decode-n{n}-h{h}-d{d}-ctx300,65,0-t{t}-u0-l0-f{f}-s{s}"


def case(*, n: int = 2, h: int = 32, d: int = 128, t: str = "shuffled", f: str = "bytes", s: int = 1) -> Case:
    return parse(CASE.format(n=n, h=h, d=d, t=t, f=f, s=s))


def digest(filled: Filled) -> str:
    parts = (
        filled.q_codes,
        filled.q_scales,
        filled.k_codes,
        filled.k_scales,
        filled.weights.view(torch.int16),
    )
    return hashlib.sha256(b"".join(part.contiguous().numpy().tobytes() for part in parts)).hexdigest()[:16]


@pytest.mark.parametrize("name", FILLS)
def test_a_fill_is_the_same_every_time_and_another_for_another_seed(name: str) -> None:
    """Same shape and seed, same bytes; another seed, other bytes."""
    shape = Shape(rows=5, heads=32, dim=128, keys=70, seed=3)
    assert digest(fill(name, shape)) == digest(fill(name, shape))
    assert digest(fill(name, shape)) != digest(fill(name, Shape(5, 32, 128, 70, 4)))


def test_noise_is_pinned() -> None:
    """The generator is spelled out here, so its values can never change with a library."""
    assert [int(word) for word in noise.words(1, "a", 2)] == [
        int(word) for word in noise.words(1, "a", 3)[:2]
    ]
    assert [int(word) for word in noise.words(1, "a", 1, start=2)] == [int(noise.words(1, "a", 3)[2])]
    assert sorted(noise.permutation(5, "x", 100).tolist()) == list(range(100))
    assert noise.octets(0, "pin", (4,)).tolist() == PINNED
    assert abs(float(noise.gaussian(1, "g", (10000,)).std()) - 1) < 0.05


PINNED = [66, 226, 80, 78]


@pytest.mark.parametrize(("heads", "dim"), GEOMETRIES)
@pytest.mark.parametrize("name", ["bytes", "address", "ties", "boundary"])
def test_exact_fills_keep_the_exact_grade(name: str, heads: int, dim: int) -> None:
    """The proof holds for every row, whatever the geometry, and all 16 codes are in use."""
    made = inputs.build(case(h=heads, d=dim, f=name))
    want = wanted.want(made, "decode")
    assert want.grade is Grade.EXACT and want.over_budget == 0
    busy = made.end > made.start
    assert len(made.filled.q_codes[busy].unique()) == len(made.filled.k_codes.unique()) == 16


@pytest.mark.parametrize("name", ["natural", "wide"])
def test_the_other_fills_are_ordered(name: str) -> None:
    """Full weights or any scale leave the exact grade; with no tree known, they are bounded."""
    made = inputs.build(case(f=name))
    assert wanted.want(made, "decode").grade is Grade.ORDERED
    assert wanted.want(made, None).grade is Grade.BOUNDED


def test_wide_reaches_both_ends_of_the_scale_and_of_the_result() -> None:
    """Scale bytes 0, 254 and 255; results that are NaN, infinite, zero and, mostly, ordinary."""
    shape = Shape(rows=600, heads=16, dim=128, keys=2000, seed=5)
    filled = fill("wide", shape)
    for scales in (filled.q_scales, filled.k_scales):
        assert {0, 254, 255} <= set(scales.unique().tolist())
    made = inputs.build(parse("decode-n8-h16-d128-ctx257x16-tshuffled-u0-l0-fwide-s2"))
    values = wanted.want(made, "decode").value[made.expected]
    assert bool(values.isnan().any()) and bool(values.isinf().any())
    assert 2 * int(values.isfinite().sum()) > len(values) and 2 * int((values == 0).sum()) < len(values)


def test_window_stays_inside_the_budget() -> None:
    """Scale windows shrink as heads and dims grow, never beyond 10 exponents together."""
    spreads = [sum(fills.window(heads, dim)) - 2 for heads, dim in GEOMETRIES]
    assert max(spreads) <= 10 and min(spreads) >= 2
    assert fills.window(128, 256) <= fills.window(16, 128)


@pytest.mark.parametrize(("heads", "dim"), GEOMETRIES)
def test_every_address_can_be_read_off_the_score(heads: int, dim: int) -> None:
    """Each score spells its own key, the row's group, and the scale byte of that key and group."""
    made = inputs.build(case(n=8, h=heads, d=dim, f="address"))
    keys, groups = sum(made.case.ctx), dim // 32
    want = wanted.want(made, "decode").value
    first = torch.tensor([0, 300, 365])
    seen = set()
    for row, column in made.expected.nonzero().tolist():
        address = fill_address.decode(float(want[row, column]), keys, dim)
        assert address is not None
        key = int(first[made.seq[row]]) + column
        assert (address.key, address.group) == (key, (row + made.case.s) % groups)
        assert address.scale == int(made.filled.k_scales[key, address.group])
        seen.add(address.group)
    assert seen == set(range(groups))


@pytest.mark.parametrize("value", [0.0, -4.0, float("nan"), float("inf"), 2.0**60 + 2.0**37])
def test_what_is_no_address_is_none(value: float) -> None:
    """Zero, negative, infinite and unspeakable values spell nothing."""
    assert fill_address.decode(value, 100, 128) is None


def test_neighbours_have_other_scales() -> None:
    """In the address fill the scale of a key differs from that of the flat and of the bent row's key."""
    scales = fill_address.scale_bytes(torch.arange(64), 128)
    bent = torch.tensor([layout.bent_row(row) for row in range(64)])
    assert float((scales[bent] != scales).float().mean()) > 0.7
    assert bool((scales[:-1] != scales[1:]).all()) and bool((scales[:, :-1] != scales[:, 1:]).all())


def planes_and_owner(style: str) -> tuple[inputs.Inputs, Tensor]:
    made = inputs.build(case(t=style))
    owned = torch.zeros(made.planes.k_codes.shape[0] * 64, dtype=torch.bool)
    owned[pages.slots(made.case.ctx, made.planes.block_tables)] = True
    return made, owned


@pytest.mark.parametrize("style", ["shuffled", "tight", "wide", "strided", "identity", "far", "vast"])
def test_everything_unread_is_poison(style: str) -> None:
    """Rows past a length and pages of nobody hold 0xFF and 255; pads point at a page of nobody."""
    made, owned = planes_and_owner(style)
    planes = made.planes
    codes = planes.k_codes.permute(0, 3, 1, 2, 4).flatten(2).flatten(0, 1)
    bent = torch.tensor([layout.bent_row(row) for row in range(64)])
    scales = planes.k_scales[..., bent].permute(0, 3, 1, 2).flatten(2).flatten(0, 1)
    assert bool((codes[~owned] == 0xFF).all()) and bool((scales[~owned] == 255).all())
    assert not bool((scales[owned] == 255).any())
    for sequence, length in enumerate(made.case.ctx):
        for entry in planes.block_tables[sequence, -(-length // 64) :].tolist():
            assert not bool(owned[entry * 64 : entry * 64 + 64].any())


def test_table_styles() -> None:
    """Tight ends with the last page, shuffled with the chunk, wide far later; identity is in order."""
    widths = {
        style: inputs.build(case(t=style)).planes.block_tables.shape[1]
        for style in ("tight", "shuffled", "wide")
    }
    assert widths == {"tight": 5, "shuffled": 8, "wide": 44}
    assert inputs.build(case(t="identity")).planes.block_tables[0, :5].tolist() == [0, 1, 2, 3, 4]
    assert inputs.build(case(t="shuffled")).planes.block_tables[0, :5].tolist() != [0, 1, 2, 3, 4]


def test_strided_tensors_are_slices_of_poison() -> None:
    """Planes, rows and tables start inside a larger tensor, and the score buffer has gaps."""
    made = inputs.build(case(t="strided"))
    planes = made.planes
    for tensor in (
        planes.q_codes,
        planes.q_scales,
        planes.k_codes,
        planes.k_scales,
        planes.block_tables,
        planes.weights,
    ):
        assert tensor.storage_offset() > 0 and tensor.is_contiguous()
    out = made.buffer()
    assert out.shape == (6, 512) and out.stride(0) == 512 + inputs.GAP
    assert bool((bits.bits_of(out) == bits.SENTINEL).all())


@pytest.mark.parametrize(("style", "unit"), [("far", 4), ("vast", 1)])
def test_far_rows_pass_the_reach_of_32_bits(style: str, unit: int) -> None:
    """The last row starts past 2^31 bytes (far) or elements (vast); memory in between is not touched."""
    out = inputs.build(case(t=style)).buffer()
    assert (out.shape[0] - 1) * out.stride(0) * unit >= 2**31
    assert bool((bits.bits_of(out) == bits.SENTINEL).all())


def test_rows_that_see_nothing_hold_poison() -> None:
    """Query rows without a visible key have poisoned codes, scales and huge weights; the others do not."""
    made = inputs.build(case(n=2))
    empty = made.end <= made.start
    assert empty.tolist() == [False] * 4 + [True] * 2
    assert bool((made.planes.q_codes[empty] == 0xFF).all()) and bool(
        (made.planes.weights[empty] > 1e30).all()
    )
    assert not bool((made.filled.q_scales[~empty] == 255).any())


def test_rows_of_nobody_are_declared_undefined() -> None:
    """``defined`` is true exactly for the bytes of the keys: 64 of codes and 4 of scales each at D = 128."""
    made = inputs.build(case())
    keys = sum(made.case.ctx)
    codes, scales = made.planes.defined["k_codes"], made.planes.defined["k_scales"]
    assert int(codes.sum()) == keys * made.case.d // 2 and int(scales.sum()) == keys * made.case.d // 32
    assert bool((made.planes.k_scales[~scales] == 255).all()) and bool(
        (made.planes.k_codes[~codes] == 0xFF).all()
    )


def test_operands_do_not_depend_on_schedule_or_chunks() -> None:
    """Two schedules of one case are asked about the same numbers."""
    one = inputs.build(parse("decode-n2-h32-d128-ctx300-tshuffled-u2-l0-fbytes-s1"))
    other = inputs.build(parse("decode-n2-h32-d128-ctx300-tshuffled-u64-l900-fbytes-s1"))
    assert digest(one.filled) == digest(other.filled)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_boundary_values_sit_on_the_edges(dtype: torch.dtype) -> None:
    """All midpoints of both signs, -0, maxima at 6 * 2^k and one unit either side, quiet and zero groups."""
    x = fill_values.values("boundary", 256, 128, 1, dtype).reshape(-1, 32)
    maximum = x.float().abs().amax(1)
    scaled = x.float() / torch.exp2(torch.floor(torch.log2(maximum / 6)))[:, None]
    for midpoint in fill_values.MIDPOINTS:
        assert bool((scaled == midpoint).any()) and bool((scaled == -midpoint).any())
    mantissa = torch.frexp(maximum)[0]
    unit = torch.finfo(dtype).eps / 2
    for wanted_mantissa in (0.75, 0.75 + unit, 0.75 - unit):
        assert bool((mantissa == wanted_mantissa).any())
    assert bool((maximum == 0).any()) and bool(((maximum > 0) & (maximum < 1e-4)).any())
    codes, _ = formats.quantise(x, formats.PRODUCTION)
    assert len(codes.unique()) == 16


@pytest.mark.parametrize("name", ["natural", "boundary", "bytes", "wide"])
def test_values_for_the_quantiser(name: str) -> None:
    """Every value fill has the shape and type asked for; wide alone holds NaN and infinity."""
    x = fill_values.values(name, 64, 256, 2)
    assert x.shape == (64, 256) and x.dtype == torch.bfloat16
    assert bool(x.isnan().any()) == bool(x.isinf().any()) == (name == "wide")


def test_an_unknown_fill_is_refused() -> None:
    """The sentence lists what there is."""
    with pytest.raises(ValueError, match="bytes, wide"):
        fill("nosuch", Shape(1, 16, 128, 1, 0))
    with pytest.raises(ValueError, match="natural, boundary"):
        fill_values.values("nosuch", 1, 128, 0)
