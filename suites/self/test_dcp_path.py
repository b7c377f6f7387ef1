"""The in-tree decode over shards on its own: numbers from the field reports, and the order of scores."""

from __future__ import annotations

import math
import random

import pytest
import torch

from harness.case.case_limits import CaseError
from harness.case.cases import parse
from harness.checks.dcp_decode import needles as dcp_needles
from harness.checks.dcp_decode import shards as dcp_shards
from harness.fill import pages
from harness.paths.flydsl import sharding
from harness.paths.requests.sharding import Place
from oracles import dcp, layout, topk
from oracles.scalar import dcp as scalar


@pytest.mark.parametrize(
    ("world", "rank", "context", "rows", "right"),
    ((2, 1, 10, 3, [4, 4, 5]), (4, 0, 100, 4, [25, 25, 25, 25]), (8, 7, 3, 4, [0, 0, 0, 0])),
)
def test_rows_are_localised_one_by_one(
    world: int, rank: int, context: int, rows: int, right: list[int]
) -> None:
    """B39: counting back on the local length would give 3, 4, 5 and 22 to 25."""
    lengths = torch.tensor([context], dtype=torch.int32)
    assert sharding.held_by_rows(lengths, rows, Place(world, 1, rank)).tolist() == right


def test_the_owner_of_id_70() -> None:
    """B40: rank 0, place 22 at S = 16."""
    position, place = torch.tensor([70]), Place(4, 16)
    assert sharding.digits(position, place)[1].tolist() == [0]
    assert sharding.local_of(position, place).tolist() == [22]
    assert sharding.position_of(torch.tensor([22]), place).tolist() == [70]


def test_the_width_holds_the_first_ranks_keys() -> None:
    assert sharding.width(10000, Place(8, 64)).tolist() == [1280]


def test_scores_are_ordered_as_numbers() -> None:
    """Signs, both zeros as one, subnormals, infinities."""
    rising = torch.tensor([-math.inf, -3.0, -1e-45, -0.0, 0.0, 1e-45, 2.5, 3.4e38, math.inf])
    order = sharding.rank_order(rising)
    assert order[3] == order[4]
    assert torch.equal(order.diff() > 0, rising.diff() > 0)


@pytest.mark.parametrize("seed", range(5))
def test_merges_are_those_of_the_definition(seed: int) -> None:
    """Ties, padding in between, a real score of -inf, negative zeros: one row a time by the scalar twin."""
    chance = random.Random(seed)
    world, rows, sent, k = 3, 4, 6, chance.choice((1, 5, 18, 30))
    levels = (0.0, -0.0, 1.0, -2.0, 7.5, -math.inf)
    scores = torch.tensor(
        [[[chance.choice(levels) for _ in range(sent)] for _ in range(rows)] for _ in range(world)]
    )
    names = torch.tensor([chance.sample(range(100), world * sent) for _ in range(rows)])
    ids = names.view(rows, world, sent).transpose(0, 1).contiguous().to(torch.int32)
    ids[torch.rand(ids.shape, generator=torch.Generator().manual_seed(seed)) < 0.3] = -1
    merged, columns = sharding.merged(scores, ids, k), sharding.merged_columns(scores, k)
    for row in range(rows):
        assert merged[row].tolist() == scalar.merge(scores[:, row].tolist(), ids[:, row].tolist(), k)
        assert columns[row].tolist() == scalar.merge_columns(scores[:, row].tolist(), k)


CASE = "dcp-decode-world4-inter16-exids-n3-h16-d128-ctx0,2,70,300-k8-tshuffled-fbytes-s7"


def test_a_rank_is_given_its_own_keys_and_poison() -> None:
    """Every key of every sequence lies on one rank, in the slot that is noted, and nothing else does."""
    whole = dcp_shards.build(parse(CASE))
    first = [0, 0, 2, 72]
    seen = []
    for shard in dcp_shards.shards(whole):
        planes, noted = shard.share.planes, (shard.keys[:, 0] >= 0).nonzero().flatten()
        for slot in noted.tolist():
            sequence, position = shard.keys[slot].tolist()
            seen.append((sequence, position))
            codes = planes.k_codes[slot // 64, 0, :, slot % 64].flatten()
            assert torch.equal(layout.unpack_nibbles(codes), whole.filled.k_codes[first[sequence] + position])
        poison = torch.ones(len(shard.keys), dtype=torch.bool).index_fill(0, noted, False)
        rows = planes.k_codes.permute(0, 3, 1, 2, 4).flatten(0, 1)
        assert bool((rows[poison] == 0xFF).all()) and bool(poison.any())
        assert planes.block_tables.shape[0] == len(shard.lengths) == 12
    assert sorted(seen) == [(s, p) for s, n in enumerate((0, 2, 70, 300)) for p in range(n)]


@pytest.mark.parametrize("fill", ("bytes", "ties", "natural", "address", "boundary"))
def test_the_newest_key_of_each_row_must_be_selected(fill: str) -> None:
    """The needle scores highest, or among the k best, of everything its row sees."""
    whole = dcp_shards.build(parse(CASE.replace("fbytes", f"f{fill}")))
    from harness.paths.oracle import OraclePath

    scores = OraclePath().run(whole.decode()).value
    right = topk.topk(scores, whole.windows, whole.case.k, stable=False)
    newest = dcp_needles.newest(whole)
    rows = (newest >= 0).nonzero().flatten()
    assert len(rows) == 8 and bool(right.must[rows, newest[rows]].all())


def test_pages_of_ranks_are_permuted_apart() -> None:
    """A rank that used another's table would meet other pages."""
    shards = dcp_shards.shards(dcp_shards.build(parse(CASE.replace("300", "1300"))))
    tables = [shard.share.planes.block_tables[-1].tolist() for shard in shards]
    assert len(set(map(tuple, tables))) == len(shards)
    assert all(len(shard.keys) % pages.PAGE == 0 for shard in shards)
    assert dcp.local_width(dcp_shards.sharding_of(parse(CASE)), 512) == 128


@pytest.mark.parametrize(
    ("change", "said"),
    (
        (("inter16", "inter48"), "field inter is 48, allowed are 1, 2, 4, 8, 16, 32 and 64"),
        (("tshuffled", "tfar"), "field t is 'far', allowed in suite dcp-decode are shuffled, tight"),
        (("world4", "world9"), "field world is 9, allowed are 1 to 8"),
        (("fbytes", "fwide"), "field f is 'wide', allowed in suite dcp-decode"),
        (("exids", "exboth"), "field ex is 'both', allowed are ids, scores"),
    ),
)
def test_a_case_that_cannot_be_is_refused(change: tuple[str, str], said: str) -> None:
    with pytest.raises(CaseError, match=said):
        parse(CASE.replace(*change))
