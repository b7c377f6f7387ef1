"""Rank processes: real ones, one thread each, joined by a process group; one that fails ends the job."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
import torch

from harness.paths.base import Unsupported
from harness.paths.oracle import OraclePath
from harness.ranks import again
from harness.ranks.pool import Pool, RankError
from harness.ranks.worker import Job
from suites.self import rank_jobs
from suites.self.dcp_faults import FaultyPath


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    made = Pool()
    yield made
    made.close()


def test_every_rank_is_a_process_that_stays(pool: Pool) -> None:
    """Distinct processes with one thread each, in the order of the shares, the same ones for the next job."""
    first = pool.run(rank_jobs.introduce, OraclePath(), ["a", "b", "c"])
    assert [share for *_, share in first] == ["a", "b", "c"]
    numbers = [number for number, *_ in first]
    assert len({*numbers, os.getpid()}) == 4 and numbers == pool.processes
    assert {threads for _, threads, *_ in first} == {1}
    assert [number for number, *_ in pool.run(rank_jobs.introduce, OraclePath(), [0, 1])] == numbers[:2]


def test_a_path_is_made_again_with_its_state(pool: Pool) -> None:
    """A path of a test arrives as what it is, after another one was asked."""
    for path, said in ((OraclePath(), "oracle "), (FaultyPath("gather-order"), "oracle gather-order")):
        assert {told for _, _, told, _ in pool.run(rank_jobs.introduce, path, [0, 0])} == {said}


@pytest.mark.parametrize("world", (1, 4, 2, 3, 4))
def test_all_ranks_gather_the_same_bits(pool: Pool, world: int) -> None:
    """Groups of any size one after the other; payloads of NaN, -0 and the dtype survive the way."""
    bits = [torch.tensor([0x7FC0DEAD, -(1 << 31), rank], dtype=torch.int32) for rank in range(world)]
    for shares in ([one.view(torch.float32) for one in bits], bits, [one.to(torch.uint8) for one in bits]):
        for got in pool.run(rank_jobs.gather, OraclePath(), shares):
            assert got.dtype == shares[0].dtype and got.shape == (world, 3)
            assert torch.equal(got.view(torch.uint8), torch.stack(shares).view(torch.uint8))


FAILURES = {
    rank_jobs.break_down: "rank 1 of 3 broke: ZeroDivisionError: by a rank",
    rank_jobs.die: r"rank 1 of 3 died \(SIGKILL\) \(it last said: about to be killed\)",
    rank_jobs.leave: r"rank 1 of 3 died \(exit code 3\)",
    rank_jobs.break_before_the_death: r"rank 1 of 3 died \(exit code 3\)",
}


@pytest.mark.parametrize(("job", "said"), FAILURES.items(), ids=[job.__name__ for job in FAILURES])
def test_a_rank_that_fails_ends_the_job(pool: Pool, job: Job, said: str) -> None:
    """One sentence names it at once, though others wait for it; the pool works again afterwards."""
    began = time.monotonic()
    with pytest.raises(RankError, match=said):
        pool.run(job, OraclePath(), [0, 0, 0])
    assert time.monotonic() - began < 20
    assert pool.processes == []
    assert len(pool.run(rank_jobs.introduce, OraclePath(), [0, 0, 0])) == 3


def test_a_refusal_of_the_path_is_no_failure(pool: Pool) -> None:
    """It arrives as what the path raised."""
    with pytest.raises(Unsupported, match="no such operation"):
        pool.run(rank_jobs.refuse, OraclePath(), [0, 0])


def test_a_rank_that_does_not_answer_is_named(pool: Pool) -> None:
    """The job ends after its time, and names the one that is late."""
    pool.run(rank_jobs.introduce, OraclePath(), [0, 0])
    with pytest.raises(RankError, match=r"rank 1 of 2 did not answer within 1 s"):
        pool.run(rank_jobs.hang, OraclePath(), [0, 0], seconds=1)


def test_nothing_stays_behind() -> None:
    """A closed pool has no processes and no files."""
    pool = Pool()
    pool.run(rank_jobs.introduce, OraclePath(), [0])
    folder, number = pool.folder, pool.processes[0]
    assert folder is not None and folder.is_dir()
    pool.close()
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def test_what_cannot_be_made_again_is_an_error() -> None:
    """Instead of another subject under the same name."""
    path = FaultyPath("gather-order")
    vars(path)["opaque"] = lambda: None
    with pytest.raises(TypeError, match="path oracle cannot be made in a rank process"):
        again.recipe(path)


def test_a_registered_path_is_made_by_its_options() -> None:
    """As the command line that reruns it would."""
    recipe = again.recipe(OraclePath())
    assert recipe.choice is not None and recipe.choice.name == "oracle" and not recipe.copy
    assert type(again.make(recipe)) is OraclePath
