"""Kernels written in FlyDSL run through its own front door, and what a session sees is that session's."""

from __future__ import annotations

import gc
import threading
import types
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.emulator import backend
from harness.emulator.program import UnsupportedOperation
from harness.findings import Finding
from suites.self.emulator_builder import bits

FILE = "suites/self/emulator_kernels.py"


@pytest.fixture(scope="module")
def kernels() -> Iterator[types.ModuleType]:
    """The kernels, imported only after the emulator is installed, as production's are."""
    backend.install()
    from suites.self import emulator_kernels

    yield emulator_kernels


def ramp(count: int) -> Tensor:
    return torch.arange(count, dtype=torch.float32)


# values


def test_a_guarded_kernel_with_scalars_of_three_types(kernels: Any) -> None:
    """The tail of the last workgroup is off; float and integer arguments arrive as they were given."""
    x, out = ramp(100) / 7, torch.full((100,), -1.0)
    with backend.session() as seen:
        kernels.scale(out, x, 3.3, 90, 2, 0)
    assert bits(out[:90]) == bits(x[:90] * torch.tensor(3.3) + 1.0)
    assert out[90:].tolist() == [-1.0] * 10
    assert seen.findings == ()
    assert seen.facts["launches"] == 1 and seen.launches[0]["grid"] == (2, 1, 1)
    assert seen.launches[0]["block"] == (64, 1, 1)


def test_a_kernel_compiled_once_takes_new_tensors_each_time(kernels: Any) -> None:
    for factor in (2.0, -1.0):
        x, out = ramp(70), torch.zeros(70)
        kernels.scale(out, x, factor, 70, 2, 0)
        assert torch.equal(out, x * factor + 1.0)


def test_loops_with_a_count_a_lane(kernels: Any) -> None:
    counts, out = torch.arange(64, dtype=torch.int32) % 7, torch.zeros(64, dtype=torch.int32)
    kernels.sums(out, counts, 0)
    for lane, got in enumerate(out.tolist()):
        steps = range(lane % 7)
        total = sum(step * lane if step % 2 == 0 else -1 for step in steps)
        assert got == total * 100 + sum(step % 2 for step in steps)


def test_shapes_and_strides_of_a_view_reach_the_kernel(kernels: Any) -> None:
    view, out = ramp(64).view(8, 8)[1:4, 2:7], torch.zeros(15)
    with backend.session() as seen:
        kernels.flattened(out, view, 0)
    assert torch.equal(out, view.reshape(-1)) and seen.findings == ()


def test_shared_memory_with_and_without_its_barrier(kernels: Any) -> None:
    """The unfenced twin gives the same values here and is found out all the same."""
    x, out = ramp(384), torch.zeros(384)
    for fenced in (True, False):
        with backend.session() as seen:
            kernels.mirror(out, x, 3, fenced, 0)
        assert torch.equal(out.view(3, 128), x.view(3, 128).flip(1))
        assert [(f.kind, f.count) for f in seen.findings] == ([] if fenced else [("missing-barrier", 384)])


# findings


def read_past_the_end(kernels: Any, **session: Any) -> tuple[Finding, ...]:
    x, out = ramp(64), torch.zeros(64)
    labels = {name: {"x": x, "out": out}[name] for name in session.pop("labelled", ())}
    with backend.session(labels=labels, **session) as seen:
        kernels.following(out, x, 0)
    return seen.findings


def test_a_finding_points_at_its_lines_by_relative_names(kernels: Any) -> None:
    """Innermost call first, then the kernel's own line; nothing of this machine's directories."""
    load, store = read_past_the_end(kernels, labelled=["x"])
    helper = kernels.line_of("store")
    assert load.kind == "out-of-bounds-load" and load.operand == "x" and load.count == 1
    assert load.location.endswith(f" < {FILE}:{kernels.line_of('next')}")
    assert load.file == store.file == FILE
    assert load.first == {"cta": 0, "lane": 63, "offset": 256, "extent": 256}
    assert store.kind == "write-race"
    assert store.location == f"{FILE}:{helper} < {FILE}:{kernels.line_of('race')}"
    root = str(Path(kernels.__file__).resolve().parents[2])
    assert root not in repr((load, store)) and "/" not in repr((load, store)).split(FILE)[0]


def test_operands_are_named_by_label_then_by_order_then_by_position(kernels: Any) -> None:
    for session, names in (
        ({"labelled": ["x", "out"], "order": ("a", "b")}, ["x", "out"]),
        ({"labelled": ["out"], "order": ("a", "b")}, ["b", "out"]),
        ({"order": ("a",)}, ["arg", "a"]),
        ({}, ["arg", "arg"]),
    ):
        found = read_past_the_end(kernels, **session)
        assert [finding.operand.rstrip("0123456789") for finding in found] == names
    unnamed = read_past_the_end(kernels)
    assert unnamed[0].operand != unnamed[1].operand


def test_a_reshaped_view_keeps_its_label(kernels: Any) -> None:
    x, out = ramp(64), torch.zeros(64)
    with backend.session(labels={"keys": x.view(8, 8)}) as seen:
        kernels.following(out, x, 0)
    assert seen.findings[0].operand == "keys"


def test_masks_of_defined_bytes_and_expected_cells(kernels: Any) -> None:
    """By the name of a label, or by the place of a tensor the host function allocated itself."""
    defined, expected = torch.ones(100, dtype=torch.bool), torch.ones(100, dtype=torch.bool)
    defined[5] = False
    for named in ("labels", "order"):
        x, out = ramp(100), torch.zeros(100)
        how: dict[str, Any] = (
            {"labels": {"out": out, "x": x}} if named == "labels" else {"order": ("out", "x")}
        )
        with backend.session(**how, defined={"x": defined}, expected={"out": expected}) as seen:
            kernels.scale(out, x, 1.0, 97, 2, 0)
        undefined, unwritten = seen.findings
        assert (undefined.kind, undefined.operand, undefined.count) == ("undefined-load", "x", 1)
        assert undefined.first == {"cta": 0, "lane": 5, "offset": 20, "extent": 400}
        assert (unwritten.kind, unwritten.operand, unwritten.count) == ("unwritten", "out", 3)
        assert unwritten.first == {"offset": 388, "extent": 400}


def test_a_mask_for_nothing_is_refused() -> None:
    with (
        pytest.raises(ValueError, match="'x' has a mask but no tensor"),
        backend.session(labels={"y": ramp(1)}, defined={"x": torch.ones(1, dtype=torch.bool)}),
    ):
        pass


def test_launches_of_one_host_function_follow_each_other(kernels: Any) -> None:
    """Each half is written by its own launch; the second may rewrite the first's cells from other lanes."""
    out = torch.zeros(128)
    with backend.session(labels={"out": out}, expected={"out": torch.ones(128, dtype=torch.bool)}) as seen:
        kernels.two_halves(out, 0)
    assert seen.findings == () and seen.facts["launches"] == 2
    assert out.tolist() == [2.0] * 128
    out = torch.zeros(65)
    with backend.session(order=("out",), expected={"out": torch.ones(65, dtype=torch.bool)}) as seen:
        kernels.shifted(out, 0)
    assert seen.findings == ()
    x, out = ramp(64), torch.zeros(64)
    expected = torch.ones(64, dtype=torch.bool)
    with backend.session(labels={"out": out}, defined={"out": ~expected}, expected={"out": expected}) as seen:
        kernels.scale_twice(out, x, 2.0, 64, 1, 0)
    assert seen.findings == ()
    assert torch.equal(out, (x * 2 + 1) * 2 + 1)


def test_a_cell_that_no_launch_wrote_is_reported_once(kernels: Any) -> None:
    out = torch.zeros(130)
    with backend.session(labels={"out": out}, expected={"out": torch.ones(130, dtype=torch.bool)}) as seen:
        kernels.two_halves(out, 0)
    (finding,) = seen.findings
    assert (finding.kind, finding.count, finding.first["offset"]) == ("unwritten", 2, 512)


# sessions


def test_sessions_do_not_see_each_other(kernels: Any) -> None:
    """One after the other, one inside the other, and launches outside of any."""
    with backend.session() as outer:
        kernels.following(torch.zeros(64), ramp(64), 0)
        before = outer.findings
        with backend.session() as inner:
            kernels.scale(torch.zeros(64), ramp(64), 1.0, 64, 1, 0)
        assert inner.findings == () and inner.facts["launches"] == 1
        assert outer.findings == before and outer.facts["launches"] == 1
        kernels.following(torch.zeros(64), ramp(64), 0)
    assert [finding.count for finding in outer.findings] == [2 * finding.count for finding in before]
    kernels.following(torch.zeros(64), ramp(64), 0)
    with backend.session() as fresh:
        pass
    assert fresh.findings == () and fresh.facts["launches"] == 0


def test_a_session_that_fails_is_closed(kernels: Any) -> None:
    with pytest.raises(RuntimeError, match="in mid-session"), backend.session() as broken:
        raise RuntimeError("in mid-session")
    kernels.following(torch.zeros(64), ramp(64), 0)
    assert broken.findings == ()


def test_a_session_belongs_to_its_thread(kernels: Any) -> None:
    kernels.following(torch.zeros(64), ramp(64), 0)
    with backend.session() as mine:
        thread = threading.Thread(target=lambda: kernels.following(torch.zeros(64), ramp(64), 0))
        thread.start()
        thread.join()
    assert mine.findings == () and mine.facts["launches"] == 0


def test_a_launch_keeps_no_tensor_alive(kernels: Any) -> None:
    x, out = ramp(64), torch.zeros(64)
    kernels.scale(out, x, 1.0, 64, 1, 0)
    seen = weakref.ref(x.untyped_storage())
    del x
    gc.collect()
    assert seen() is None


def test_installing_twice_changes_nothing(kernels: Any) -> None:
    backend.install()
    out = torch.zeros(64)
    kernels.scale(out, ramp(64), 2.0, 64, 1, 0)
    assert torch.equal(out, ramp(64) * 2 + 1)


# refusals


def test_an_unsupported_operation_is_named_with_its_line(kernels: Any) -> None:
    out = torch.full((64,), -1.0)
    line = kernels.line_of("exponential")
    with pytest.raises(UnsupportedOperation, match=rf"unsupported operation math\.exp2 at {FILE}:{line}$"):
        kernels.exponential(out, ramp(64), 0)
    assert out.tolist() == [-1.0] * 64


@pytest.mark.parametrize("flag", ("fast", "contract", "reassoc", "arcp", "afn"))
def test_fast_math_is_refused_with_its_line(kernels: Any, flag: str) -> None:
    """What a compiler may fuse, reorder or approximate has no one answer."""
    line = kernels.line_of("fast")
    with pytest.raises(UnsupportedOperation, match=rf"fast-math flags \['{flag}'\] on .* at {FILE}:{line}$"):
        kernels.fast(torch.zeros(64), ramp(64), flag, 0)


def test_a_hint_that_lets_the_compiler_loosen_arithmetic_is_refused(kernels: Any) -> None:
    """It is an option of the target, seen in no operation."""
    import flydsl.compiler as flyc

    with pytest.raises(UnsupportedOperation, match="compile hint unsafe_fp_math"):
        flyc.compile[{"unsafe_fp_math": True}](kernels.loosely, torch.zeros(64), ramp(64), 0)


def test_a_view_of_an_argument_has_its_own_bounds(kernels: Any) -> None:
    """The short view comes first; the whole tensor is still read to its end, and no further."""
    x = ramp(64)
    with backend.session() as seen:
        kernels.following(x[:32], x, 0)
    kinds = {(f.kind, f.first["extent"]) for f in seen.findings}
    assert {("out-of-bounds-load", 256), ("out-of-bounds-store", 128)} <= kinds


def test_a_refused_launch_leaves_no_trace_for_the_next(kernels: Any) -> None:
    with pytest.raises(UnsupportedOperation):
        kernels.exponential(torch.zeros(64), ramp(64), 0)
    with backend.session() as seen:
        kernels.scale(torch.zeros(64), ramp(64), 1.0, 64, 1, 0)
    assert seen.findings == () and seen.facts["launches"] == 1


def test_a_launch_without_tensors_is_refused(kernels: Any) -> None:
    """Without a tensor there is no telling which device it is for."""
    with pytest.raises(UnsupportedOperation, match="launch with tensors on 0 devices"):
        kernels.nothing(3, 0)
