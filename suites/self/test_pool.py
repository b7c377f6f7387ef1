"""What is true of the index cache's memory: its bytes, whose they are, and what the check sees of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import pytest
import torch

from harness.case.cases import CaseError, parse
from harness.checks import pool as check
from harness.judge.verdict import Status, Verdict
from harness.paths import base
from harness.paths.base import Unsupported
from harness.paths.flydsl import pooling as in_tree
from harness.paths.oracle import OraclePath
from harness.paths.requests.pooling import PoolGeometry, pool_of
from oracles import pool
from oracles.pool import Extent, Pool, dense
from oracles.scalar import pool as scalar

SMALL = "pool-layers3-page64-blocks2-d128"


def test_the_numbers_of_the_specification() -> None:
    """4352 and 9216 bytes a page and layer, 0.472, and 102,144 bytes over 21 layers."""
    fp4, fp8 = (pool.page_bytes(form, 64, 128) for form in pool.FORMS)
    assert (fp4, fp8, round(fp4 / fp8, 3)) == (4352, 9216, 0.472)
    assert pool.page_shapes("fp4", 64, 128) == {"codes": (1, 4, 64, 16), "scales": (1, 4, 64)}
    assert pool.page_shapes("fp8", 64, 128) == {"rows": (64, 144)}
    assert pool.saved(21, 64, 128) == 102_144


def test_the_gain_in_pages_follows_from_the_bytes() -> None:
    """Of the index cache alone 2.1 times as many; of a page with 2.9 MB of other keys, 3.4 % more."""
    assert pool.pages_for(49_084 * 9216 * 21, 4352 * 21) == 103_942
    others = 79 * 64 * 576  # fp8 latent keys of 79 layers
    fp8, fp4 = (others + 21 * pool.page_bytes(form, 64, 128) for form in ("fp8", "fp4"))
    assert fp8 - fp4 == 102_144 and round((fp8 - fp4) / fp8, 3) == 0.033
    assert round(pool.pages_for(49_084 * fp8, fp4) / 49_084, 3) == 1.034


@pytest.mark.parametrize("form", pool.FORMS)
@pytest.mark.parametrize("rows", [16, 64, 128])
@pytest.mark.parametrize("dim", [128, 256])
def test_bytes_of_a_page(form: str, rows: int, dim: int) -> None:
    """The product of the shapes is what counting columns gives."""
    assert pool.page_bytes(form, rows, dim) == scalar.page_bytes(form, rows, dim)


def test_what_is_no_pool_is_refused() -> None:
    """Another form, columns that are no k-tiles."""
    with pytest.raises(ValueError, match="form is 'fp6', allowed are fp4, fp8"):
        pool.page_bytes("fp6", 64, 128)
    with pytest.raises(ValueError, match="dim is 64"):
        pool.page_bytes("fp4", 64, 64)


def test_addresses_of_a_plane() -> None:
    """All bytes, with strides that leave gaps."""
    extent = Extent("codes", 0, 0, 5, (2, 3, 4), (40, 12, 2))
    assert sorted(pool.addresses(extent).tolist()) == sorted(scalar.addresses(5, (2, 3, 4), (40, 12, 2)))


def page_major(layers: int, blocks: int, sizes: tuple[int, ...]) -> Pool:
    """A pool whose pages hold all planes of all layers: one stride for all."""
    step = layers * sum(sizes)
    extents, offset = [], 0
    for plane, size in zip(("codes", "scales"), sizes, strict=True):
        for layer in range(layers):
            extents.append(Extent(plane, layer, 0, offset, (blocks, size), (step, 1)))
            offset += size
    return Pool(tuple(extents), (step * blocks,), step)


def both(made: Pool) -> pool.Ownership:
    """By intervals, after a map of all bytes has said the same."""
    fast, counted = pool.by_arithmetic(made), pool.by_enumeration(made)
    assert (fast.shared, fast.outside, fast.unowned) == (counted.shared, counted.outside, counted.unowned)
    assert bool(fast.between) == bool(counted.between)
    return counted


def test_every_byte_has_one_owner() -> None:
    """Layer by layer or page by page, in one allocation or in two."""
    for made in (pool.layer_major("fp4", 3, 16, 5, 128), page_major(3, 5, (64, 4))):
        assert both(made) == pool.Ownership(0, (), 0, (0,))
    two = pool.layer_major("fp4", 2, 16, 3, 128)
    codes = sum(prod(extent.shape) for extent in two.extents if extent.plane == "codes")
    apart = [
        replace(extent, arena=1, offset=extent.offset - codes) if extent.plane == "scales" else extent
        for extent in two.extents
    ]
    assert both(Pool(tuple(apart), (codes, two.arenas[0] - codes), two.entry_bytes)).unowned == (0, 0)


def test_overlaps_gaps_and_ends() -> None:
    """A plane moved by a page lies over its neighbour and leaves a page to nobody; the last lies outside."""
    made = pool.layer_major("fp4", 2, 16, 3, 128)
    page = 4 * 16 * 16
    moved = (replace(made.extents[0], offset=page), *made.extents[1:])
    found = both(replace(made, extents=moved))
    assert (found.shared, found.between, found.unowned) == (
        page,
        ("codes of layer 0", "codes of layer 1"),
        (page,),
    )
    last = (*made.extents[:-1], replace(made.extents[-1], offset=made.extents[-1].offset + 10))
    found = both(replace(made, extents=last))
    assert (found.shared, found.outside, found.unowned) == (0, 10, (10,))


def test_random_moves_agree() -> None:
    """Intervals and the map of bytes agree however planes are pushed about."""
    chance = random.Random(3)
    for _ in range(60):
        layer_by_layer = chance.random() < 0.5
        made = pool.layer_major("fp4", 2, 16, 2, 128) if layer_by_layer else page_major(2, 4, (64, 4))
        if layer_by_layer:
            pushed = [replace(e, offset=e.offset + chance.choice((0, 0, 7, 512))) for e in made.extents]
        else:
            pushed = [
                replace(e, offset=max(0, e.offset - chance.choice((0, 0, 3, 60)))) for e in made.extents
            ]
        both(replace(made, extents=tuple(pushed)))


def test_a_layout_that_intervals_cannot_tell_is_refused() -> None:
    """Bytes of a page that are no run, and planes that step differently."""
    holes = Pool((Extent("codes", 0, 0, 0, (2, 4), (16, 2)),), (32,), 4)
    with pytest.raises(ValueError, match="codes of layer 0 are no run"):
        pool.by_arithmetic(holes)
    steps = (Extent("codes", 0, 0, 0, (2, 4), (16, 1)), Extent("codes", 1, 0, 4, (2, 4), (8, 1)))
    with pytest.raises(ValueError, match="neither follow each other nor step"):
        pool.by_arithmetic(Pool(steps, (32,), 8))


def test_tensors_become_a_pool() -> None:
    """Views share the arena they are cut from; elements of four bytes are four bytes."""
    buffer = torch.empty(96, dtype=torch.uint8)
    apart = torch.empty(3, 5, dtype=torch.float32, device="meta")
    made = pool_of({"codes": [buffer[:48].view(3, 16), buffer[48:].view(3, 16)], "scales": [apart]}, 52)
    assert made.arenas == (96, 60)
    assert made.extents[1] == Extent("codes", 1, 0, 48, (3, 16), (16, 1))
    assert made.extents[2] == Extent("scales", 0, 1, 0, (3, 5, 4), (20, 4, 1))


@pytest.mark.parametrize("form", pool.FORMS)
def test_the_in_tree_pool_is_cut_from_one_buffer(form: str) -> None:
    """Every byte of it has an owner, and pages follow each other in each layer."""
    made: Pool = in_tree.geometry(PoolGeometry(form, 3, 64, 5, 256)).value
    assert made.arenas == (3 * 5 * pool.page_bytes(form, 64, 256),)
    assert both(made) == pool.Ownership(0, (), 0, (0,))
    assert all(extent.strides == dense(extent.shape) for extent in made.extents)


@dataclass
class Faulty(OraclePath):
    """`OraclePath` whose fp4 pool is changed by ``fault``."""

    name = "faulty"
    fault: Callable[[PoolGeometry, Pool], Any] = lambda request, made: made
    form: str = "fp4"

    def run(self, request: Any) -> base.Outcome:
        outcome = super().run(request)
        return (
            replace(outcome, value=self.fault(request, outcome.value))
            if request.form == self.form
            else outcome
        )


def verdict(fault: Callable[[PoolGeometry, Pool], Any], text: str = SMALL, form: str = "fp4") -> Verdict:
    return check.check(parse(text), Faulty(fault=fault, form=form))


def moved(by: int, number: int) -> Callable[[PoolGeometry, Pool], Pool]:
    def fault(request: PoolGeometry, made: Pool) -> Pool:
        extents = list(made.extents)
        extents[number] = replace(extents[number], offset=extents[number].offset + by)
        return replace(made, extents=tuple(extents))

    return fault


def narrowed(request: PoolGeometry, made: Pool) -> Pool:
    """Allocated for one page less than it is addressed."""
    return replace(made, arenas=(made.arenas[0] - made.entry_bytes,))


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (moved(64, 0), "planes-overlap"),
        (moved(-4352, 1), "planes-overlap"),
        (moved(64, 5), "outside-the-allocation"),
        (lambda request, made: replace(made, entry_bytes=made.entry_bytes + 16), "charged-otherwise"),
        (narrowed, "allocated-otherwise"),
        (lambda request, made: replace(made, extents=made.extents[:-1]), "planes-missing"),
        (lambda request, made: replace(made, extents=(*made.extents, made.extents[0])), "planes-differ"),
        (lambda request, made: made.entry_bytes, "wrong-type"),
        (
            lambda request, made: replace(
                made, extents=(replace(made.extents[0], shape=(2, 1, 4, 16, 64)), *made.extents[1:])
            ),
            "wrong-shape",
        ),
    ],
)
@pytest.mark.parametrize("text", [SMALL, "pool-layers3-page64-blocks20000-d128"])
def test_a_wrong_pool_is_red(fault: Callable[[PoolGeometry, Pool], Any], reason: str, text: str) -> None:
    """Small, where bytes are put down one by one, and large, where they are not."""
    seen = verdict(fault, text)
    assert (seen.status, seen.reason) == (Status.DIFFER, reason)


def test_an_overlap_names_the_planes() -> None:
    """The first scale plane pushed back over the last codes."""
    seen = verdict(moved(-16, 3))
    assert seen.got == "codes of layer 2 and scales of layer 0" and seen.count == 16


def test_a_plane_off_its_loads_is_red() -> None:
    """Codes and scales exchanged in memory: layer 0's codes start behind 3 * 2 * 256 bytes, plus four."""

    def fault(request: PoolGeometry, made: Pool) -> Pool:
        shifted = tuple(replace(extent, offset=extent.offset + 4) for extent in made.extents)
        return replace(made, extents=shifted)

    made = pool.layer_major("fp4", 1, 64, 1, 128)
    wrong = check.placed(fault(PoolGeometry("fp4", 1, 64, 1, 128), made))
    assert (
        wrong is not None and wrong[0].reason == "not-aligned" and wrong[1] == {"plane": "codes", "layer": 0}
    )
    assert check.placed(made) is None


def test_a_padded_page_is_charged_for_nothing() -> None:
    """Rows of fp8 padded to 160 bytes have another shape than the ABI's."""

    def fault(request: PoolGeometry, made: Pool) -> Pool:
        wide = tuple(
            replace(
                e, shape=(*e.shape[:2], 160), strides=dense((*e.shape[:2], 160)), offset=e.offset // 144 * 160
            )
            for e in made.extents
        )
        return Pool(wide, (made.arenas[0] // 144 * 160,), made.entry_bytes // 144 * 160)

    assert verdict(fault, form="fp8").reason == "wrong-shape"


def test_what_agrees_is_kept_as_facts() -> None:
    """Bytes, their ratio and what the memory of the fp8 pool then holds."""
    seen = check.check(parse("pool-layers21-page64-blocks49084-d128"), OraclePath())
    assert seen.status is Status.AGREE
    assert (seen.facts["fp4 / fp8"], seen.facts["bytes saved a page"]) == (0.4722, 102_144)
    assert seen.facts["pages in the bytes of the fp8 pool"] == 103_942
    assert check.check(parse("pool-layers1-page64-blocks2-d128"), OraclePath()).status is Status.MISTRUSTED


def test_pages_that_no_scorer_takes_may_be_refused() -> None:
    """fp4 pages of 128 rows: a path that refuses agrees; at 64 rows it is an error."""

    def fault(request: PoolGeometry, made: Pool) -> Pool:
        raise ValueError("no")

    seen = verdict(fault, "pool-layers3-page128-blocks2-d128")
    assert seen.status is Status.AGREE and seen.facts["fp4 pages of 128 rows"] == "refused (ValueError)"
    with pytest.raises(ValueError, match="no"):
        verdict(fault)


def test_a_form_that_is_lacking_is_said_after_the_other_was_compared() -> None:
    """Unsupported, with what agrees; a difference in the other form comes first."""

    def lacks(request: PoolGeometry, made: Pool) -> Pool:
        raise Unsupported("this version has no such pool")

    with pytest.raises(Unsupported, match=r"no such pool \(fp8 agrees\)"):
        verdict(lacks)

    class Both(Faulty):
        def run(self, request: Any) -> base.Outcome:
            if request.form == "fp4":
                raise Unsupported("this version has no such pool")
            return super().run(request)

    assert check.check(parse(SMALL), Both(fault=moved(16, 0), form="fp8")).reason == "planes-overlap"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pool-layers3-page24-blocks2-d128", "field page is 24, allowed are multiples of 16 from 16"),
        ("pool-layers3-page64-blocks2-d192", "field d is 192, allowed are 128 and 256"),
        ("pool-layers0-page64-blocks2-d128", "field layers is 0"),
        ("pool-layers1024-page1024-blocks16777216-d256", "allowed are at most 1125899906842624 bytes"),
    ],
)
def test_what_cannot_be_asked(text: str, said: str) -> None:
    """One sentence that names the field."""
    with pytest.raises(CaseError, match=said):
        parse(text)
