"""Faults of compiled kernels: a gather of our own, compiled and run, its faults seen, explained or left."""

from __future__ import annotations

import random
from functools import cached_property
from pathlib import Path

import pytest
import torch

from harness import runner
from harness.case import cases
from harness.cli import main
from harness.emulator import calls
from harness.emulator.program import Program
from harness.emulator.sessions import session
from harness.exits import CannotRun
from harness.hip.compiling import compile_kernel
from harness.judge import ledger
from harness.paths import base, registry
from harness.paths.aiter.hip import program_of
from harness.paths.requests.eightbit import GatherKeys8
from harness.power import mutants, table
from harness.power.hip.bench import HipBench
from harness.power.hip.beside import Beside, Place
from harness.power.hip.inert import HipEnumeration
from harness.power.hip.targets import HIP_TARGETS, HipTarget

SOURCE = """
#include <hip/device_indices.h>
#include <hip/device_sync.h>
namespace own {
template <int Dim>
__global__ void gather_kernel(const unsigned char* cache, unsigned char* codes, unsigned char* scales,
                              const int* tables, const int* lens, int batch, int width)
{
    __shared__ int found;
    const int key = blockIdx.x;
    for(int seq = threadIdx.x; seq < batch; seq += Dim)
        if(key >= lens[seq] && key < lens[seq + 1])
            found = seq;
    __syncthreads();
    const int place = key - lens[found];
    const unsigned char* page = cache + tables[found * width + place / 64] * 64 * (Dim + 4);
    codes[key * Dim + threadIdx.x] = page[place % 64 * Dim + threadIdx.x];
    if(threadIdx.x < 4)
        scales[key * 4 + threadIdx.x] = page[64 * Dim + place % 64 * 4 + threadIdx.x];
}
} // namespace own
"""
HEAD = "fp8-n1-h16-d128-ctx"
TAIL = "-fmtfn-ue1-tileflat-tshuffled-faddress-s"
TARGET = HipTarget(
    "own",
    "gather_kernel",
    "GatherKeys8",
    (f"{HEAD}5,3{TAIL}1", f"{HEAD}0,66,1{TAIL}2"),
    (f"{HEAD}65,1,0,2{TAIL}3", f"{HEAD}64,9{TAIL}4"),
    "a few lengths",
)


class Own(base.Path):
    """A path whose gather is the kernel above."""

    name = "own"
    executor = "emulated HIP"

    def __init__(self, program: Program) -> None:
        self._program = program

    def answers(self) -> base.Answers:
        return {GatherKeys8: self._gather}

    @cached_property
    def table(self) -> base.Answers:
        return self.answers()

    def _gather(self, asked: GatherKeys8) -> base.Outcome:
        keys, batch = int(asked.cu_lens[-1]), len(asked.cu_lens) - 1
        codes, scales = torch.zeros(keys, 128, dtype=torch.uint8), torch.zeros(keys, 4, dtype=torch.uint8)
        arguments: list[calls.Argument] = [
            asked.cache,
            codes,
            scales,
            asked.block_tables,
            asked.cu_lens,
            batch,
            asked.block_tables.shape[1],
        ]
        with session() as seen:
            calls.call(self._program, (keys, 1, 1), (128, 1, 1), arguments)
        return base.Outcome((codes, scales.view(torch.float32)[:, 0]), seen.findings)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> HipBench:
    """The cases of `TARGET`, sound without a fault."""
    tree = tmp_path_factory.mktemp("tree")
    (tree / "own.cu").write_text(SOURCE)
    program = program_of(compile_kernel(tree, "own.cu", "own::gather_kernel<128>"))
    return HipBench.of(registry.Choice("aiter"), Own(program), TARGET, ledger.load())


def test_a_digest_is_that_of_the_program_and_not_of_its_runs(bench: HipBench) -> None:
    """Names are unique, and a planted fault is a program of its own that leaves the old one as it is."""
    found, before = mutants.mutants(bench.program), mutants.digest(bench.program)
    assert len({one.name for one in found}) == len(found)
    rules = {one.rule for one in found}
    assert {"wrong target", "left out", "wrong coordinate", "removed", "zeroed operand"} <= rules
    for one in found[::7]:
        assert mutants.digest(mutants.planted(bench.program, one)) != before
    assert mutants.digest(bench.program) == before


def test_a_sample_leaves_no_survivor(bench: HipBench) -> None:
    """Sixteen faults: red, or shown to change nothing over the enumerated requests."""
    book, every = ledger.load(), mutants.mutants(bench.program)
    drawn = random.Random(5).sample(every, 16)
    alive = [one for one in drawn if not bench.trial(one, book).how]
    assert len(alive) <= 6
    enumerated = HipEnumeration.of(bench)
    same = enumerated.same_values(alive)
    assert [one.name for one in alive if one.name not in same and not enumerated.same_stores(one)] == []


def test_a_missing_barrier_is_found_though_every_byte_is_right(bench: HipBench) -> None:
    """All lanes run together here, so only what is found tells."""
    (gone,) = [one for one in mutants.mutants(bench.program) if one.detail == "barrier"]
    told = bench.trial(gone, ledger.load())
    assert told.how == "finding" and set(told.missed) == {
        "cosine > 0.99",
        "relative difference < 5e-6",
        "allclose 5e-2",
    }


def test_a_fault_that_no_case_reaches_survives(bench: HipBench) -> None:
    """Without a case nothing is seen; the enumeration does not explain what changes a store."""
    few = HipBench(bench.choice, bench.target, bench.program, bench.rounds, {}, bench.path)
    (wrong,) = [one for one in mutants.mutants(bench.program) if "removed" in one.rule][:1]
    assert few.trial(wrong, ledger.load()).how == "" and bench.trial(wrong, ledger.load()).how
    enumerated = HipEnumeration.of(bench)
    assert wrong.name not in enumerated.same_values([wrong]) and enumerated.same_stores(wrong) == ""


def test_what_is_found_without_a_fault_is_no_kill(bench: HipBench) -> None:
    """A red that the unchanged kernel has as well counts for nothing."""
    (gone,) = [one for one in mutants.mutants(bench.program) if one.detail == "barrier"]
    wrong = mutants.planted(bench.program, gone)
    known = HipBench.of(bench.choice, Own(wrong), TARGET, ledger.load())
    neutral = next(
        one for one in mutants.mutants(wrong) if one.rule == "wrong coordinate" and "block_id" in one.name
    )
    assert known.trial(neutral, ledger.load()).how == "bits"
    verdict = runner.run(cases.parse(TARGET.cases[0]), Beside(Own(wrong), "GatherKeys8"), ledger.load())
    assert (
        verdict.layer == "finding"
        and known._seen(verdict, known.before[TARGET.cases[0]], ledger.load()) == ""
    )


def test_a_program_that_is_not_launched_is_refused(bench: HipBench) -> None:
    """Else its faults would all pass for inert."""
    with pytest.raises(CannotRun, match="is not launched"), Place(bench.program).taken(bench.program, 9):
        pass


def test_rules_that_cannot_be_put_to_a_kernel_have_no_figure() -> None:
    """They show as a dash and are not counted."""
    record = {"how": "bits", "why": "", "rule": "removed", "case": "c", "missed": ["cosine > 0.99"]}
    figures = table.counts([record], ("cosine > 0.99",))
    assert figures["missed"]["allclose 5e-2"] is None and table.rows({"k": figures})[0][-1] == "-"
    held = table.by_rule({"k": figures})
    assert held["allclose 5e-2"]["killed"] == 0 and held["cosine > 0.99"]["survived"] == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--kernel", "fp8-writer"], "is a HIP kernel of aiter; add --aiter DIR"),
        (["--kernel", "fp8-writer", "--prepare"], "a HIP kernel is not recorded"),
        (["--kernel", "fp8"], "allowed are decode-h16-d128"),
    ],
)
def test_bad_input_is_one_sentence(given: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2."""
    assert main(["power", *given]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_every_case_of_a_target_can_be_read(tmp_path: Path) -> None:
    """And launches what its suite asks of the path."""
    for target in HIP_TARGETS.values():
        for one in (*target.cases, *target.enumerated):
            assert cases.parse(one).suite in ("fp8", "topk")
