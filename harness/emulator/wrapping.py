"""Watches 32-bit arithmetic that feeds an address for results that leave the type.

Hardware wraps silently, and a wrapped offset usually still lands inside some tensor. So the
values an address is computed from are found once a program (backwards from every address,
through arithmetic, not through memory), and each such operation is compared with its result
in wider arithmetic. Values that only ever end in an unsigned buffer offset may use all 32
bits; where the sign matters on the way, the limit is 2**31.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from harness.emulator.found import Findings, Where
from harness.emulator.program import Op, Program

_THROUGH = {
    *("iadd", "isub", "imul", "shl", "shr_signed", "shr_unsigned", "and", "or", "xor"),
    *("idiv_floor", "idiv_ceil", "idiv_trunc", "irem", "udiv", "urem"),
    *("truncate", "sign_extend", "zero_extend", "select", "extract", "build"),
}
_CHECKED = {"iadd", "isub", "imul", "shl", "truncate"}
_MODULAR = {"iadd", "isub", "imul", "shl", "truncate"}
_ADDRESS_OPERANDS = {"buffer_load": (1, 2), "buffer_store": (2, 3), "offset": (1,)}


@dataclass(slots=True)
class AddressSlice:
    """Values of a program that reach an address by arithmetic, with the limit of each checked one."""

    watched: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, program: Program) -> AddressSlice:
        ops = list(program.walk())
        reaching: set[int] = set()
        signed: set[int] = set()
        for op in reversed(ops):
            for position in _ADDRESS_OPERANDS.get(op.code, ()):
                if position < len(op.operands):
                    reaching.add(op.operands[position])
            if op.code in _THROUGH and any(result in reaching for result in op.results):
                reaching.update(op.operands)
                if op.code not in _MODULAR or any(result in signed for result in op.results):
                    signed.update(op.operands)
        slice_ = cls()
        for op in ops:
            if op.code in _CHECKED and op.results[0] in reaching:
                kind = program.types[op.results[0]]
                if kind.kind == "int" and kind.bits == 32 and kind.length is None:
                    slice_.watched[op.results[0]] = 1 << (31 if op.results[0] in signed else 32)
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
        low, high = _bounds(op.code, values)
        if low >= -(1 << 31) and high < limit:
            return
        exact = _exact(op.code, values)
        if not isinstance(exact, Tensor):
            exact = torch.tensor(exact, dtype=torch.int64).view(1, 1, 1)
        wrong = (exact < -(1 << 31)) | (exact >= limit)
        wrong = wrong if mask is None else wrong & mask
        count = int(wrong.expand(where.lanes(wrong.shape)).sum())
        if count:
            detail = {**where.first(wrong), "value": where.pick(exact, wrong)}
            findings.add("address-wrap", "", where, count, detail)


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
