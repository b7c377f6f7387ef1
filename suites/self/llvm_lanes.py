"""LLVM IR of whole numbers, run lane by lane in plain Python: a second opinion on the graph executor.

One lane follows its own way through the blocks with a dictionary of values; nothing is masked or merged.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from harness.emulator.llvm.instructions import Instruction
from harness.emulator.llvm.module import Function
from harness.emulator.llvm.values import Ref

BITS = 0xFFFFFFFF
STEPS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "xor": lambda a, b: a ^ b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
}


def run(function: Function, lane: int) -> int:
    """What the lane hands to ``store`` last, unsigned; the function's only input is the lane's number."""
    blocks = {block.label: block.body for block in function.blocks}
    env: dict[str, int] = {}
    label, before, stored = function.blocks[0].label, "", 0
    while True:
        phis = [one for one in blocks[label] if one.code == "phi"]
        env.update({one.result: _incoming(one, before, env) for one in phis})
        for one in blocks[label][len(phis) :]:
            values = [_value(operand.value, env) for operand in one.operands]
            if one.code in STEPS:
                env[one.result] = STEPS[one.code](*values) & BITS
            elif one.code == "icmp":
                env[one.result] = int(
                    values[0] < values[1] if one.attrs["predicate"] == "ult" else values[0] == values[1]
                )
            elif one.code == "call":
                env[one.result] = lane
            elif one.code == "store":
                stored = values[0]
        last = blocks[label][-1]
        if last.code == "ret":
            return stored
        before, label = label, _target(last, env)


def _incoming(one: Instruction, before: str, env: Mapping[str, int]) -> int:
    return _value(one.operands[one.attrs["labels"].index(before)].value, env)


def _value(value: object, env: Mapping[str, int]) -> int:
    if isinstance(value, Ref):
        return env.get(value.name, 0)
    return int(value) & BITS if isinstance(value, int) else 0


def _target(last: Instruction, env: Mapping[str, int]) -> str:
    labels = last.attrs["labels"]
    if last.code == "switch":
        cases = last.attrs["cases"]
        chosen = _value(last.operands[0].value, env)
        return str(labels[cases.index(chosen) + 1 if chosen in cases else 0])
    if not last.operands:
        return str(labels[0])
    return str(labels[0] if _value(last.operands[0].value, env) else labels[1])


HEAD = """\
define amdgpu_kernel void @k(ptr addrspace(1) %out) {
entry:
  %lane = call i32 @llvm.amdgcn.workitem.id.x()
  br label %b0
"""


def random_kernel(seed: int, blocks: int = 7) -> str:
    """IR of a kernel with loops, joins and switches that part the lanes of a wave; it always ends.

    Each block has the arguments x, y and the fuel n, which every step takes one of; without fuel it leaves.
    """
    dice = random.Random(seed)
    edges: dict[int, list[tuple[str, tuple[str, str, str]]]] = {number: [] for number in range(blocks)}
    edges[0].append(("entry", ("%lane", "7", str(dice.randint(3, 9)))))
    bodies = []
    for number in range(blocks):
        name = f"b{number}"
        lines = [
            f"  %s{name} = {dice.choice(sorted(STEPS))} i32 %x{name}, {dice.randint(1, 99)}",
            f"  %t{name} = {dice.choice(sorted(STEPS))} i32 %s{name}, %y{name}",
            f"  %n{name}.1 = sub i32 %n{name}, 1",
            f"  %e{name} = icmp eq i32 %n{name}.1, 0",
            f"  br i1 %e{name}, label %leave{number}, label %go{number}",
            f"go{number}:",
        ]
        given = (f"%t{name}", f"%s{name}", f"%n{name}.1")
        targets = [dice.randrange(blocks) for _ in range(dice.choice((1, 2, 3)))]
        for target in targets:
            edges[target].append((f"go{number}", given))
        if len(targets) == 1:
            lines.append(f"  br label %b{targets[0]}")
        elif len(targets) == 2:
            lines.append(f"  %c{name} = icmp ult i32 %t{name}, {dice.choice((9, 40, 3000000000))}")
            lines.append(f"  br i1 %c{name}, label %b{targets[0]}, label %b{targets[1]}")
        else:
            lines.append(f"  %d{name} = and i32 %t{name}, 3")
            lines.append(f"  switch i32 %d{name}, label %b{targets[0]} [")
            lines += [f"    i32 {case}, label %b{target}" for case, target in enumerate(targets[1:], 1)]
            lines.append("  ]")
        lines += [f"leave{number}:", f"  store i32 %t{name}, ptr addrspace(1) %out.at", "  ret void"]
        bodies.append((number, lines))
    return _text(edges, bodies)


def _text(
    edges: Mapping[int, list[tuple[str, tuple[str, str, str]]]], bodies: list[tuple[int, list[str]]]
) -> str:
    found = [HEAD.replace("  br", "  %out.at = getelementptr i32, ptr addrspace(1) %out, i32 %lane\n  br")]
    for number, lines in bodies:
        found.append(f"b{number}:")
        if not edges[number]:
            edges[number].append((f"b{number}", ("0", "0", "1")))
            found[-1] = f"b{number}:  ; nothing leads here"
        for place, name in enumerate("xyn"):
            given = ", ".join(f"[ {values[place]}, %{label} ]" for label, values in edges[number])
            found.append(f"  %{name}b{number} = phi i32 {given}")
        found += lines
    return "\n".join([*found, "}"])
