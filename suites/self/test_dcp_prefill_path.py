"""The in-tree staging: its plan, its turns of the scale plane, and the collective it is given."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from harness.case.cases import CaseError, parse
from harness.checks.book import Book
from harness.checks.dcp_prefill.ranks import Heard, Player, Recorder, ask
from harness.checks.dcp_prefill.shards import Job
from harness.fill.inputs import build
from harness.paths.flydsl import staging
from harness.paths.oracle import OraclePath
from harness.paths.requests.staging import GatherPlan
from oracles import staging as oracle
from oracles.staging import Shard

TWO = "dcp-prefill-world2-inter16-h16-d256-ctx150,130-w0@0:150,1@0:130-k16-tstrided-faddress-s2"


def job(text: str) -> Job:
    case = parse(text)
    return Job(case, build(case).filled, tuple(range(case.batch)), case.ctx)


def test_the_plan_by_hand() -> None:
    """Lengths 5 and 2, two ranks, S = 1: whole rounds of two positions, so 3 and 1 keys a rank."""
    made = staging.gather_plan(GatherPlan(torch.tensor([5, 2], dtype=torch.int32), 2, 1)).value
    assert made[0].tolist() == [0, 3, 4]
    assert made[1].tolist() == [0, 4, 1, 5, 2, 3, 7]
    assert made[0].dtype == made[1].dtype == torch.int32


@pytest.mark.parametrize(("world", "inter"), [(1, 1), (2, 16), (4, 1), (8, 64), (3, 4)])
def test_the_plan_finds_every_key(world: int, inter: int) -> None:
    """Its index is the oracle's for what its ranks read; sequences without keys take no room."""
    lengths = [0, 1, world, 700, 65]
    local_cu, index = staging.plan(torch.tensor(lengths), world, inter)
    assert torch.equal(index.long(), oracle.gather_index(lengths, world, inter, local_cu))


@pytest.mark.parametrize("rows", [16, 32, 64, 128])
def test_a_scale_plane_is_turned_and_turned_back(rows: int) -> None:
    """Unbent, the scale of row r lies at r; bent again, at its own place."""
    plane = torch.empty(rows, dtype=torch.uint8)
    plane[oracle.scale_place(rows)] = torch.arange(rows, dtype=torch.uint8)
    assert staging.unbent(plane).tolist() == list(range(rows))
    assert torch.equal(staging.bent(staging.unbent(plane)), plane)


def test_a_rank_reads_its_own_pages_only() -> None:
    """What it sends is its keys in order, then what its last page holds past them."""
    made = job(TWO)
    local_cu, _ = staging.plan(made.context_lens, 2, 16)
    codes, scales = staging.read(made.shards[1], local_cu)
    assert local_cu.tolist() == [0, 80, 160] and len(codes) == len(scales) == 160
    held = oracle.held(150, 1, 2, 16)
    assert len(held) == 70
    assert torch.equal(scales[:70].flatten(1), made.filled.k_scales[held])
    assert (scales[70:80] == 255).all() and (codes[70:80] == 255).all()


def test_the_collective_is_asked_for_codes_then_scales() -> None:
    """A rank gives its own two planes to the collective it was handed, and stages what comes back."""
    made = job(TWO)
    local_cu, _ = staging.plan(made.context_lens, 2, 16)
    sent = [staging.read(shard, local_cu) for shard in made.shards]
    asked: list[Tensor] = []

    def all_gather(part: Tensor) -> Tensor:
        asked.append(part)
        return torch.cat([each[len(asked) - 1] for each in sent])

    k_codes, k_scales, tables = staging.stage_prefill(made.request(0, all_gather)).value
    assert [tuple(part.shape) for part in asked] == [(160, 2, 4, 16), (160, 2, 4)]
    right = oracle.stage(made.shards, made.lengths, 16, made.columns)
    assert torch.equal(k_codes, right.k_codes) and torch.equal(k_scales, right.k_scales)
    assert torch.equal(tables, right.block_tables)


def test_what_ranks_give_is_played_back() -> None:
    """Every rank hears all of them, in the order of the ranks, call by call."""
    recorders = [Recorder(2), Recorder(2)]
    for rank, recorder in enumerate(recorders):
        for call in range(2):
            part = torch.tensor([10 * rank + call])
            assert recorder(part).tolist() == [10 * rank + call] * 2
            part += 100  # what was heard is not what a rank makes of it later
    player = Player([recorder.heard for recorder in recorders])
    assert [player(torch.tensor([0])).tolist() for _ in range(2)] == [[0, 10], [1, 11]]


def test_a_rank_that_gave_all_is_not_heard_further() -> None:
    """The last call of a known number ends it; what it would have made of the answer is not wanted."""
    recorder = Recorder(2, most=2)
    recorder(torch.tensor([1]))
    with pytest.raises(Heard):
        recorder(torch.tensor([2]))
    assert [part.tolist() for part in recorder.heard] == [[1], [2]]


def test_two_ranks_are_processes() -> None:
    """They meet in a collective of torch.distributed; findings and subjects come back from them."""
    made = job("dcp-prefill-world2-inter1-h16-d128-ctx100,90-w0@0:100,1@0:90-k8-tshuffled-faddress-s1")
    book = Book(made.case, OraclePath())
    answers = ask(book, made, 1)
    right = oracle.stage(made.shards, made.lengths, 1, made.columns)
    assert len(answers) == book.facts["processes"] == 2
    for k_codes, k_scales, tables in answers:
        assert torch.equal(k_codes, right.k_codes) and torch.equal(k_scales, right.k_scales)
        assert torch.equal(tables, right.block_tables)
    assert book.facts["subjects"] == {"StagePrefill": "oracle (torch)"}


def test_the_table_is_a_batch_wide() -> None:
    """Identity over the pages, zeros after; more pages than the batch has room for are refused."""
    assert staging.identity(2, 4, 3, 2).tolist() == [[0, 1, 2, 3, 0, 0]] * 2
    with pytest.raises(ValueError, match="7 staged pages, a batch has room for 6"):
        staging.identity(2, 7, 3, 2)


def test_shards_have_pages_in_orders_of_their_own() -> None:
    """Two ranks of one case never share a page order, and rows of nobody are poison."""
    made = job("dcp-prefill-world4-inter1-h16-d128-ctx1200-w0@0:1200-k8-tshuffled-faddress-s1")
    orders = {tuple(shard.block_tables[0].tolist()) for shard in made.shards}
    assert len(orders) == 4
    used = torch.zeros(len(made.shards[3].k_codes), 64, dtype=torch.bool)
    local = torch.arange(300)
    used[made.shards[3].block_tables[0, local // 64].long(), local % 64] = True
    assert (made.shards[3].k_codes.movedim(3, 1)[~used] == 255).all()


def test_a_shard_is_what_the_definition_says() -> None:
    """S = 64, W = 2: rank 1 holds positions 64-127 and 192-199 of 200."""
    made = job("dcp-prefill-world2-inter64-h16-d128-ctx200-w0@0:200-k8-tshuffled-faddress-s1")
    shard: Shard = made.shards[1]
    block = shard.block_tables[0].long()
    place = oracle.scale_place()
    assert torch.equal(shard.k_scales[block[0], 0][:, place[5]], made.filled.k_scales[64 + 5])
    assert torch.equal(shard.k_scales[block[1], 0][:, place[7]], made.filled.k_scales[192 + 7])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"inter": 24}, "field inter is 24, allowed are 1, 2, 4, 8, 16, 32 and 64"),
        ({"ctx": (0, 0), "w": ((0, 0, 0),)}, "field ctx has no key"),
        (
            {"t": "far"},
            "field t is 'far', allowed in suite dcp-prefill are shuffled, tight, wide, strided, identity",
        ),
        ({"world": 9}, "field world is 9, allowed are 1 to 8"),
        ({"f": "wide"}, "field f is 'wide', allowed in suite dcp-prefill are"),
    ],
)
def test_what_cannot_be_asked(changed: dict[str, object], said: str) -> None:
    """One sentence that names the field."""
    with pytest.raises(CaseError, match=said):
        parse(TWO).but(**changed)
