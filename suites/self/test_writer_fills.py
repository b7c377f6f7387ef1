"""The writer's fills give what they promise: keys with one right value, edges, buffers that hold noise."""

from __future__ import annotations

import pytest
import torch

from harness.case.case_limits import CaseError
from harness.case.cases import Case, parse
from harness.case.lists.writer import FILLS
from harness.checks.writer import inputs as writer_inputs
from harness.checks.writer import wanted as writer_wanted
from harness.fill import fill_writer
from harness.fill.fill_writer import Asked, Drawn
from harness.paths.requests.writing import WRITTEN_TOKENS, WriteTokens
from oracles import formats, normalise, prepare

POSITIONS = torch.tensor([0, 1, 4095] * 8)


def drawn(name: str, seed: int = 1) -> Drawn:
    return fill_writer.fill(name, Asked(16, POSITIONS, seed))


def built(**fields: object) -> tuple[Case, WriteTokens]:
    case = parse("writer-r20-h16-d128-pairneox-all0-p3-fspread-s1").but(**fields)
    return case, writer_inputs.build(case)


@pytest.mark.parametrize("name", FILLS)
def test_a_fill_is_the_same_every_time_and_another_for_another_seed(name: str) -> None:
    one, again, other = (
        torch.cat([made.q.flatten().view(torch.int16), made.k.flatten().view(torch.int16)])
        for made in (drawn(name), drawn(name), drawn(name, 2))
    )
    assert torch.equal(one, again) and not torch.equal(one, other)


@pytest.mark.parametrize("name", [name for name in FILLS if name != "natural"])
@pytest.mark.parametrize("seed", (1, 2, 3))
def test_keys_have_one_right_value_before_the_rotation(name: str, seed: int) -> None:
    made = drawn(name, seed)
    held = normalise.layer_norm_range(made.k, made.norm_weight, made.norm_bias)
    assert not held.open.any()


def test_natural_keys_are_the_ones_that_are_open() -> None:
    made = fill_writer.fill("natural", Asked(16, torch.zeros(200, dtype=torch.int64), 1))
    assert normalise.layer_norm_range(made.k, made.norm_weight, made.norm_bias).open.any()


def test_too_few_decided_keys_are_an_error() -> None:
    """One less one: what is left is the rounding itself, so no key is the same in every order."""
    with pytest.raises(RuntimeError, match="only 0 of 304 drawn keys have one right value, 3 are needed"):
        fill_writer.decided(
            lambda count: fill_writer.signs(3 * count, 1)[::3].bfloat16(),
            3,
            torch.ones(128),
            torch.full((128,), -1.0),
        )


def test_an_unknown_fill_is_refused() -> None:
    with pytest.raises(ValueError, match="fill is 'wide', allowed for the writer are natural, spread"):
        drawn("wide")


def test_signs_are_balanced_and_every_third_key_is_one_group() -> None:
    made = fill_writer.signs(12, 5)
    assert made.sum(1).tolist() == [0.0] * 12
    assert (made != 0).sum(1).tolist() == [128, 128, 32] * 4
    groups = [row.view(4, 32).any(1).nonzero().flatten().tolist() for row in made[2::3]]
    assert groups == [[0], [1], [2], [3]]


def test_boundary_keys_hit_every_midpoint() -> None:
    """In the last group, past the rotation, where both signs come out as they are."""
    made = drawn("boundary", 3)
    normal = prepare.layer_norm(made.k, made.norm_weight, made.norm_bias)[:, 96:].float()
    ratios = (normal[0] / normal[0].abs().max() * 6).tolist()
    want = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0}
    assert {abs(ratio) for ratio in ratios} == want | {6.0}
    assert {ratio for made in normal for ratio in (made / made.abs().max() * 6).tolist()} >= {
        -m for m in want
    }


def test_spread_scales_differ_by_row_and_group() -> None:
    """So that a scale in another row's place is another scale."""
    made = drawn("spread")
    _, scales = formats.quantise(
        prepare.layer_norm(made.k, made.norm_weight, made.norm_bias), formats.PRODUCTION
    )
    assert len(scales.unique()) >= 5
    assert len(scales.unique(dim=0)) >= len(scales) - 2


def test_onehot_covers_every_dim_at_every_position() -> None:
    made = drawn("onehot")
    for place in range(3):
        hot = made.q[place::3].flatten(0, 1).nonzero()[:, 1]
        assert set(hot.tolist()) == set(range(64))
    assert bool((made.q != 0).sum(2).eq(1).all())


def test_fp32norm_is_lost_in_bfloat16() -> None:
    made = drawn("fp32norm")
    right = prepare.layer_norm(made.k, made.norm_weight, made.norm_bias).float()
    parts = made.norm_weight, made.norm_bias
    assert all(bool((part != part.bfloat16().float()).any()) for part in parts)
    plus = made.k > 0
    assert bool((right[plus] > 0.0009).all())
    for weight, bias in ((parts[0].bfloat16().float(), parts[1]), (parts[0], parts[1].bfloat16().float())):
        wrong = prepare.layer_norm(made.k, weight, bias).float()
        assert bool(((wrong - right)[plus].abs() > 0.0002).all())


def test_offset_keys_lose_their_variance_in_a_difference_of_squares() -> None:
    """Every sum is a float32 in any order, so what is lost is lost in the square of the mean."""
    key = drawn("offset").k.float()
    mean = key.mean(1)
    right = (key - mean[:, None]).square().mean(1)
    assert torch.equal(right, key.double().var(1, correction=0).float())
    wrong = ((key.square().mean(1) - mean.square() - right).abs() / right).sort().values
    assert wrong[0] > 0.038 and wrong[-1] < 0.041


def test_special_values_are_in_queries_keys_and_weights() -> None:
    made = drawn("special")
    assert made.q.isnan().any() and made.q.isinf().any()
    assert made.k.isnan().any() and made.k.isinf().any()
    for seed in range(3):
        weights = built(f="special", s=seed)[1].weights
        assert bool((~weights.isfinite() | (weights == 0)).any())


def test_edge_rows_are_written_first() -> None:
    """Field report B11's rows, and no slot twice."""
    _, made = built(p=0)
    kept = made.slots[made.slots >= 0]
    assert len(kept.unique()) == len(kept)
    assert set((made.slots[:7][made.slots[:7] >= 0] % 64).tolist()) <= set(writer_inputs.EDGE_ROWS)


@pytest.mark.parametrize("seed", range(4))
def test_pages_that_must_stay_are_nobodys(seed: int) -> None:
    """With padding page 0 and the last page are live; one page in between always is."""
    for padded in (0, 3):
        case, made = built(s=seed, p=padded)
        pages = {slot // 64 for slot in made.slots.tolist() if slot >= 0}
        blocks = len(made.k_codes)
        spared = set(range(blocks)) - pages
        assert pages <= set(range(blocks)) and spared - {0, blocks - 1}
        assert not padded or {0, blocks - 1} <= spared
        assert case.p == int((made.slots[case.r :] == -1).sum())


def test_even_seeds_have_gaps_that_no_two_strides_share() -> None:
    """A stride taken for another one, or for a packed one, reads a NaN or another head."""
    _, made = built(s=2)
    row, head, _ = made.q.stride()
    assert head > 128 and row > made.q.shape[1] * head
    assert made.cos.stride(0) != made.sin.stride(0) and min(made.cos.stride(0), made.sin.stride(0)) > 32
    assert made.k.stride(0) > 128 and made.weights.stride(0) > made.weights.shape[1]
    assert made.q.as_strided((1,), (1,), 128).isnan().all()
    _, packed = built(s=1)
    assert packed.q.is_contiguous() and packed.k.is_contiguous()


def test_positions_cover_the_ends_and_nonsense() -> None:
    _, made = built()
    kept = made.slots >= 0
    assert {0, 1, 4095} <= set(made.positions[kept].tolist())
    assert made.positions[kept].max() < 4096 and made.positions[kept].min() >= 0
    assert {1 << 30, -5} <= set(made.positions[~kept].tolist())


def test_buffers_hold_noise_before() -> None:
    """Nothing that is compared could be right by having been zero."""
    _, made = built()
    for name in WRITTEN_TOKENS:
        held = writer_wanted.as_bits(getattr(made, name))
        assert len(held.unique()) > 200


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"d": 256}, "field d is 256, allowed in suite writer is 128"),
        ({"r": 4096, "p": 1}, r"r \+ p is 4097, allowed in suite writer are at most 4096 rows"),
        ({"h": 24}, "field h is 24, allowed are multiples of 16"),
        ({"all": 2}, "field all is 2, allowed are 0 and 1"),
        ({"pair": "gptj"}, "field pair is 'gptj', allowed are neox, interleaved"),
        ({"f": "wide"}, "field f is 'wide', allowed in suite writer are natural"),
    ],
)
def test_what_a_case_cannot_be(changes: dict[str, object], says: str) -> None:
    with pytest.raises(CaseError, match=says):
        built(**changes)
