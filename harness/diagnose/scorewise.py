"""What a wrong score matrix looks like: its cells by coordinate, factors between values, shifts along rows.

Built from the request alone, so that it serves every suite that asks a scorer. It describes and never
judges: what is wrong was decided before. How it would fail silently: a rule that a few cells meet by chance
passes for the cause; so it is said of how many of the cells that were looked at it holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from harness.case.cases import Case
from harness.diagnose.answers import Answered
from harness.fill.fills import Filled
from harness.fill.inputs import Inputs
from harness.judge import coordinates
from harness.judge.bits import MINUS_INFINITY, SENTINEL
from harness.judge.compare import Difference
from harness.judge.coordinates import Grid, token_in_sequence
from harness.paths.requests.scoring import DecodeScores, PrefillScores, VarqlenScores
from oracles import windows
from oracles.windows import Windows

SAMPLE = 24
"""Cells that are looked at one by one."""
EVERY = 64
FEW = 4
STEPS = (*range(-EVERY, EVERY + 1), -256, 256, -128, 128)
"""How far a value is looked for along its row."""
BITS = tuple(1 << bit for bit in range(8))


def windows_of(request: DecodeScores | PrefillScores | VarqlenScores) -> Windows:
    """What each row may see; ends below zero are zero."""
    if isinstance(request, DecodeScores):
        return windows.decode_windows(request.context_lens, request.next_n)
    if isinstance(request, PrefillScores):
        return windows.prefill_windows(request.row_seq, request.row_start, request.row_end)
    return windows.varqlen_windows(request.cu_seq_q, request.context_lens, len(request.planes.q_codes))


def rank(values: Tensor) -> Tensor:
    """Position int64 of float32 values on the line of all floats."""
    pattern = values.contiguous().view(torch.int32).long()
    return torch.where(pattern >= 0, pattern, -1 - (pattern & 0x7FFFFFFF))


@dataclass(frozen=True)
class Scored:
    """A request for scores of ``case``, the path's answer and the oracle's."""

    case: Case
    got: Answered
    want: Answered

    @staticmethod
    def can(answer: Answered) -> bool:
        return isinstance(answer.request, DecodeScores | PrefillScores | VarqlenScores)

    @cached_property
    def name(self) -> str:
        return "out" if "out" in self.want.cells else "value"

    @cached_property
    def mine(self) -> Tensor:
        """Bit patterns int64 [T, W]."""
        return self.got.cells[self.name]

    @cached_property
    def right(self) -> Tensor:
        return self.want.cells[self.name]

    @cached_property
    def wrong(self) -> Tensor:
        """Differing cells int64 [n, 2]."""
        return (self.mine != self.right).nonzero()

    @cached_property
    def rows(self) -> Windows:
        made = windows_of(self.got.request)
        return Windows(made.seq.long(), made.start.long(), made.end.long().clamp(min=0))

    @cached_property
    def inputs(self) -> Inputs:
        """The request as the judge's hints want it."""
        planes, nothing = self.got.request.planes, torch.empty(0)
        filled = Filled(nothing, nothing, nothing, nothing, nothing, self.got.request.weight_scale, False)
        lengths = torch.zeros(len(planes.block_tables), dtype=torch.int32)
        rows = self.rows
        return Inputs(self.case, filled, planes, rows.seq, rows.start, rows.end, lengths, lengths)

    @cached_property
    def grid(self) -> Grid:
        rows, tables = self.rows, self.got.request.planes.block_tables.long()
        return Grid(rows.seq, rows.start, rows.end, token_in_sequence(rows.seq), tables)

    @cached_property
    def inside(self) -> Tensor:
        """Which of the cells `wrong` lie in the window of their row and were stored, bool [n]."""
        row, column = self.wrong.unbind(1)
        seen = (column >= self.rows.start[row]) & (column < self.rows.end[row])
        return seen & (self.mine[row, column] != self.outside)

    @property
    def outside(self) -> int:
        """What a cell holds that was not stored."""
        request = self.got.request
        given = request.out is not None and getattr(request, "schedule", None) is not None
        return SENTINEL if given else MINUS_INFINITY

    def values(self) -> tuple[Tensor, Tensor]:
        """float32 [n] of the path and the oracle, at the differing cells inside the windows."""
        row, column = self.wrong[self.inside].unbind(1)
        return floats(self.mine[row, column]), floats(self.right[row, column])

    def where(self) -> str:
        """How many cells differ, and of which kind."""
        row, column = self.wrong.unbind(1)
        visible = int((self.rows.end - self.rows.start).clamp(min=0).sum())
        outside = (column < self.rows.start[row]) | (column >= self.rows.end[row])
        untouched = self.mine[row, column] == self.outside
        said = [f"{int(self.inside.sum())} of {visible} visible cells have another value"]
        for what, count in (
            ("visible cells were not stored", int((untouched & ~outside).sum())),
            ("cells outside the windows were stored", int(outside.sum())),
        ):
            said += [f"{count} {what}"] if count else []
        return "; ".join(said)

    def patterns(self) -> Iterator[str]:
        """What the differing cells share by coordinate: inside the windows, then outside."""
        for chosen, layer in ((self.inside, "bits"), (~self.inside, "mask")):
            cells = self.wrong[chosen]
            if not len(cells):
                continue
            total = int((self.rows.end - self.rows.start).clamp(min=0).sum())
            differs = Difference(layer, "", cells, count=len(cells), total=total)
            said = coordinates.pattern(differs, self.grid, EVERY)
            if said:
                yield said

    def factor(self) -> str:
        """One factor between all wrong values and the right ones."""
        got, want = self.values()
        known = want.isfinite() & got.isfinite() & (want != 0)
        if not bool(known.any()):
            return ""
        ratios = (got[known].double() / want[known].double()).float()
        value, count = Counter(ratios.tolist()).most_common(1)[0]
        if 2 * count < int(known.sum()) or value in (0.0, 1.0) or int(known.sum()) < FEW:
            return ""
        mantissa, exponent = torch.frexp(torch.tensor(abs(value)))
        power = f" = {'-' if value < 0 else ''}2^{int(exponent) - 1}" if float(mantissa) == 0.5 else ""
        return f"{value:g}{power} times the right value in {count} of {int(known.sum())} cells"

    def columns(self) -> str:
        """Whither the values of a row were moved along it: by a step, or to the other of two places."""
        row, column = self.wrong[self.inside].unbind(1)
        moves = {f"the column {step:+d}": column + step for step in STEPS if step}
        moves |= {f"the column with bit {bit} of its number turned": column ^ bit for bit in BITS}
        found = []
        for name, there in moves.items():
            known = (there >= self.rows.start[row]) & (there < self.rows.end[row])
            if int(known.sum()) >= FEW:
                same = self.mine[row[known], column[known]] == self.right[row[known], there[known]]
                found.append((int(same.sum()) / int(known.sum()), int(same.sum()), int(known.sum()), name))
        share, same_cells, cells, name = max(found, key=lambda one: one[:2], default=(0.0, 0, 0, ""))
        return f"the value of {name} in {same_cells} of {cells} cells" if share >= 0.5 else ""

    def sample(self) -> list[tuple[int, int]]:
        """At most `SAMPLE` differing cells inside the windows, spread over all."""
        cells = self.wrong[self.inside]
        if not len(cells):
            return []
        chosen = torch.linspace(0, len(cells) - 1, min(SAMPLE, len(cells))).long()
        return [(int(row), int(column)) for row, column in cells[chosen].tolist()]


def floats(patterns: Tensor) -> Tensor:
    """float32 of bit patterns int64."""
    return (
        torch.where(patterns >= 1 << 31, patterns - (1 << 32), patterns).to(torch.int32).view(torch.float32)
    )
