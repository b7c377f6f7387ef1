"""The in-tree FP8 kernels: what they compute at the ends of their ranges, and what they leave alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from harness import runner
from harness.case.cases import CaseError, parse
from harness.checks.fp8 import paged as fp8_paged
from harness.checks.fp8 import stages as fp8_stages
from harness.judge.bits import SENTINEL
from harness.judge.ledger import Ledger
from harness.judge.verdict import Grade, Status
from harness.paths.flydsl import FlydslPath, eightbit
from harness.paths.oracle import OraclePath
from harness.paths.requests.eightbit import (
    FlatScores8,
    GatherKeys8,
    PagedScores8,
    QuantiseQueries8,
    WriteKeys8,
)
from oracles import eightbit_pages, formats
from oracles.eightbit import FORMATS

KINDS = pytest.mark.parametrize("fmt", FORMATS)


@KINDS
def test_every_code_is_decoded_and_encoded(fmt: str) -> None:
    """Each code's value, NaN included, by a score of one product; each value's code by the quantiser."""
    codes = torch.arange(256, dtype=torch.uint8)
    keys = torch.zeros(256, 128, dtype=torch.uint8)
    keys[:, 5] = codes
    q = torch.zeros(1, 16, 128, dtype=torch.uint8)
    q[0, 0, 5] = formats.encode(FORMATS[fmt], torch.tensor(1.0), ties="even")
    q[0, 1, 5] = formats.encode(FORMATS[fmt], torch.tensor(-1.0), ties="even")
    weights = torch.zeros(1, 16)
    weights[0, :2] = torch.tensor([1.0, -1.0])
    ends = torch.tensor([256], dtype=torch.int32)
    asked = FlatScores8(q, weights, keys, torch.ones(256), torch.zeros_like(ends), ends, fmt, True)
    got = eightbit.flat_scores(asked).value[0]
    want = formats.decode(FORMATS[fmt], codes)
    assert torch.equal(got.isnan(), want.isnan())
    assert torch.equal(got.nan_to_num(), want.nan_to_num())


@KINDS
def test_values_between_codes_are_rounded_half_to_even(fmt: str) -> None:
    """All midpoints, a step of bfloat16 either side of them, and both signs of zero."""
    grid = formats.decode(FORMATS[fmt], torch.arange(FORMATS[fmt].top + 1, dtype=torch.uint8))
    middle = ((grid[1:] + grid[:-1]) / 2).bfloat16()
    bits = middle.view(torch.int16)
    x = torch.cat([bits - 1, bits, bits + 1]).view(torch.bfloat16)
    x = torch.cat([x, -x, torch.tensor([0.0, -0.0]).bfloat16()])
    x = torch.nn.functional.pad(x, (0, -len(x) % 127)).reshape(-1, 127)
    top = torch.full((len(x), 1), float(grid[-1])).bfloat16()  # so that the scale is one
    q = torch.cat([x, top], 1).reshape(1, -1, 128)
    request = QuantiseQueries8(q, torch.ones(1, q.shape[1]).bfloat16(), 1.0, fmt, True)
    codes, weights = eightbit.quantise_queries(request).value
    assert torch.equal(codes, formats.encode(FORMATS[fmt], q.float(), ties="even"))
    assert bool((weights == 1).all())


def same(request: object, other: object) -> tuple[Tensor, Tensor]:
    """The path's answer to ``request`` and the oracle's to ``other``."""
    return FlydslPath().run(request).value, OraclePath().run(other).value


@pytest.mark.parametrize("row_bytes", fp8_paged.ROW_BYTES)
@pytest.mark.parametrize("order", eightbit_pages.ORDERS)
def test_the_writer_touches_its_slots_only(order: str, row_bytes: int) -> None:
    """Whole pools are equal: poison around the slots, padding of rows, and slots that are skipped."""
    k = torch.randn(40, 128, generator=torch.Generator().manual_seed(3)).bfloat16()
    slots = torch.randperm(192, generator=torch.Generator().manual_seed(4))[:40]
    slots[[0, 17]] = torch.tensor([-1, -192])
    pools = [fp8_stages.empty_cache(3, row_bytes, strided=False) for _ in range(2)]
    got, want = same(*(WriteKeys8(k, slots, pool, "fn", True, order) for pool in pools))
    assert got is pools[0] and torch.equal(got, want)
    codes, _ = eightbit_pages.read_slots(got, slots[slots >= 0], order)
    assert int((codes != fp8_stages.POISON).any(1).sum()) == 38


def test_the_writer_may_be_given_nothing() -> None:
    """No key, and keys that are all skipped."""
    pool = fp8_stages.empty_cache(1, 132, strided=False)
    for count in (0, 2):
        slots = torch.full((count,), -1)
        eightbit.write_keys(WriteKeys8(torch.ones(count, 128).bfloat16(), slots, pool, "fn", False, "flat"))
    assert bool((pool == fp8_stages.POISON).all())


def test_keys_are_gathered_across_empty_sequences() -> None:
    """A sequence of no keys between two others takes no place."""
    pool = torch.randint(0, 100, (4, 64, 144), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
    tables = torch.tensor([[2, 1], [0, 0], [3, 0]], dtype=torch.int32)
    cu_lens = torch.tensor([0, 70, 70, 73], dtype=torch.int32)
    got, want = same(*(GatherKeys8(pool, tables, cu_lens, "tiled") for _ in range(2)))
    assert torch.equal(got[0], want[0]) and torch.equal(got[1], want[1])


def test_a_row_without_keys_leaves_the_buffer_alone() -> None:
    """Contexts of 0 and 1 with two rows a sequence: one cell is stored."""
    made = fp8_paged.build(parse("fp8-n2-h16-d128-ctx0,1-fmtfn-ue1-tileflat-tshuffled-fbytes-s1"))
    cache = fp8_stages.empty_cache(made.blocks, 132, strided=False)
    eightbit_pages.write_keys(cache, made.filled.k_codes, made.filled.k_scales, made.slots, "flat")
    request: PagedScores8 = fp8_paged.ask(made, cache, made.buffer())
    eightbit.paged_scores(request)
    stored = (request.out.view(torch.int32) != SENTINEL).nonzero().tolist()
    assert stored == [[3, 0]]


def test_a_pool_of_another_shape_is_refused() -> None:
    """A kernel is given bare pointers and would read on."""
    pool = torch.zeros(2, 64, 136, dtype=torch.uint8)
    with pytest.raises(ValueError, match="132 or 144"):
        eightbit.gather_keys(GatherKeys8(pool, torch.zeros(1, 1), torch.tensor([0, 1]), "flat"))


@pytest.mark.parametrize(
    ("text", "grade"),
    [
        ("fp8-n3-h48-d128-ctx70,3-fmtfn-ue0-tiletiled-tstrided-fbytes-s1", Grade.EXACT),
        ("fp8-n1-h96-d128-ctx65-fmtfnuz-ue1-tileflat-ttight-fnatural-s1", Grade.BOUNDED),
        ("fp8-h48-d128-ctx65-w0@1:64+2-fmtfnuz-ue0-fboundary-s1", Grade.BOUNDED),
    ],
)
def test_cases_that_are_not_listed_run_too(text: str, grade: Grade) -> None:
    """Heads that are no power of two, and every combination of fields."""
    verdict = runner.run(parse(text), FlydslPath(), Ledger())
    assert (verdict.status, verdict.grade) == (Status.AGREE, grade), verdict.text()
    assert "interpreted" in str(verdict.facts["subjects"])


def test_the_identity_table_is_mistrusted() -> None:
    """Pages in order prove little about the table."""
    case = "fp8-n1-h16-d128-ctx70-fmtfn-ue1-tileflat-tidentity-fbytes-s1"
    assert runner.run(parse(case), OraclePath(), Ledger()).status is Status.MISTRUSTED


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("fp8-n1-h16-d256-ctx70-fmtfn-ue1-tileflat-tshuffled-fbytes-s1", "field d is 256"),
        ("fp8-n1-h16-d128-ctx70-fmtfn-ue1-tileflat-tfar-fbytes-s1", "field t is 'far'"),
        ("fp8-n1-h16-d128-ctx0-fmtfn-ue1-tileflat-tshuffled-fbytes-s1", "field ctx has no key"),
        ("fp8-n1-h16-d128-ctx70-fmtfn-ue2-tileflat-tshuffled-fbytes-s1", "field ue is"),
        ("fp8-n1-h16-d128-ctx70-fmtocp-ue1-tileflat-tshuffled-fbytes-s1", "field fmt is"),
        ("fp8-n1-h16-d128-ctx70-fmtfn-ue1-tileflat-tshuffled-fwide-s1", "field f is 'wide'"),
    ],
)
def test_cases_that_cannot_be_are_one_sentence(text: str, says: str) -> None:
    with pytest.raises(CaseError, match=says):
        parse(text)
