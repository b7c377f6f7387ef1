"""Source faults: what they are, that the tree stays as it is, and that a case sees one."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.command import power_source
from harness.exits import CannotRun, InputError
from harness.power.lines import PENDING
from harness.power.source import faults, known, sweep, targets, worker
from harness.power.source.tree import Copy

TEXT = '''\
def first(a: int | None, b: int) -> int:
    """Not 1 number."""
    return a + b * 2


def second(c):
    return c < 3
'''


def test_faults_change_the_program_and_their_names_are_unique() -> None:
    """No fault in an annotation or a docstring; each diff is one line."""
    found = faults.faults(TEXT)
    assert len({one.name for one in found}) == len(found)
    assert {one.line for one in found} == {3, 7}
    assert "    return a - b * 2" in {one.after for one in found}
    assert {one.after for one in found if one.line == 7} >= {"    return c <= 3", "    return c >= 3"}
    for one in found:
        assert one.text.splitlines()[one.line - 1] == one.after and one.before != one.after


def test_faults_of_a_definition_are_those_of_the_file_there() -> None:
    """By the same texts; a name that the file lacks is refused."""
    whole = {one.text for one in faults.faults(TEXT) if one.line == 7}
    assert {one.text for one in faults.faults(TEXT, ("second",))} == whole
    with pytest.raises(CannotRun, match="no definition of third"):
        faults.faults(TEXT, ("third",))


def test_a_copy_replaces_one_file_and_never_the_tree(tmp_path: Path) -> None:
    """The tree's own file keeps its bytes through replacing and restoring."""
    (tmp_path / "root" / "a").mkdir(parents=True)
    (tmp_path / "root" / "a" / "x.py").write_text("right")
    (tmp_path / "root" / "a" / "y.py").write_text("beside")
    copy = Copy(tmp_path / "root", tmp_path / "copy", "a/x.py")
    copy.replace("wrong")
    assert (tmp_path / "copy/a/x.py").read_text() == "wrong"
    assert (tmp_path / "copy/a/y.py").read_text() == "beside"
    assert (tmp_path / "root/a/x.py").read_text() == "right"
    copy.restore()
    assert (tmp_path / "copy/a/x.py").read_text() == "right"


def test_reasons_are_matched_by_the_lines_and_refused_without_one(tmp_path: Path) -> None:
    """Blanks around lines do not count; an entry without a reason is no reason."""
    file = tmp_path / "known.toml"
    file.write_text('[[equivalent]]\nfile = "f"\nbefore = " a"\nafter = "b "\nreason = "same"\n')
    assert known.load(file)[known.key({"file": "f", "before": "a", "after": "   b"})] == "same"
    file.write_text('[[equivalent]]\nfile = "f"\nbefore = "a"\nafter = "b"\n')
    with pytest.raises(InputError, match="entry 1"):
        known.load(file)


def test_every_reason_is_about_a_fault_that_there_is() -> None:
    """Of the in-tree files; a reason whose lines are gone has to go too."""
    reasons = list(known.load())
    for target in targets.TARGETS.values():
        mine = {one for one in reasons if one[0] == target.file and target.tree == "project"}
        if mine:
            made = faults.faults((worker.PROJECT / target.file).read_text(), target.functions)
            lines = [{"file": target.file, "before": one.before, "after": one.after} for one in made]
            assert mine <= {known.key(one) for one in lines}


def test_a_fault_is_killed_by_a_case_and_its_line_is_read_again(tmp_path: Path) -> None:
    """Two faults of the pool's source through its smoke cases, in a warm process."""
    target = targets.TARGETS["pooling"]
    plan = sweep.plan(target, {"project": worker.PROJECT}, "smoke", tmp_path, sample=2, seed=3)
    records = list(sweep.run(plan, 1))
    assert len(records) == 2 and any(one["how"] for one in records)
    assert plan.left == [] and list(sweep.run(plan, 1)) == []


def _told(monkeypatch: pytest.MonkeyPatch, took: dict[str, float], red: dict[str, str]) -> worker.Baseline:
    """The baseline of a target over suites pool and gate, from what a process would say."""
    target = targets.SourceTarget("two", "x.py", ("pool", "gate"))
    told = {"how": "", "said": "", "took": took, "red": red}
    monkeypatch.setattr(worker.Zygote, "_ask", lambda *_, **__: told)
    return worker.Zygote(target, Path(), {}).baseline([*took, *red])


def test_a_suite_without_a_green_case_is_an_error_and_others_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Green ones judge, quickest first; of the others it is kept why."""
    pool, other = "pool-layers21-page64-blocks3-d128", "pool-layers3-page16-blocks7-d128"
    gate = "gate-ruledsa-bytransfer"
    found = _told(monkeypatch, {pool: 2.0, gate: 1.0}, {other: "refused: no pool"})
    assert found.cases == (gate, pool) and found.left_out == {other: "refused: no pool"}
    with pytest.raises(CannotRun, match="no case of suite gate is green without a fault: refused: no gate"):
        _told(monkeypatch, {pool: 2.0}, {gate: "refused: no gate"})
    with pytest.raises(CannotRun, match="no case of suite gate is green without a fault: it lists none"):
        _told(monkeypatch, {pool: 2.0}, {})


def _swept(folder: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> sweep.SourcePlan:
    """A plan of one fault over suite pool after a sweep in which each fault became ``how``."""
    listed = tuple(sweep.cases_of(targets.TARGETS["pooling"], "smoke"))
    said = worker.Baseline(listed[1:], {listed[0]: "error: broken"}, 1.0)
    told = {"how": how, "case": "", "said": ""}
    monkeypatch.setattr(worker.Zygote, "__enter__", lambda self: self)
    monkeypatch.setattr(worker.Zygote, "baseline", lambda *_: said)
    monkeypatch.setattr(worker.Zygote, "trial", lambda *_: told)
    roots = {"project": worker.PROJECT}
    plan = sweep.plan(targets.TARGETS["pooling"], roots, "smoke", folder, sample=1, seed=3)
    assert len(list(sweep.run(plan, 1))) == 1
    return plan


def test_what_was_left_out_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for a run that finds everything on disk."""
    first = sweep.cases_of(targets.TARGETS["pooling"], "smoke")[0]
    assert _swept(tmp_path, monkeypatch, "bits").left_out == {first: "error: broken"}
    roots = {"project": worker.PROJECT}
    again = sweep.plan(targets.TARGETS["pooling"], roots, "smoke", tmp_path, sample=1, seed=3)
    assert again.left == [] and again.left_out == {first: "error: broken"}


def test_a_missed_fault_is_tried_again_when_other_cases_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed one is not; and a reason that is known now counts for a line that is older."""
    missed = _swept(tmp_path / "missed", monkeypatch, "")
    killed = _swept(tmp_path / "killed", monkeypatch, "bits")
    assert missed.left == [] and [one["why"] for one in missed.records] == [PENDING]
    listed = sweep.cases_of(missed.target, "smoke")
    monkeypatch.setattr(sweep, "cases_of", lambda *_: [*listed, "one more"])
    assert missed.left == list(missed.names) and killed.left == []
    fault = missed.faults[missed.names[0]]
    key = known.key({"file": missed.target.file, "before": fault.before, "after": fault.after})
    monkeypatch.setattr(known, "load", lambda: {key: "the same"})
    assert missed.left == [] and [one["why"] for one in missed.records] == ["the same"]


def test_a_project_that_changes_meanwhile_ends_the_sweep(tmp_path: Path) -> None:
    """A file that is edited, or new, by its name; its own caches do not count."""
    (tmp_path / "harness").mkdir()
    (tmp_path / "harness" / "x.py").write_text("1")
    unchanged = worker.Unchanged(tmp_path)
    (tmp_path / "harness" / "x.pyc").write_text("cache")
    unchanged.check()
    (tmp_path / "harness" / "new.py").write_text("1")
    with pytest.raises(CannotRun, match=r"harness/new\.py changed while faults were tried"):
        unchanged.check()
    (tmp_path / "harness" / "new.py").unlink()
    (tmp_path / "harness" / "x.py").write_text("12")
    with pytest.raises(CannotRun, match=r"harness/x\.py changed"):
        unchanged.check()


def test_the_table_of_a_log_has_a_row_a_source_and_what_did_not_judge() -> None:
    """Columns and their sum, then the cases left out."""
    one = {"faults": 3, "killed": 1, "equivalent": 1, "survived": 1, "left_out": {"a-case": "error: x"}}
    two = {"faults": 2, "killed": 2, "equivalent": 0, "survived": 0, "left_out": {}}
    said = power_source.markdown({"first": one, "second": two}).splitlines()
    assert said[2:5] == ["| first | 3 | 1 | 1 | 1 |", "| second | 2 | 2 | 0 | 0 |", "| all | 5 | 3 | 1 | 1 |"]
    assert said[-1] == "first is not judged by `a-case`, red without a fault: error: x"
