"""Products and sums that the compiler may make one operation: both outcomes are legal, so both can be had.

clang marks the operations of HIP code ``contract``: a product that is only marked is rounded before it is
added or is not, as the code generator likes. `contracted` takes every chance within a basic block, which is
what the target's generator does (it fuses a product with several uses as well); the program without it takes
none. What both give is what the kernel gives however it is compiled, as far as these two show.
"""

from __future__ import annotations

from dataclasses import replace

from harness.emulator.program import Block, Op, Program, Type

SUMS = ("fadd", "fsub")


def contracted(program: Program) -> Program:
    """``program`` with a fused multiply-add for every marked sum of a marked product of its block.

    Of two products the first is fused, as the code generator does. The other program is left as it is.
    """
    types = dict(program.types)
    body = Block(program.body.arguments, [_op(op, types) for op in program.body.ops])
    return replace(program, body=body, types=types)


def chances(program: Program) -> int:
    """Sums of ``program`` that `contracted` fuses."""
    return sum(op.code == "fma" for op in contracted(program).walk()) - sum(
        op.code == "fma" for op in program.walk()
    )


def _op(op: Op, types: dict[int, Type]) -> Op:
    if op.code != "graph":
        return op
    attrs = {name: value for name, value in op.attrs.items() if name != "flow"}
    return replace(op, attrs=attrs, blocks=tuple(_block(block, types) for block in op.blocks))


def _block(block: Block, types: dict[int, Type]) -> Block:
    products: dict[int, Op] = {}
    ops: list[Op] = []
    for op in block.ops:
        marked = op.attrs.get("contract", False)
        if op.code == "fmul" and marked:
            products[op.results[0]] = op
        if op.code in SUMS and marked and types[op.results[0]].name == "f32":
            ops += _fused(op, products, types)
        else:
            ops.append(replace(op, frees=()))
    return Block(block.arguments, ops)


def _fused(op: Op, products: dict[int, Op], types: dict[int, Type]) -> list[Op]:
    """``op`` or what stands for it: a negation where the sum is a difference, and the fused operation."""
    place = 0 if op.operands[0] in products else 1
    product = products.get(op.operands[place])
    if product is None:
        return [replace(op, frees=())]
    a, b = product.operands
    other, before = op.operands[1 - place], []
    if op.code == "fsub":
        minus = len(types)
        negated = other if place == 0 else a
        types[minus] = types[negated]
        before.append(Op("fneg", (negated,), (minus,), {}, (), op.location))
        a, other = (a, minus) if place == 0 else (minus, other)
    attrs = {name: op.attrs[name] for name in ("flush",) if name in op.attrs}
    return [*before, Op("fma", (a, b, other), op.results, attrs, (), op.location)]
