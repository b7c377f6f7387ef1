"""Watches 32-bit arithmetic that feeds an address for results that leave the type.

Hardware wraps silently, and a wrapped offset usually still lands inside some tensor. So the
values an address is computed from are found once a program (backwards from every address,
through arithmetic, branches and loops, not through memory), and each such operation is
compared with its result in wider arithmetic. Values that only ever end in an unsigned buffer
offset may use all 32 bits; where the sign matters on the way, the limit is 2**31.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from harness.emulator.found import Findings, Where
from harness.emulator.program import Op, Program

_SAME = {
    *("iadd", "isub", "imul", "shl", "and", "or", "xor", "truncate", "select", "extract", "insert", "build"),
    *("splat", "shuffle", "permute_lanes", "shuffle_lanes", "broadcast_first", "read_lane"),
}
"""Opcodes whose low 32 bits are right whether their operands are read signed or unsigned."""

_SIGNED = {"sign_extend", "shr_signed", "idiv_floor", "idiv_ceil", "idiv_trunc", "irem"}
_SIGNED |= {"imin_signed", "imax_signed"}
_UNSIGNED = {"zero_extend", "shr_unsigned", "udiv", "urem", "imin_unsigned", "imax_unsigned"}
_CHECKED = {"iadd", "isub", "imul", "shl", "truncate"}
_ADDRESS_OPERANDS = {"buffer_load": ((1, 2), False), "buffer_store": ((2, 3), False), "offset": ((1,), True)}
"""Operands that are (part of) an address, and whether they are read signed."""


@dataclass(slots=True)
class AddressSlice:
    """Values of a program that reach an address by arithmetic, with the limit of each checked one.

    ``_beyond`` holds the exact value where a checked one lies above 2**31, as its 32 bits alone
    would be read as negative by the next operation (the next only: it is not carried through
    branches, loops and permutes, after which a second step across 2**32 goes unseen).
    """

    watched: dict[int, int] = field(default_factory=dict)
    _beyond: dict[int, Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, program: Program) -> AddressSlice:
        ops = list(program.walk())
        feeds: dict[int, list[tuple[int, bool | None]]] = {}
        reached: set[tuple[int, bool]] = set()
        for op in ops:
            for result, operand, signed in _feeds(op):
                feeds.setdefault(result, []).append((operand, signed))
            positions, signed = _ADDRESS_OPERANDS.get(op.code, ((), False))
            reached |= {(op.operands[place], signed) for place in positions if place < len(op.operands)}
        waiting = list(reached)
        while waiting:
            value, as_signed = waiting.pop()
            for operand, signed in feeds.get(value, ()):
                step = (operand, as_signed if signed is None else signed)
                if step not in reached:
                    reached.add(step)
                    waiting.append(step)
        slice_ = cls()
        for op in ops:
            if op.code in _CHECKED:
                kind, value = program.types[op.results[0]], op.results[0]
                limits = [
                    1 << (31 if signed else 32) for signed in (True, False) if (value, signed) in reached
                ]
                if limits and kind.kind == "int" and kind.bits == 32 and kind.length is None:
                    slice_.watched[value] = min(limits)
        return slice_

    def check(
        self,
        op: Op,
        values: Sequence[Any],
        result: Any,
        mask: Tensor | None,
        where: Where,
        findings: Findings,
    ) -> None:
        """Report lanes whose exact result is below -2**31 or at or above the limit of this value."""
        limit = self.watched[op.results[0]]
        self._beyond.pop(op.results[0], None)
        if self._beyond:
            values = [
                self._beyond.get(number, value) for number, value in zip(op.operands, values, strict=True)
            ]
        low, high = _bounds(op.code, values)
        if low >= -(1 << 31) and high < 1 << 31:
            return
        exact = _exact(op.code, values)
        if not isinstance(exact, Tensor):
            exact = torch.tensor(exact, dtype=torch.int64).view(1, 1, 1)
        wrong = (exact < -(1 << 31)) | (exact >= limit)
        self._beyond[op.results[0]] = torch.where(
            wrong, result, exact
        )  # reported once, not at every next step
        wrong = wrong if mask is None else wrong & mask
        count = int(wrong.expand(where.lanes(wrong.shape)).sum())
        if count:
            detail = {**where.first(wrong), "value": where.pick(exact, wrong)}
            findings.add("address-wrap", "", where, count, detail)


def _feeds(op: Op) -> Iterator[tuple[int, int, bool | None]]:
    """(result, operand it is computed from, read signed or unsigned or, None, as the result is)."""
    if op.code in _SAME | _SIGNED | _UNSIGNED:
        signed = None if op.code in _SAME else op.code in _SIGNED
        yield from ((result, operand, signed) for result in op.results for operand in op.operands)
    if op.code == "graph":
        yield from _edges(op)
        return
    given = [block.ops[-1].operands for block in op.blocks]
    if op.code == "for":
        yield from ((op.blocks[0].arguments[0], bound, True) for bound in op.operands[:3])
        given.append(op.operands[3:])
        for values in given:
            yield from (
                (argument, v, None) for argument, v in zip(op.blocks[0].arguments[1:], values, strict=True)
            )
    for values in given:
        yield from ((result, value, None) for result, value in zip(op.results, values, strict=True))


def _edges(op: Op) -> Iterator[tuple[int, int, bool | None]]:
    """The same for the arguments of a graph's blocks."""
    for block in op.blocks:
        last = block.ops[-1].attrs
        for target, given in zip(last.get("targets", ()), last.get("given", ()), strict=False):
            for argument, value in zip(op.blocks[target].arguments, given, strict=True):
                yield argument, value, None


def _range(value: Any) -> tuple[int, int]:
    if isinstance(value, Tensor):
        low, high = torch.aminmax(value)
        return int(low), int(high)
    return int(value), int(value)


def _bounds(code: str, values: Sequence[Any]) -> tuple[int, int]:
    """Interval of the exact result from the intervals of the operands."""
    ranges = [_range(value) for value in values]
    if code == "truncate":
        return ranges[0]
    (a, b), (c, d) = ranges
    if code == "iadd":
        return a + c, b + d
    if code == "isub":
        return a - d, b - c
    if code == "shl":
        c, d = 1 << max(c, 0), 1 << min(max(d, 0), 63)
    corners = [x * y for x in (a, b) for y in (c, d)]
    return min(corners), max(corners)


def _exact(code: str, values: Sequence[Any]) -> Any:
    wide = [value.long() if isinstance(value, Tensor) else int(value) for value in values]
    if code == "truncate":
        return wide[0]
    a, b = wide
    return a + b if code == "iadd" else a - b if code == "isub" else a * b if code == "imul" else a << b
