"""What two recordings are held to: every byte, shape, type, way of ending, signature, and its first cell."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from harness.ab import compare, seen, show, text
from harness.ab.tape import Tape, bytes_of, filled_memory, inputs_of, outputs
from harness.command.cli_ab import exit_code
from harness.exits import AGREE, DIFFER, ERROR, UNPROVEN
from harness.findings import Finding
from harness.paths import base, signatures
from harness.paths.aiter import tree
from harness.paths.base import Outcome, Unsupported


@dataclass(frozen=True)
class Ask:
    """A request of these tests."""

    written: ClassVar[tuple[str, ...]] = ("out",)

    x: Tensor
    how: str = "twice"
    out: Tensor | None = None


class Small(base.Path):
    """Answers `Ask` by ``method``."""

    name = "small"
    executor = "torch"

    def __init__(self, method: Callable[[Ask], Any]) -> None:
        self.method = method

    def answers(self) -> base.Answers:
        return {Ask: lambda request: Outcome(self.method(request))}


def recorded(folder: Path, method: Callable[[Ask], Any], *requests: Ask) -> dict[str, Any]:
    """One case's event of a side that answers ``requests`` by ``method``."""
    folder.mkdir(exist_ok=True)
    tape = Tape(Small(method), folder)
    tape.begin(0)
    for request in requests or (Ask(torch.arange(6.0).reshape(2, 3)),):
        try:
            tape.run(request)
        except (Unsupported, ZeroDivisionError):
            break
    broken = bool(tape.requests) and tape.requests[-1]["outcome"] == "error"
    event = {"case": "some-case", "reason": "", "seconds": 0.0, "requests": tape.requests}
    event |= {"status": "error", "reason": "it broke"} if broken else {"status": "agree"}
    return dict(json.loads(json.dumps(event)))


def compared(tmp_path: Path, base_: Callable[[Ask], Any], head: Callable[[Ask], Any], *requests: Ask) -> Any:
    """The comparison of two sides that were asked the same."""
    folders = tmp_path / "base", tmp_path / "head"
    events = [recorded(folder, how, *requests) for folder, how in zip(folders, (base_, head), strict=True)]
    return compare.case(events[0], events[1], folders)


def twice(request: Ask) -> Tensor:
    return request.x * 2


def refusing(request: Ask) -> Tensor:
    raise Unsupported("this tree has no such function")


def breaking(request: Ask) -> Tensor:
    raise ZeroDivisionError("of the tree")


def test_equal_answers_are_the_same(tmp_path: Path) -> None:
    """Same bytes, and what was compared is counted."""
    found = compared(tmp_path, twice, twice)
    assert (found.status, found.changes, found.tensors, found.bytes) == (compare.SAME, (), 1, 24)


def test_one_bit_is_found_and_named(tmp_path: Path) -> None:
    """Coordinates, both patterns, how many of how many."""

    def other(request: Ask) -> Tensor:
        value = twice(request)
        value.view(torch.int32)[1, 2] ^= 1
        return value

    found = compared(tmp_path, twice, other)
    assert found.status == compare.DIFFERS
    (change,) = found.changes
    assert (change.where, change.count, change.total) == ("[1, 2]", 1, 6)
    assert change.base == "0x41200000 10.0" and change.head.startswith("0x41200001 10.00000")
    assert change.text().startswith(
        "request 0 Ask value float32 [2, 3]: 1 of 6 cells differ, first at [1, 2]"
    )


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (lambda request: twice(request).reshape(3, 2), "form of request 0 Ask value"),
        (lambda request: twice(request).double(), "form of request 0 Ask value"),
        (lambda request: (twice(request), request.x), "tensors of request 0 Ask"),
        (lambda request: -0.0 * twice(request), "cells differ, first at [0, 0]"),
        (lambda request: twice(request) * math.nan, "cells differ, first at [0, 0]"),
        (breaking, "outcome of request 0 Ask: an answer in base, ZeroDivisionError: of the tree in head"),
    ],
)
def test_whatever_else_is_another(tmp_path: Path, head: Callable[[Ask], Any], says: str) -> None:
    """Shape, type, number of tensors, the sign of zero, a NaN, and breaking differ."""
    found = compared(tmp_path, twice, head)
    assert found.status == compare.DIFFERS
    assert says in found.changes[0].text()


def test_nans_of_one_payload_are_the_same_bytes(tmp_path: Path) -> None:
    """A NaN is a difference only when its bits are others."""

    def nan(payload: int) -> Callable[[Ask], Tensor]:
        return lambda request: torch.full((2,), 0x7FC00000 + payload, dtype=torch.int32).view(torch.float32)

    assert compared(tmp_path, nan(1), nan(1)).status == compare.SAME
    assert compared(tmp_path, nan(1), nan(2)).status == compare.DIFFERS


@pytest.mark.parametrize(
    ("sides", "status"),
    [
        ((refusing, refusing), "unsupported"),
        ((twice, refusing), compare.GONE),
        ((refusing, twice), compare.NEW),
        ((breaking, breaking), "error"),
        ((refusing, breaking), compare.DIFFERS),
    ],
)
def test_ways_of_not_answering(tmp_path: Path, sides: tuple[Any, Any], status: str) -> None:
    """Refusing alike is unsupported; refusing what the base answered is gone."""
    found = compared(tmp_path, *sides)
    assert found.status == status and found.reason


def test_refusals_that_a_case_asks_for_are_answers(tmp_path: Path) -> None:
    """Both raise alike and the case goes on: the same, unless one raises something else."""
    one = recorded(tmp_path, breaking) | {"status": "agree"}
    found = compare.case(one, one, (tmp_path, tmp_path))
    assert (found.status, found.notes) == (compare.SAME, ())
    worded, other = (
        [{**one["requests"][0], "reason": text}] for text in ("ZeroDivisionError: x", "OSError: x")
    )
    found = compare.case(one, {**one, "requests": worded}, (tmp_path, tmp_path))
    assert found.status == compare.SAME and "other words" in found.notes[0]
    found = compare.case(one, {**one, "requests": other}, (tmp_path, tmp_path))
    assert found.status == compare.DIFFERS


def test_what_is_written_counts_as_answered(tmp_path: Path) -> None:
    """A caller's buffer is compared, whatever the value."""

    def writing(value: float) -> Callable[[Ask], Tensor]:
        def method(request: Ask) -> Tensor:
            assert request.out is not None
            request.out.fill_(value)
            return torch.zeros(1)

        return method

    def ask() -> Ask:
        return Ask(torch.ones(1), out=torch.zeros(3))

    folders = tmp_path / "base", tmp_path / "head"
    one, other = recorded(folders[0], writing(1.0), ask()), recorded(folders[1], writing(2.0), ask())
    found = compare.case(one, other, folders)
    assert [change.what for change in found.changes] == ["request 0 Ask out float32 [3]"]


def test_answers_to_other_questions_are_not_compared(tmp_path: Path) -> None:
    """What follows from an earlier difference is said to."""
    folders = tmp_path / "base", tmp_path / "head"
    one = recorded(folders[0], twice, Ask(torch.ones(2)))
    other = recorded(folders[1], twice, Ask(torch.zeros(2)))
    found = compare.case(one, other, folders)
    assert found.status == compare.DIFFERS and "other inputs" in found.notes[0]


def test_a_side_that_is_asked_more_differs(tmp_path: Path) -> None:
    folders = tmp_path / "base", tmp_path / "head"
    ask = Ask(torch.ones(2))
    found = compare.case(recorded(folders[0], twice, ask), recorded(folders[1], twice, ask, ask), folders)
    assert found.status == compare.DIFFERS and found.changes[0].text() == (
        "number of requests: 1 in base, 2 in head"
    )


def test_inputs_are_digested_with_the_plain_fields() -> None:
    """Another tensor or another word is another question; what the path writes is none."""
    x, out = torch.ones(2), torch.zeros(2)
    same = inputs_of(Ask(x, out=out))
    assert same == inputs_of(Ask(x.clone(), out=torch.ones(2)))
    assert len({same, inputs_of(Ask(torch.zeros(2))), inputs_of(Ask(x, how="once"))}) == 3


def test_values_that_are_no_tensors_are_compared_as_text() -> None:
    """A number or a word that a function returns is part of its answer."""
    (_, one), (_, other) = (next(iter(outputs(Ask(torch.ones(1)), value))) for value in (3, 4))
    assert bytes_of(one) == b"3" and bytes_of(other) == b"4"


def test_uninitialised_memory_is_filled_and_the_setting_put_back() -> None:
    """Garbage of two processes is never equal."""
    with filled_memory():
        assert bool(torch.empty(64).isnan().all())
    assert not torch.are_deterministic_algorithms_enabled()


def test_findings_are_noted(tmp_path: Path) -> None:
    """A finding that only one side has is said, and is no difference of bytes."""
    finding = Finding("out-of-bounds-load", "kernel", "keys", "a.py:1", 1)

    class Finds(Small):
        def answers(self) -> base.Answers:
            return {Ask: lambda request: Outcome(twice(request), (finding,))}

    folders = tmp_path / "base", tmp_path / "head"
    one = recorded(folders[0], twice)
    folders[1].mkdir()
    tape = Tape(Finds(twice), folders[1])
    tape.begin(0)
    tape.run(Ask(torch.arange(6.0).reshape(2, 3)))
    found = compare.case(one, {**one, "requests": tape.requests}, folders)
    assert found.status == compare.SAME
    assert found.notes == ("findings were none, are out-of-bounds-load keys",)


# signatures


def one(a: int, b: int = 1, *, c: str = "x") -> None: ...


def other(a: int, b: int = 2, *, c: str = "x", d: float = 0.5) -> None: ...


def turned(b: int = 1, a: int = 0, *, c: str = "x") -> None: ...


def test_signatures_say_what_changed() -> None:
    """A default, a new parameter, another order, each by its name."""
    before, after, moved = (seen.parameters_of(function) for function in (one, other, turned))
    assert compare.signature(before, before) == []
    assert compare.signature(before, after) == ["default of b was 1, is 2", "parameter d=0.5 is new"]
    assert compare.signature(after, before)[1] == "parameter d is gone"
    assert compare.signature(before, moved) == [
        "default of a was none, is 0",
        "order was a, b, c, is b, a, c",
    ]


def test_a_signature_is_the_same_read_or_imported(tmp_path: Path) -> None:
    """What is read from the source has the names, kinds and defaults of the function itself."""
    file = tmp_path / "some.py"
    file.write_text("def one(a, b=1, *rest, c='x', **more):\n    pass\n")
    space: dict[str, Any] = {}
    exec(file.read_text(), space)
    assert seen.read(file, "one") == seen.parameters_of(space["one"])
    assert seen.read(file, "two") is None and seen.read(tmp_path / "none.py", "one") is None


def test_addresses_in_defaults_do_not_differ() -> None:
    """An object prints its address, which is another in every process."""

    def made() -> Callable[..., None]:
        def function(a: object = object()) -> None: ...

        return function

    assert seen.parameters_of(made()) == seen.parameters_of(made())


def test_functions_that_adapters_look_up_are_noted() -> None:
    """Also those that do not fit; the doors are put back."""
    doors = signatures.check, tree.function
    functions: dict[str, Any] = {}
    with seen.noting(functions):
        signatures.check(one, "one", ("a", "b", "c"), "this tree")
        with pytest.raises(Unsupported):
            signatures.check(other, "other", ("z",), "this tree")
    assert set(functions) == {"one", "other"} and doors == (signatures.check, tree.function)


def test_a_function_that_was_read_and_looked_up_is_told_once() -> None:
    """The name without its ending is told, and the other one where it stands alone."""
    before, after = seen.parameters_of(one), seen.parameters_of(other)
    changes, _ = compare.functions({"f": before, "f (source)": before}, {"f": after, "f (source)": after})
    assert {change.what.split(":")[0] for change in changes} == {"signature of f"}
    changes, _ = compare.functions({"f (source)": before}, {"f (source)": after})
    assert {change.what.split(":")[0] for change in changes} == {"signature of f (source)"}


def test_functions_of_one_side_are_noted() -> None:
    changes, alone = compare.functions({"f": [], "g": []}, {"f": [], "h": []})
    assert changes == []
    assert alone == ["function g was met in base only", "function h was met in head only"]


# code that is not run

CPP = """
template <typename T>
__global__ void some_kernel(const T* x, // the input
                            int n)
{ if(n) { x[0] = 1; } /* done */ }
void next() { }
"""


def test_text_is_compared_without_comments_and_layout(tmp_path: Path) -> None:
    """Braces bound a kernel, and only what a compiler reads of it counts."""
    file = tmp_path / "k.cu"
    file.write_text(CPP)
    first = text._text(file, "some_kernel")
    assert first is not None and first.endswith("{ if(n) { x[0] = 1; } }")
    file.write_text(CPP.replace("// the input\n", "\n").replace("/* done */", "\n\n"))
    assert text._text(file, "some_kernel") == first
    file.write_text(CPP.replace("= 1", "= 2"))
    assert text._text(file, "some_kernel") != first
    assert text._text(file, "another_kernel") is None and text._text(tmp_path / "none.cu", "x") is None


def test_text_of_python_is_its_tree(tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    file.write_text("def f(a):\n    # why\n    return a+1\n")
    first = text._text(file, "f")
    file.write_text("\n\ndef f(a):\n    return (a + 1)\n")
    assert text._text(file, "f") == first != text._text(file, "g")


def test_notes_about_text() -> None:
    """Changed, gone, and the same, each in a sentence."""
    said = text.notes({"a": "1", "b": "2", "c": "absent"}, {"a": "1", "b": "3", "c": "4"})
    assert said == [
        "b is not run here and its source changed",
        "c is not run here and is only in head",
        "not run here, but the same source: a",
    ]


# the exit code


def case(status: str, suite: str = "schedule") -> compare.Compared:
    return compare.Compared(f"{suite}-{IDS[suite]}", status)


IDS = {"schedule": "n1-ctx1-u0-l0", "pool": "layers2-page64-blocks1-d128"}


CHANGED = [compare.Change("signature of f: default of b was 1, is 2")]


@pytest.mark.parametrize(
    ("statuses", "changes", "whole", "code"),
    [
        ([compare.SAME, "unsupported", compare.NEW], [], True, AGREE),
        ([compare.SAME, compare.DIFFERS, "error"], [], True, DIFFER),
        ([compare.SAME, compare.GONE], [], True, DIFFER),
        ([compare.SAME], CHANGED, True, DIFFER),
        ([compare.SAME, "error"], [], True, ERROR),
        ([compare.SAME], [], False, ERROR),
        (["unsupported", compare.NEW, compare.NOT_ASKED], [], True, UNPROVEN),
        ([], [], True, UNPROVEN),
    ],
)
def test_the_exit_code(statuses: list[str], changes: list[Any], whole: bool, code: int) -> None:
    """A difference first, then what could not run, then what proves nothing."""
    assert exit_code([case(status) for status in statuses], changes, whole=whole) == code


def test_a_suite_that_was_named_must_be_compared() -> None:
    """Another one that has the same bytes does not stand in for it."""
    found = [case(compare.SAME), case(compare.NOT_ASKED, "pool")]
    assert exit_code(found, [], whole=True) == AGREE
    assert exit_code(found, [], whole=True, named=["schedule"]) == AGREE
    assert exit_code(found, [], whole=True, named=["schedule", "pool"]) == UNPROVEN


@pytest.mark.parametrize(
    ("statuses", "sentence"),
    [
        (
            [compare.NOT_ASKED],
            "nothing of pool was compared: path aiter has no operation",
        ),
        (["unsupported", "unsupported", compare.NEW], "nothing of pool was compared: neither tree answers"),
        ([compare.NEW], "nothing of pool was compared: only the head answers"),
        ([], "nothing was compared: no case was asked"),
    ],
)
def test_why_nothing_was_compared_is_one_sentence(statuses: list[str], sentence: str) -> None:
    """It names the suites of which nothing was, and no other."""
    found = [case(status, "pool") for status in statuses]
    assert show.nothing(found, "aiter").startswith(sentence)
    if found:
        assert show.nothing([case(compare.SAME), *found], "aiter").startswith(sentence)
