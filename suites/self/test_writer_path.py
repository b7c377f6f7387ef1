"""The fused writer gives the values that the field reports ask for: in-tree, oracle and a third alike."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.case import case_lists
from harness.checks.writer import inputs as writer_inputs
from harness.paths.base import Outcome
from harness.paths.flydsl import writing as in_tree
from harness.paths.oracle import writing as by_oracle
from harness.paths.requests.writing import WriteTokens
from oracles import formats, layout, prepare
from suites.self.writer_faulty import FaultyWriter

Writer = Callable[[WriteTokens], Outcome]
WRITERS: dict[str, Writer] = {
    "in-tree": in_tree.write_tokens,
    "oracle": by_oracle.write_tokens,
    "step by step": FaultyWriter().write_tokens,
}
POISON = 0xA5
TABLES = prepare.rope_tables(4096)
SIGNS = torch.tensor([1.0, -1.0] * 64)


@pytest.fixture(params=list(WRITERS))
def write(request: pytest.FixtureRequest) -> Writer:
    return WRITERS[request.param]


def asked(rows: int = 1, heads: int = 16, blocks: int = 2, **given: Any) -> WriteTokens:
    """Zero queries and keys at position 0, row t in slot t, and poison in all that is written."""

    def poison(*size: int) -> Tensor:
        return torch.full(size, POISON, dtype=torch.uint8)

    made: dict[str, Any] = {
        "q": torch.zeros(rows, heads, 128).bfloat16(),
        "k": torch.zeros(rows, 128).bfloat16(),
        "weights": torch.zeros(rows, heads).bfloat16(),
        "norm_weight": torch.ones(128),
        "norm_bias": torch.zeros(128),
        "cos": TABLES[0],
        "sin": TABLES[1],
        "positions": torch.zeros(rows, dtype=torch.int64),
        "slots": torch.arange(rows),
        "epsilon": 1e-6,
        "weights_scale": 128**-0.5 * heads**-0.5,
        "pairing": "neox",
        "compute_all_q_rope": False,
        "q_codes": poison(rows, heads, 64),
        "q_scales": poison(rows, 1, 4, 16, layout.tile_pad(heads)),
        "weights_out": torch.full((rows, heads), torch.nan).bfloat16(),
        "k_codes": poison(blocks, 1, 4, 64, 16),
        "k_scales": poison(blocks, 1, 4, 64),
    }
    return WriteTokens(**{**made, **given})


def query(request: WriteTokens, row: int, head: int) -> tuple[list[int], list[int]]:
    """(128 codes, 4 scale bytes)."""
    codes = layout.unpack_nibbles(request.q_codes[row, head])
    return codes.tolist(), request.q_scales[row, 0, :, head % 16, head // 16].tolist()


def key(request: WriteTokens, slot: int) -> tuple[list[int], list[int]]:
    place = slot % 64 % 16 * 4 + slot % 64 // 16
    codes = layout.unpack_nibbles(request.k_codes[slot // 64, 0, :, slot % 64].flatten())
    return codes.tolist(), request.k_scales[slot // 64, 0, :, place].tolist()


def both(values: Tensor, write: Writer) -> tuple[list[int], list[int]]:
    """Codes and scales of ``values`` [128], as a query and (by LayerNorm's weights) as a key: the same."""
    q = torch.zeros(1, 16, 128)
    q[0, 3] = values
    request = asked(q=q.bfloat16(), k=SIGNS[None].bfloat16(), norm_weight=values * SIGNS)
    write(request)
    assert query(request, 0, 3) == key(request, 0)
    return key(request, 0)


def test_the_scale_is_rounded_up(write: Writer) -> None:
    """Field report B01: 6.0 and 12.0 stay, 6.03125 goes up (floor would not), 7.0 too (even would not)."""
    maxima, want = (6.0, 6.03125, 6.5, 7.0, 8.0, 12.0, 13.0), (127, 128, 128, 128, 128, 128, 129)
    values = torch.zeros(2, 128)
    values.view(8, 32)[:7, 5] = torch.tensor(maxima)
    scales = [byte for row in values for byte in both(row, write)[1]]
    assert tuple(scales) == (*want, 1)


def test_midpoints_go_to_even_on_both_sides_of_zero(write: Writer) -> None:
    """Field report B02."""
    midpoints = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0])
    values = torch.zeros(128)
    values[64:71], values[71:78], values[80] = midpoints, -midpoints, 6.0
    codes, scales = both(values, write)
    decoded = formats.decode(formats.E2M1, torch.tensor(codes[64:78], dtype=torch.uint8))
    assert scales[2] == 127 and decoded.tolist() == [0, 1, 1, 2, 2, 4, 4, 0, -1, -1, -2, -2, -4, -4]
    assert (codes[64], codes[71]) == (0, 8)


def test_every_code_comes_back(write: Writer) -> None:
    """Field report B02: decode and encode is the identity on all sixteen, -0 included (past the rotation)."""
    codes = torch.arange(16, dtype=torch.uint8).repeat(8)
    q = formats.decode(formats.E2M1, codes).expand(1, 16, 128)
    request = asked(q=q.bfloat16())
    write(request)
    made, scales = query(request, 0, 0)
    assert made[64:] == codes[64:].tolist() and scales == [127] * 4


@pytest.mark.parametrize(
    ("loudest", "byte", "code"), [(7e-6, 108, 6), (3e-5, 110, 6), (2.0**-126, 1, 2), (0.0, 1, 0)]
)
def test_quiet_groups_keep_their_size(write: Writer, loudest: float, byte: int, code: int) -> None:
    """Field report B03: the floor of a group's maximum is 6 * 2^-126, so 7e-6 is 4 * 2^-19."""
    codes, scales = both(torch.full((128,), loudest).bfloat16().float(), write)
    assert (set(codes), set(scales)) == ({code}, {byte})


def test_layer_norm_takes_its_weights_in_float32(write: Writer) -> None:
    """Field report B04: (1.001 - 1) is 4 * 2^-12; rounded to bfloat16 the weight is 1 and nothing is left."""
    sign = torch.ones(128)
    sign[:64] = -1
    request = asked(
        k=sign[None].bfloat16(), norm_weight=torch.full((128,), 1.001), norm_bias=torch.full((128,), -1.0)
    )
    write(request)
    codes, scales = key(request, 0)
    assert (set(codes[64:]), scales[2:]) == ({6}, [115, 115])
    assert (set(codes[:64]), scales[:2]) == ({14}, [126, 126])


def test_even_dims_lie_in_the_low_nibble(write: Writer) -> None:
    """Field report B07: codes 1, 2, 3 ... in consecutive dims, looked at as bytes."""
    values = torch.tensor([0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 6.0]).repeat(16)
    q = values.expand(1, 16, 128)
    request = asked(q=q.bfloat16(), k=SIGNS[None].bfloat16(), norm_weight=values * SIGNS)
    write(request)
    assert request.q_codes[0, 9, :4].tolist() == [0x21, 0x43, 0x65, 0x77]
    assert request.k_codes[0, 0, 0, 0, :4].tolist() == [0x21, 0x43, 0x65, 0x77]


@pytest.mark.parametrize("pairing", prepare.PAIRINGS)
@pytest.mark.parametrize("position", (0, 1, 4095))
def test_energy_turns_up_at_the_partner(write: Writer, pairing: str, position: int) -> None:
    """Field report B08: one dim at a time, all 64 of them; position 0 is the identity."""
    q = torch.eye(128)[:64].reshape(4, 16, 128).bfloat16()
    request = asked(
        4, q=q, positions=torch.full((4,), position), pairing=pairing, slots=torch.tensor([3, 2, 1, 0])
    )
    write(request)
    for dim in range(64):
        codes, scales = query(request, dim // 16, dim % 16)
        partner = dim ^ (32 if pairing == "neox" else 1)
        pair = dim % 32 if pairing == "neox" else dim // 2
        angle = position * 10000.0 ** (-pair / 32)
        lead = dim < 32 if pairing == "neox" else dim % 2 == 0
        assert {place for place, code in enumerate(codes) if code % 8} <= {dim, partner}
        step = [2.0 ** (byte - 127) for byte in scales]
        value = formats.decode(formats.E2M1, torch.tensor(codes, dtype=torch.uint8)).tolist()
        for place, right in ((dim, math.cos(angle)), (partner, math.sin(angle) * (1 if lead else -1))):
            # Half the widest step of E2M1 (between 4 and 6) is one unit of the scale; tables are bfloat16.
            assert abs(value[place] * step[place // 32] - right) <= step[place // 32] + 2.0**-8
        assert position or codes[partner] % 8 == 0


def test_a_rotated_one_is_cosine_and_sine(write: Writer) -> None:
    """Position 1, dim 0: cos 1 = 0.54 is 4/8, sin 1 = 0.84 is 3/4, at dim 32 or at dim 1."""
    q = torch.zeros(1, 16, 128)
    q[0, :, 0] = 1.0
    request = asked(q=q.bfloat16(), positions=torch.tensor([1]))
    write(request)
    codes, scales = query(request, 0, 0)
    assert (codes[0], codes[32], scales[:2]) == (6, 5, [124, 125])
    request = asked(q=q.bfloat16(), positions=torch.tensor([1]), pairing="interleaved")
    write(request)
    codes, scales = query(request, 0, 0)
    assert (codes[0], codes[1], codes[32], scales[:2]) == (4, 5, 0, [125, 1])


@pytest.mark.parametrize("heads", (32, 64))
def test_weights_are_copied_and_never_scaled(write: Writer, heads: int) -> None:
    """Field report B10: both signs, -0, and what 0.1 % apart means in bfloat16 stays apart."""
    weights = torch.linspace(-3, 3, heads).bfloat16()[None].clone()
    weights[0, 3:7] = torch.tensor([-0.0, 1.0, 1.0078125, torch.inf])
    request = asked(heads=heads, weights=weights)
    write(request)
    assert torch.equal(request.weights_out.view(torch.int16), weights.view(torch.int16))


def test_key_scales_lie_at_the_bent_row(write: Writer) -> None:
    """Field report B11: rows 0, 1, 2, 15, 16, 17, 63 at 0, 4, 8, 60, 1, 5, 63, each its own loudness."""
    want = torch.full((64,), POISON)
    request = asked(k=SIGNS[None].bfloat16())
    for row, place in {0: 0, 1: 4, 2: 8, 15: 60, 16: 1, 17: 5, 63: 63}.items():
        loud = torch.full((128,), 6 * 2.0 ** (row % 8))
        write(replace(request, slots=torch.tensor([64 + row]), norm_weight=loud))
        want[place] = 127 + row % 8
    assert request.k_scales[1, 0].tolist() == [want.tolist()] * 4
    assert bool((request.k_scales[0] == POISON).all()) and bool((request.k_codes[0] == POISON).all())


@pytest.mark.parametrize("every", (False, True))
def test_padding_rows_change_no_cache_byte(write: Writer, every: bool) -> None:
    """Field report B15: slot -1 with position 2^30; queries only where all are asked for, and clamped."""
    q = torch.randn(4, 16, 128, generator=torch.Generator().manual_seed(1)).bfloat16()
    request = asked(
        4,
        q=q,
        slots=torch.full((4,), -1),
        positions=torch.tensor([1 << 30, -5, 4096, 7]),
        compute_all_q_rope=every,
    )
    write(request)
    assert bool((request.k_codes == POISON).all()) and bool((request.k_scales == POISON).all())
    if not every:
        assert bool((request.q_codes == POISON).all()) and bool((request.q_scales == POISON).all())
        assert request.weights_out.isnan().all()
        return
    inside = asked(4, q=q, positions=torch.tensor([4095, 0, 4095, 7]))
    write(inside)
    assert torch.equal(request.q_codes, inside.q_codes) and torch.equal(request.q_scales, inside.q_scales)


def test_more_rows_than_slots_are_refused(write: Writer) -> None:
    """Field report B15: 512 rows, 509 slots; nothing is written then."""
    request = asked(512, blocks=9, slots=torch.arange(509))
    with pytest.raises(ValueError, match="slot"):
        write(request)
    assert all(bool((output == POISON).all()) for output in (request.q_codes, request.k_codes))


def test_every_rank_has_all_queries(write: Writer) -> None:
    """Field report B16: four ranks, five tokens; each rank writes its own keys, and all the same queries."""
    seeded = torch.Generator().manual_seed(2)
    shared: dict[str, Any] = {
        "q": torch.randn(5, 16, 128, generator=seeded).bfloat16(),
        "k": torch.randn(5, 128, generator=seeded).bfloat16(),
        "weights": torch.randn(5, 16, generator=seeded).bfloat16(),
        "positions": torch.arange(5),
    }
    made = []
    for rank in range(4):
        token = torch.arange(5)
        slots = torch.where(token % 4 == rank, token // 4, -1)
        request = asked(5, slots=slots, compute_all_q_rope=True, **shared)
        write(request)
        assert int((request.k_codes != POISON).any(4).any(2).sum()) == int((slots >= 0).sum())
        made.append(request)
    for request in made:
        assert torch.equal(request.q_codes, made[0].q_codes) and torch.equal(
            request.q_scales, made[0].q_scales
        )
        assert torch.equal(request.weights_out, shared["weights"])


def test_a_padded_batch_leaves_page_0_alone(write: Writer) -> None:
    """Field report B17: three rows in a bucket of eight, a live sequence in page 0."""
    slots = torch.tensor([64, 65, 100, -1, -1, -1, -1, -1])
    request = asked(8, slots=slots, k=SIGNS.expand(8, 128).bfloat16())
    write(request)
    assert bool((request.k_codes[0] == POISON).all()) and bool((request.k_scales[0] == POISON).all())
    assert int((request.k_codes[1] != POISON).any(3).any(1).sum()) == 3
    assert request.weights_out.isnan().any(1).tolist() == [False] * 3 + [True] * 5


@pytest.mark.parametrize("heads", (16, 32, 80, 128))
def test_pad_tiles_are_zero_in_written_rows_only(write: Writer, heads: int) -> None:
    request = asked(2, heads, slots=torch.tensor([-1, 5]))
    write(request)
    pads = request.q_scales[..., heads // 16 :]
    assert bool((pads[0] == POISON).all()) and bool((pads[1] == 0).all())
    assert bool((request.q_scales[1, ..., : heads // 16] == 1).all())


# the in-tree writer by itself


def test_a_nan_is_left_out_of_the_maximum() -> None:
    """As ``fmaxf`` leaves it out in production; an infinity gives 255."""
    q = torch.full((1, 16, 128), 1.5)
    q[0, 0, 70], q[0, 0, 100] = torch.nan, torch.inf
    request = asked(q=q.bfloat16())
    in_tree.write_tokens(request)
    codes, scales = query(request, 0, 0)
    assert scales == [125, 125, 125, 255]
    assert {code for dim, code in enumerate(codes[:96]) if dim != 70} == {7}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "dim": ({"q": torch.zeros(1, 16, 256).bfloat16()}, "128 columns"),
    "heads": ({"q": torch.zeros(1, 24, 128).bfloat16()}, "multiples of 16 heads"),
    "positions": ({"positions": torch.tensor([7]).int()}, "positions is torch.int32, allowed is torch.int64"),
    "slots": ({"slots": torch.tensor([7]).int()}, "slots is torch.int32, allowed is torch.int64"),
    "position": ({"positions": torch.tensor([4096])}, "positions has a value outside 0 to 4095"),
    "slot": ({"slots": torch.tensor([128])}, "allowed are slots below 128"),
    "pairing": ({"pairing": "gptj"}, "pairing is 'gptj', allowed are neox, interleaved"),
    "tables": ({"cos": torch.zeros(9, 16).bfloat16()}, "allowed is \\[positions, 32\\]"),
    "scales": ({"q_scales": torch.zeros(1, 1, 4, 16, 1, dtype=torch.uint8)}, "q_scales is .*4\\]"),
    "page": ({"k_scales": torch.zeros(2, 1, 4, 16, dtype=torch.uint8)}, "k_scales is "),
    "gaps": ({"norm_bias": torch.zeros(256)[::2]}, "norm_bias has gaps"),
    "columns": ({"k": torch.zeros(1, 256).bfloat16()[:, ::2]}, "k has gaps along its last axis"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_before_anything_is_written(name: str) -> None:
    given, says = REFUSED[name]
    request = asked(**given)
    with pytest.raises(ValueError, match=says):
        in_tree.write_tokens(request)
    assert bool((request.k_codes == POISON).all()) and bool((request.q_codes == POISON).all())


def test_no_rows_at_all() -> None:
    request = asked(0)
    assert in_tree.write_tokens(request).facts["executor"] in ("interpreted", "device")


def test_even_seeds_have_gaps_between_rows() -> None:
    """The listed cases ask with and without them."""
    strides = set()
    for case in case_lists.listed("writer", "smoke"):
        made = writer_inputs.build(case)
        strides.add((made.q.is_contiguous(), made.k.is_contiguous(), made.cos.is_contiguous()))
    assert strides == {(True, True, True), (False, False, False)}
