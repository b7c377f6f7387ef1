"""Source faults: what they are, that the tree stays as it is, and that a case sees one."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.exits import CannotRun, InputError
from harness.power.source import faults, known, sweep, targets
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
    texts = {one.file: one for one in targets.TARGETS.values() if one.tree == "project"}
    for file, before, after in known.load():
        if file in texts:
            made = faults.faults((sweep.PROJECT / file).read_text(), texts[file].functions)
            assert (file, before, after) in {
                known.key({"file": file, "before": one.before, "after": one.after}) for one in made
            }


def test_a_fault_is_killed_by_a_case_and_its_line_is_read_again(tmp_path: Path) -> None:
    """Two faults of the pool's source through its smoke cases, in a warm process."""
    target = targets.TARGETS["pooling"]
    plan = sweep.plan(target, {"project": sweep.PROJECT}, "smoke", tmp_path, sample=2, seed=3)
    records = list(sweep.run(plan, 1))
    assert len(records) == 2 and any(one["how"] for one in records)
    assert plan.left == [] and list(sweep.run(plan, 1)) == []
