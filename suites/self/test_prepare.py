"""What is true of the writer's arithmetic, of both the vectorised functions and their scalar twins."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from oracles import layout, prepare
from oracles.formats import PRODUCTION, quantise
from oracles.prepare import Writer, Written
from oracles.scalar import prepare as scalar


def noise(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def bits(values: Tensor) -> list[int]:
    return values.float().contiguous().view(torch.int32).flatten().tolist()


def norm_both(x: Tensor, weight: Tensor, bias: Tensor, variance: str = "population") -> Tensor:
    fast = prepare.layer_norm(x, weight, bias, variance=variance)
    slow = [
        scalar.layer_norm(row, weight.tolist(), bias.tolist(), variance=variance)
        for row in x.float().tolist()
    ]
    assert fast.dtype == torch.bfloat16 and bits(fast) == bits(torch.tensor(slow, dtype=torch.float64))
    return fast


def rope_both(x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor, pairing: str) -> Tensor:
    fast = prepare.rope(x, cos, sin, positions, pairing=pairing)
    table = cos.float().tolist(), sin.float().tolist()
    for row, place in enumerate(positions.tolist()):
        for got, vector in zip(fast[row].view(-1, x.shape[-1]), x[row].view(-1, x.shape[-1]), strict=True):
            want = scalar.rope(vector.tolist(), table[0][place], table[1][place], pairing=pairing)
            assert bits(got) == bits(torch.tensor(want, dtype=torch.float64))
    return fast


# ------------------------------------------------------------------------------- layer norm


@pytest.mark.parametrize("variance", prepare.VARIANCES)
def test_layer_norm_agrees_with_the_twin(variance: str) -> None:
    """Weights that bfloat16 cannot hold (field report B04), an offset mean, a tiny spread."""
    x = (noise(1, 6, 128) * torch.tensor([1.0, 30.0, 1e-3, 1.0, 1.0, 1e-4]).unsqueeze(1) + 3).bfloat16()
    norm_both(x, 1.001 + 0.1 * noise(2, 128), 0.1 * noise(3, 128), variance)


def test_layer_norm_is_torchs_up_to_float32_rounding() -> None:
    """torch's own float32 layer norm, an outside opinion: the same bfloat16 or its neighbour."""
    x, weight, bias = noise(4, 200, 128).bfloat16(), 1 + 0.1 * noise(5, 128), 0.1 * noise(6, 128)
    ours = prepare.layer_norm(x, weight, bias)
    theirs = torch.nn.functional.layer_norm(x.float(), (128,), weight, bias, eps=1e-6).bfloat16()
    steps = (ours.view(torch.int16).int() - theirs.view(torch.int16).int()).abs()
    assert int(steps.max()) <= 1 and int((steps == 0).sum()) > 0


def test_the_variance_rules_differ() -> None:
    x, one, zero = noise(7, 3, 128).bfloat16(), torch.ones(128), torch.zeros(128)
    assert bits(norm_both(x, one, zero)) != bits(norm_both(x, one, zero, "sample"))


def test_a_constant_key_is_its_bias() -> None:
    """Zero variance: eps keeps the root away from zero."""
    bias = noise(8, 128)
    got = norm_both(torch.full((1, 128), 7.0).bfloat16(), torch.ones(128), bias)
    assert bits(got[0]) == bits(bias.bfloat16())


# ------------------------------------------------------------------------------- rotation


@pytest.mark.parametrize("pairing", prepare.PAIRINGS)
def test_rope_agrees_with_the_twin(pairing: str) -> None:
    cos, sin = prepare.rope_tables(50)
    positions = torch.tensor([0, 1, 7, 49])
    rope_both(noise(9, 4, 128).bfloat16(), cos, sin, positions, pairing)
    rope_both(noise(10, 4, 3, 256).bfloat16(), cos, sin, positions, pairing)


@pytest.mark.parametrize(("pairing", "partner"), [("neox", {0: 32, 1: 33}), ("interleaved", {0: 1, 1: 0})])
@pytest.mark.parametrize("position", (0, 1, 4095))
def test_energy_appears_at_the_named_partner(pairing: str, partner: dict[int, int], position: int) -> None:
    """Field report B08: one-hot input; position 0 is the identity and proves nothing."""
    cos, sin = prepare.rope_tables(4096)
    for dim, other in partner.items():
        x = torch.zeros(1, 128).bfloat16()
        x[0, dim] = 1.0
        got = rope_both(x, cos, sin, torch.tensor([position]), pairing)[0]
        touched = set(got.nonzero().flatten().tolist())
        assert touched == ({dim} if position == 0 else {dim, other})


def test_dims_past_the_rotation_pass_through() -> None:
    x = noise(11, 2, 128).bfloat16()
    got = prepare.rotate(x, torch.tensor([3, 900]), pairing="neox")
    assert bits(got[:, 64:]) == bits(x[:, 64:]) and bits(got[:, :64]) != bits(x[:, :64])


def test_positions_outside_the_tables_are_refused() -> None:
    cos, sin = prepare.rope_tables(8)
    for position in (-1, 8):
        with pytest.raises(ValueError, match="positions has a value outside 0 to 7"):
            prepare.rope(torch.zeros(1, 128), cos, sin, torch.tensor([position]), pairing="neox")
    with pytest.raises(ValueError, match="pairing is 'gptj', allowed are neox, interleaved"):
        prepare.rope(torch.zeros(1, 128), cos, sin, torch.tensor([1]), pairing="gptj")


def test_hadamard_agrees_with_the_twin_and_undoes_itself() -> None:
    """(Hq).(Hk) = q.k, and H is its own inverse (field report B09)."""
    x = torch.randint(-8, 9, (2, 128), generator=torch.Generator().manual_seed(12)).bfloat16()
    got = prepare.hadamard(x)
    slow = [scalar.hadamard(row) for row in x.float().tolist()]
    assert bits(got) == bits(torch.tensor(slow, dtype=torch.float64))
    basis = prepare.hadamard(torch.eye(128).bfloat16()).double() * 128**0.5
    assert torch.equal((basis.round() @ basis.round().T), 128 * torch.eye(128, dtype=torch.float64))
    with pytest.raises(ValueError, match="x has 96 columns, allowed are powers of two"):
        prepare.hadamard(torch.zeros(1, 96))


# ------------------------------------------------------------------------------- weights


def test_fp4_weights_are_an_unscaled_copy() -> None:
    weights = noise(13, 3, 16)
    assert bits(prepare.fold_weights(weights, convention="fp4")) == bits(weights.bfloat16())
    with pytest.raises(ValueError, match="convention fp4 takes no q_scale"):
        prepare.fold_weights(weights, convention="fp4", weight_scale=0.1)


def test_fp8_weights_carry_both_scales() -> None:
    weights, q_scale = noise(14, 3, 16).bfloat16(), noise(15, 3, 16).abs()
    got = prepare.fold_weights(weights, convention="fp8", q_scale=q_scale, weight_scale=0.011)
    pairs = zip(weights.float().flatten().tolist(), q_scale.flatten().tolist(), strict=True)
    want = [scalar.fold_fp8(weight, scale, 0.011) for weight, scale in pairs]
    assert got.dtype == torch.float32 and bits(got) == bits(torch.tensor(want, dtype=torch.float64))
    with pytest.raises(ValueError, match="convention fp8 needs q_scale and weight_scale"):
        prepare.fold_weights(weights, convention="fp8", q_scale=q_scale)


# ------------------------------------------------------------------------------- the whole writer

HEADS = 16


def setting(*, turned: bool = False) -> Writer:
    cos, sin = prepare.rope_tables(100)
    return Writer(
        1 + 0.1 * noise(20, 128), 0.1 * noise(21, 128), cos, sin, "neox", PRODUCTION, hadamard=turned
    )


def write(
    writer: Writer, slots: list[int], positions: list[int], *, compute_all: bool
) -> tuple[Written, Tensor, Tensor]:
    rows = len(positions)
    k_codes = torch.full((3, 1, 4, 64, 16), 0xAB, dtype=torch.uint8)
    k_scales = torch.full((3, 1, 4, 64), 0xCD, dtype=torch.uint8)
    written = prepare.write_tokens(
        writer,
        noise(22, rows, HEADS, 128).bfloat16(),
        noise(23, rows, 128).bfloat16(),
        noise(24, rows, HEADS).bfloat16(),
        torch.tensor(positions),
        torch.tensor(slots),
        k_codes,
        k_scales,
        compute_all_q_rope=compute_all,
    )
    return written, k_codes, k_scales


SLOTS, POSITIONS = [130, -1, 5, -1, 64], [0, 2**30, 7, -4, 99]


@pytest.mark.parametrize("turned", (False, True))
def test_rows_are_normalised_turned_quantised_and_scattered(turned: bool) -> None:
    writer = setting(turned=turned)
    written, k_codes, k_scales = write(writer, SLOTS, POSITIONS, compute_all=False)
    k, q = noise(23, 5, 128).bfloat16(), noise(22, 5, HEADS, 128).bfloat16()
    finish = prepare.hadamard if turned else lambda x: x
    for row in (0, 2, 4):
        place = torch.tensor(POSITIONS[row : row + 1])
        normal = prepare.layer_norm(k[row : row + 1], writer.norm_weight, writer.norm_bias)
        codes, scales = quantise(finish(prepare.rotate(normal, place)), PRODUCTION)
        block, slot = divmod(SLOTS[row], 64)
        assert k_codes[block, 0, :, slot].flatten().tolist() == layout.pack_nibbles(codes)[0].tolist()
        assert k_scales[block, 0, :, layout.bent_row(slot)].tolist() == scales[0].tolist()
        codes, scales = quantise(finish(prepare.rotate(q[row : row + 1], place)), PRODUCTION)
        assert written.q_codes[row].tolist() == layout.pack_nibbles(codes)[0].tolist()
        assert layout.read_query_scales(written.q_scales[row : row + 1], HEADS).tolist() == scales.tolist()


def test_negative_slots_are_skipped_whole() -> None:
    """Nonsense positions of padded rows are never looked up; no cache byte changes (B15, B17)."""
    written, k_codes, k_scales = write(setting(), SLOTS, POSITIONS, compute_all=False)
    assert written.defined.tolist() == [True, False, True, False, True]
    assert written.weights[[1, 3]].isnan().all() and not written.weights[[0, 2, 4]].isnan().any()
    assert bool((written.q_codes[[1, 3]] == 0xFF).all()) and bool((written.q_scales[[1, 3]] == 255).all())
    assert int((k_scales != 0xCD).any(dim=(1, 2)).sum()) == 3
    assert int((k_codes != 0xAB).any(dim=4).any(dim=(1, 2)).sum()) == 3


def test_a_nan_takes_no_part_in_its_groups_scale() -> None:
    """Production takes the maximum by fmaxf; an infinity still gives 255."""
    x = noise(25, 2, 128).bfloat16()
    x[0, 5], x[1, 70] = torch.nan, torch.inf
    x[1, 40:64] = torch.nan
    _, scales = quantise(prepare.without_nans(x), PRODUCTION)
    _, without = quantise(x.masked_fill(x.isnan(), 0.0), PRODUCTION)
    assert torch.equal(scales, without) and (scales == 255).nonzero().tolist() == [[1, 2]]


def test_all_queries_are_computed_on_request_and_keys_still_skipped() -> None:
    """compute_all_q_rope (B16): positions are clamped into the tables, the cache is the same."""
    some, *planes = write(setting(), SLOTS, POSITIONS, compute_all=False)
    everything, *same = write(setting(), SLOTS, POSITIONS, compute_all=True)
    assert everything.defined.all() and not everything.weights.isnan().any()
    assert [plane.tolist() for plane in planes] == [plane.tolist() for plane in same]
    assert everything.q_codes[some.defined].tolist() == some.q_codes[some.defined].tolist()
    clamped, *_ = write(setting(), [1, 2, 3, 4, 6], [0, 99, 7, 0, 99], compute_all=False)
    assert everything.q_codes.tolist() == clamped.q_codes.tolist()


def test_more_rows_than_slots_are_refused() -> None:
    with pytest.raises(ValueError, match="slots has 4 entries, allowed is one for each of 5 rows"):
        write(setting(), SLOTS[:4], POSITIONS, compute_all=False)
