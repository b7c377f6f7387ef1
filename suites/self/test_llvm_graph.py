"""Control-flow graphs: lanes that part and meet again, barriers, what lanes keep while they are elsewhere."""

from __future__ import annotations

import pytest
import torch

from harness.emulator import calls, sessions
from harness.emulator.llvm.module import read
from harness.emulator.llvm.order import execution_order
from harness.emulator.llvm.translate import translate
from harness.emulator.program import UnsupportedOperation
from harness.findings import Finding
from suites.self import llvm_lanes


def launched(text: str, *arguments: calls.Argument, lanes: int = 64) -> tuple[Finding, ...]:
    """Findings of kernel ``k`` of ``text``, one workgroup of ``lanes`` lanes."""
    with sessions.session() as session:
        calls.call(translate(read(text), "k"), (1, 1, 1), (lanes, 1, 1), arguments)
    return session.findings


@pytest.mark.parametrize("seed", range(40))
def test_every_lane_goes_its_own_way(seed: int) -> None:
    """Random graphs give each lane what it gets when it is run alone."""
    text = llvm_lanes.random_kernel(seed)
    out = torch.zeros(64, dtype=torch.int32)
    assert not launched(text, out)
    function = read(text).functions["k"]
    assert (out.long() & llvm_lanes.BITS).tolist() == [llvm_lanes.run(function, lane) for lane in range(64)]


def test_lanes_of_the_random_graphs_part() -> None:
    """The graphs above are no straight lines: most give several answers."""
    parted = 0
    for seed in range(40):
        function = read(llvm_lanes.random_kernel(seed)).functions["k"]
        parted += len({llvm_lanes.run(function, lane) for lane in range(64)}) > 8
    assert parted > 20


def test_a_loop_comes_before_what_lies_behind_it() -> None:
    """Lanes that leave a loop early wait for the others, whichever way the compiler wrote the branch."""
    edges = {"a": ["b"], "b": ["out", "c"], "c": ["d", "b"], "d": ["c", "b"], "out": []}
    order = execution_order("a", edges)
    assert order.index("out") == 4
    assert order[:2] == ["a", "b"]


COUNT = """\
@s = internal addrspace(3) global [256 x i32] undef
define amdgpu_kernel void @k(ptr addrspace(1) %out) {
entry:
  %lane = call i32 @llvm.amdgcn.workitem.id.x()
  %mine = getelementptr i32, ptr addrspace(3) @s, i32 %lane
  store i32 %lane, ptr addrspace(3) %mine
  %odd = and i32 %lane, 1
  %c = icmp eq i32 %odd, COMPARED
  br i1 %c, label %then, label %join
then:
  call void @llvm.amdgcn.s.barrier()
  br label %join
join:
  BARRIER
  %next = xor i32 %lane, 64
  %theirs = getelementptr i32, ptr addrspace(3) @s, i32 %next
  %v = load i32, ptr addrspace(3) %theirs
  %at = getelementptr i32, ptr addrspace(1) %out, i32 %lane
  store i32 %v, ptr addrspace(1) %at
  ret void
}
"""
MEET = "call void @llvm.amdgcn.s.barrier()"


def test_waves_meet_at_a_barrier() -> None:
    out = torch.zeros(128, dtype=torch.int32)
    assert not launched(COUNT.replace("COMPARED", "7").replace("BARRIER", MEET), out, lanes=128)
    assert out.tolist() == [lane ^ 64 for lane in range(128)]


def test_a_missing_barrier_is_found() -> None:
    """Reading what another wave stored, without a barrier between."""
    out = torch.zeros(128, dtype=torch.int32)
    found = launched(COUNT.replace("COMPARED", "7").replace("BARRIER", ""), out, lanes=128)
    assert [one.kind for one in found] == ["missing-barrier"]


POSITIONS = """\
!1 = !DIFile(filename: "a.cu", directory: ".")
!2 = distinct !DISubprogram(name: "k", scope: !1, file: !1, line: 4)
!3 = !DILocation(line: 9, column: 3, scope: !2)
"""


def test_shared_memory_that_is_overwritten_while_others_may_read_it_is_found() -> None:
    """A second store right after the read of another wave's cell: hardware may be quicker than the reader."""
    text = COUNT.replace("COMPARED", "7").replace("BARRIER", MEET) + POSITIONS
    text = text.replace("%theirs\n", "%theirs, !dbg !3\n")
    again = "store i32 %v, ptr addrspace(3) %mine\n  %at ="
    found = launched(text.replace("%at =", again), torch.zeros(128, dtype=torch.int32), lanes=128)
    assert [(one.kind, one.count) for one in found] == [("overwritten-early", 128)]
    fenced = launched(
        text.replace("%at =", f"{MEET}\n  {again}"), torch.zeros(128, dtype=torch.int32), lanes=128
    )
    assert not fenced


def test_a_barrier_that_half_the_lanes_reach_is_found() -> None:
    out = torch.zeros(128, dtype=torch.int32)
    found = launched(COUNT.replace("COMPARED", "1").replace("BARRIER", MEET), out, lanes=128)
    assert [(one.kind, one.count) for one in found] == [("divergent-lanes", 64)]


EARLY = """\
define amdgpu_kernel void @k(ptr addrspace(1) %out) {
  %1 = call i32 @llvm.amdgcn.workitem.id.x()
  %2 = icmp ult i32 %1, 64
  br i1 %2, label %3, label %4
3:
  ret void
4:
  call void @llvm.amdgcn.s.barrier()
  ret void
}
"""


def test_a_barrier_that_ended_lanes_miss_is_found() -> None:
    found = launched(EARLY, torch.zeros(1, dtype=torch.int32), lanes=128)
    assert [(one.kind, one.count) for one in found] == [("divergent-lanes", 64)]


def test_a_loop_without_an_end_is_cut_off() -> None:
    text = "define amdgpu_kernel void @k() {\na:\n  br label %b\nb:\n  br label %b\n}"
    with pytest.raises(sessions.Runaway, match="more than 50"), sessions.edited(lambda one: one, 50):
        launched(text)


def test_private_memory_is_each_lane_s_own() -> None:
    text = """\
define amdgpu_kernel void @k(ptr addrspace(1) %out) {
  %lane = call i32 @llvm.amdgcn.workitem.id.x()
  %own = alloca [4 x i32], align 4, addrspace(5)
  %slot = and i32 %lane, 3
  %p = getelementptr [4 x i32], ptr addrspace(5) %own, i32 0, i32 %slot
  store i32 %lane, ptr addrspace(5) %p
  %v = load i32, ptr addrspace(5) %p
  %at = getelementptr i32, ptr addrspace(1) %out, i32 %lane
  store i32 %v, ptr addrspace(1) %at
  ret void
}"""
    out = torch.zeros(64, dtype=torch.int32)
    assert not launched(text, out)
    assert out.tolist() == list(range(64))


@pytest.mark.parametrize(
    ("operation", "start", "end"),
    [
        ("add", 5, 5 + 2016),
        ("umax", 5, 63),
        ("xchg", 5, 63),
        ("or", 0, 63),
        ("min", -4, -4),
        ("sub", 0, -2016),
    ],
)
def test_atomics_take_turns(operation: str, start: int, end: int) -> None:
    """All lanes change one cell; what they find is what the lanes before them left."""
    text = f"""\
define amdgpu_kernel void @k(ptr addrspace(1) %cell, ptr addrspace(1) %out) {{
  %lane = call i32 @llvm.amdgcn.workitem.id.x()
  %old = atomicrmw {operation} ptr addrspace(1) %cell, i32 %lane syncscope("agent") monotonic, align 4
  %at = getelementptr i32, ptr addrspace(1) %out, i32 %lane
  store i32 %old, ptr addrspace(1) %at
  ret void
}}"""
    cell, out = torch.tensor([start], dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    assert not launched(text, cell, out)
    assert cell.item() == end
    assert out[0].item() == start
    if operation == "add":
        assert out.tolist() == [start + lane * (lane - 1) // 2 for lane in range(64)]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("%x = call i32 @other(i32 1)", "call of other"),
        ("%x = call float @llvm.sin.f32(float 1.0)", "intrinsic llvm.sin.f32"),
        ("%x = fadd reassoc float 1.0, 2.0", "fadd with the flags reassoc"),
        ('call void asm sideeffect "v_foo $0", ""()', "inline assembly"),
        ("%x = cmpxchg ptr %out, i32 1, i32 2 monotonic monotonic", "cmpxchg"),
        ("%x = load i33, ptr %out", "value of type i33"),
        ("%x = frob i32 1", "instruction frob"),
        ("%x = add i32 %nowhere, 1", "value %nowhere, which nothing defines"),
        ("unreachable", "took for unreachable"),
    ],
)
def test_what_has_no_meaning_is_refused_by_name(line: str, says: str) -> None:
    end = "" if line == "unreachable" else "  ret void\n"
    text = f"define amdgpu_kernel void @k(ptr %out) {{\n  {line}\n{end}}}"
    with pytest.raises(UnsupportedOperation, match=says):
        launched(text, torch.zeros(4, dtype=torch.int32))


def test_arguments_are_checked_against_the_signature() -> None:
    kernel = translate(read("define amdgpu_kernel void @k(ptr %a, i32 %n) {\n  ret void\n}"), "k")
    for given in ((torch.zeros(1),), (torch.zeros(1), 1.5), (3, 4), (torch.zeros(1), None)):
        with pytest.raises(UnsupportedOperation, match="argument"):
            calls.call(kernel, (1, 1, 1), (64, 1, 1), given)
    with pytest.raises(UnsupportedOperation, match="none of that name"):
        translate(read(""), "k")
