"""The pytest plugin: what passes, what fails, what is recorded, and what is left alone."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from harness.case import cases
from harness.record import parquet, store
from suites import guards, plugin
from suites.self import planted

SUITES = str(planted.ROOT / "suites" / "indexer")
PYTEST = ["-m", "pytest", SUITES, "-p", "no:cacheprovider", "-q", "--path", "oracle"]


def run(folder: Path, seeds: list[int], *options: str) -> tuple[int, str, store.Run]:
    code, out, err = planted.run(folder, [*PYTEST, *options], planted.environment(folder, seeds))
    runs = store.runs(folder / "results")
    assert len(runs) == 1, out + err
    return code, out + err, runs[0]


def test_only_agreement_passes_and_every_verdict_is_recorded(tmp_path: Path) -> None:
    """One case of each status: one pass, one skip, three failures, five records; no traceback."""
    seeds = [planted.AGREE, planted.DIFFER, planted.MISTRUSTED, planted.UNSUPPORTED, planted.ERROR]
    code, out, made = run(tmp_path, seeds, "--suite", "quantise", "--suite", "decode", "-k", "decode")
    assert "1 passed" in out and "4 failed" in out
    assert "Traceback" not in out
    assert "where   row 3, column 5: sequence 1" in out
    assert len(store.load(made).records) == 5
    assert code == 1


def test_unsupported_skips_unless_its_suite_was_named(tmp_path: Path) -> None:
    """What nobody asked for by name may be missing; what was asked for may not."""
    code, out, _ = run(tmp_path, [planted.AGREE, planted.UNSUPPORTED])
    assert code == 0
    assert f"2 passed, {len(cases.SUITES)} skipped" in out  # all but two list nothing, and two cases


def test_a_run_of_pytest_alone_is_closed_and_summed_up(tmp_path: Path) -> None:
    """Without the front the plugin compiles the table, closes the manifest and prints the counts."""
    code, out, made = run(tmp_path, [planted.AGREE, planted.AGREE], "-n", "2")
    assert code == 0, out
    assert len(parquet.read(made.parquet)) == 4
    assert made.manifest()["complete"] is True
    assert made.manifest()["provenance"]["path"] == "oracle"
    assert f"run {made.id}" in out
    assert store.load(made).planned == 4


def test_a_source_tree_may_be_the_next_word(tmp_path: Path) -> None:
    """``--aiter DIR`` is an option with its value, not a folder of tests whose conftest is to be loaded."""
    tree = tmp_path / "tree"
    (tree / "aiter" / "ops").mkdir(parents=True)
    (tree / "conftest.py").write_text("raise RuntimeError('the conftest of the tree was loaded')")
    words = [*PYTEST, "--collect-only", "--path", "aiter", "--aiter", str(tree)]
    code, out, err = planted.run(tmp_path, words, planted.environment(tmp_path, [0]))
    assert code == 0 and "tests collected" in out, out + err


def test_a_collection_alone_makes_no_run(tmp_path: Path) -> None:
    """Looking at what there is leaves nothing behind."""
    planted.run(tmp_path, [*PYTEST, "--collect-only"], planted.environment(tmp_path, [0]))
    assert not (tmp_path / "results").exists()


def test_an_unknown_path_is_a_usage_error(tmp_path: Path) -> None:
    """The plugin refuses as the front does."""
    options = ["-m", "pytest", SUITES, "-p", "no:cacheprovider", "--path", "nope"]
    code, _, err = planted.run(tmp_path, options, planted.environment(tmp_path, [0]))
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "--path is 'nope', allowed are flydsl, aiter, atom, oracle" in err


def test_a_results_directory_that_cannot_be_written_stops_the_run(tmp_path: Path) -> None:
    """Nothing runs that could not be recorded."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    options = [*PYTEST, "--results", "file"]
    code, out, err = planted.run(tmp_path, options, planted.environment(tmp_path, [0]))
    assert code == 2
    assert "--results file" in out + err
    assert "passed" not in out


def test_a_case_that_takes_too_long_is_cut_off() -> None:
    """The limit rings inside the case, and the alarm is off again afterwards."""
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="longer than 1 s"), guards.time_limit(1):
        time.sleep(30)
    assert time.monotonic() - began < 10
    with guards.time_limit(1):
        pass
    time.sleep(1.1)


def test_a_node_id_names_a_case_only_if_its_parameter_is_one() -> None:
    """xdist's controller knows nothing but ids; pytest's stand-in for an empty list is none."""
    case = "quantise-r1-d128-fnatural-s1"
    assert plugin.names_case(f"suites/indexer/test_quantise.py::test_quantise[{case}]")
    assert not plugin.names_case("suites/indexer/test_quantise.py::test_quantise[NOTSET]")
    assert not plugin.names_case(f"suites/self/test_other.py::test[{case}]")


def test_records_are_json(tmp_path: Path) -> None:
    """A journal line is one JSON object with the fields that readers count on."""
    _, _, made = run(tmp_path, [planted.DIFFER], "--suite", "decode")
    lines = [json.loads(line) for journal in made.journals() for line in journal.read_text().splitlines()]
    [record] = [line["record"] for line in lines if line["event"] == "verdict"]
    wanted = {
        "case",
        "suite",
        "path",
        "executor",
        "status",
        "grade",
        "reason",
        "findings",
        "seconds",
        "rerun",
    }
    assert wanted <= set(record)
