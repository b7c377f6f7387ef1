"""Recorded launches: the same answers as the path, and a sampled sweep of kernels without a survivor."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from harness import runner
from harness.case import cases
from harness.exits import CannotRun, InputError
from harness.judge import ledger
from harness.paths import registry
from harness.power import benches, lines, sweep, table
from harness.power.targets import TARGETS

FLYDSL = registry.Choice("flydsl")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> benches.Prepared:
    """The varqlen kernel's cases, recorded."""
    return benches.prepare(FLYDSL, TARGETS["varqlen-h16-d128"], tmp_path_factory.mktemp("power"))


def test_a_recording_is_green_here_and_a_mutant_is_red(recorded: benches.Prepared) -> None:
    """Every case from the file; the first answer of a wrong kernel ends the case."""
    bench = recorded.bench().checked(ledger.load())
    from harness.power.mutants import mutants

    gone = next(one for one in mutants(bench.program) if one.rule == "removed")
    told = bench.trial(gone, ledger.load())
    assert (told.how, told.case) == ("mask", next(iter(bench.kept))) and told.missed == ()


def test_what_breaks_outside_the_kernel_is_no_kill(recorded: benches.Prepared) -> None:
    """A defect of the harness in a trial stops the sweep; a request out of order is refused."""
    bench = recorded.bench()
    from harness.power.mutants import mutants

    name = next(iter(bench.kept))
    bench.kept[name] = bench.kept[name][1:]
    with pytest.raises(CannotRun, match=r"where .* was recorded"):
        bench.trial(mutants(bench.program)[0], ledger.load())
    verdict = runner.run(cases.parse(name), bench.path(name, bench.program), ledger.load())
    assert not verdict.green


@pytest.mark.parametrize("kernel", ["prefill-h16-d128", "varqlen-h16-d128"])
def test_a_sample_leaves_no_survivor(kernel: str, tmp_path: Path) -> None:
    """Twelve faults of the in-tree kernel: seen, or shown to change nothing; the same parts, merged."""
    prepared = benches.prepare(FLYDSL, TARGETS[kernel], tmp_path)
    parts = [sweep.plan(prepared, sweep.Asked(12, 3, part=(number, 2))) for number in (1, 2)]
    for part in parts:
        list(sweep.run(part, 1, lambda: benches.enumerate_launches(FLYDSL, TARGETS[kernel], prepared)))
    whole = sweep.plan(prepared, sweep.Asked(12, 3))
    figures = table.counts(whole.records)
    assert figures["mutants"] == 12 and figures["survived"] == 0 and figures["killed"] >= 6
    assert list(sweep.run(whole, 1, lambda: None)) == []


def test_an_explained_line_outranks_a_pending_one(tmp_path: Path) -> None:
    """In whichever file it is, and a torn line counts for nothing."""
    with lines.writer(tmp_path / "x-1-of-2.jsonl") as written:
        written.put([{"mutant": "m", "how": "", "why": "same value", "missed": []}])
    with lines.writer(tmp_path / "x.jsonl") as written:
        written.put([{"mutant": "m", "how": "", "why": lines.PENDING, "missed": []}])
    with open(tmp_path / "x.jsonl", "ab") as stream:
        stream.write(b'{"mutant": "n", "how"')
    assert {name: one["why"] for name, one in lines.read(tmp_path, "x").items()} == {"m": "same value"}


def test_a_recording_of_other_cases_is_refused(recorded: benches.Prepared) -> None:
    """And so is a folder without one."""
    target = TARGETS[recorded.target]
    with pytest.raises(CannotRun, match="other cases"):
        benches.found("flydsl", dataclasses.replace(target, cases=target.cases[1:]), recorded.directory)
    with pytest.raises(InputError, match="0 recordings"):
        benches.found("aiter", target, recorded.directory)
