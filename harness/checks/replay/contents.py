"""What a captured step finds at its addresses: tensors that stay, and the contents of each replay.

The contents of one replay are those of a decode case of suite decode, its dead sequences of length 0:
so the oracle and the comparison are those of that suite. Dead sequences' tables hold pages that there are
not; their rows hold what spoils any result; a last page of the pool is nobody's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from harness.case.cases import Case
from harness.fill import inputs, pages
from harness.fill.inputs import Inputs
from harness.judge.bits import SENTINEL
from harness.paths.requests.replaying import Step
from harness.paths.requests.scoring import Planes

NO_PAGE = 0x7FFF_FFFF
POISON_ENTRY = (0, 0, 2, 0)
"""An entry that scores nothing, like an idle one, and that no builder writes."""
GUARD = 8
"""Entries of the schedule buffer past those of the step."""
UNSELECTED = -7
"""What `selected` holds before a step: neither an id nor padding."""
HOSTILE_LENGTH = 1 << 30
"""What lies past the bucket's lengths in their buffer."""
HEAVY = -(2.0**100)
"""Weight of every head in fill `sunk`: scores of ordinary keys stay finite."""
RAISED = 40
"""Steps of the scales of the keys that sink: a single product of theirs leaves float32."""


def width(case: Case) -> int:
    """max_seq_len of the step: one past the largest length of any replay, no multiple of anything."""
    return 1 + max(length for vector in case.v for length in vector)


def contents(case: Case) -> list[Inputs]:
    """The inputs of each replay."""
    made = []
    for number, vector in enumerate(case.v):
        lengths = (*vector, *[0] * (case.bucket - len(vector)))
        seed = (case.s + number) % (1 << 31)
        fill = "ties" if case.f == "sunk" else case.f
        one = inputs.build(
            Case(
                "decode",
                n=case.n,
                h=case.h,
                d=case.d,
                ctx=lengths,
                t=case.t,
                u=(0,),
                l=width(case),
                f=fill,
                s=seed,
            )
        )
        made.append(sunk(one) if case.f == "sunk" else one)
    return made


def sunk(one: Inputs) -> Inputs:
    """``one`` with negative weights, and every third distinct key's scales so high that it sinks.

    Its score is minus infinity, and so are those of its copies.
    """
    filled = one.filled
    which = torch.unique(filled.k_codes, dim=0, return_inverse=True)[1]
    k_scales = filled.k_scales + (RAISED * (which % 3 == 1)).to(torch.uint8)[:, None]
    busy = (one.end > one.start)[:, None]
    weights = torch.where(busy, HEAVY, filled.weights)
    heavy = replace(filled, k_scales=k_scales, weights=weights, exactable=False)
    return replace(one, filled=heavy, planes=inputs.make_planes(one.case, heavy))


@dataclass(frozen=True)
class Fixed:
    """The tensors of a step, and room around them. ``whole``: the schedule buffer with its guard."""

    step: Step
    whole: Tensor

    def put(self, one: Inputs) -> Step:
        """The step with the contents of ``one`` at its addresses; what it writes is poison afterwards.

        The schedule keeps what the last replay left: a step that does not refresh it is to be seen.
        """
        planes, new = self.step.planes, one.planes
        blocks, pages_of = new.k_codes.shape[0], new.block_tables.shape[1]
        planes.k_codes.fill_(0xFF)
        planes.k_scales.fill_(255)
        planes.k_codes[:blocks] = new.k_codes
        planes.k_scales[:blocks] = new.k_scales
        planes.block_tables.fill_(len(planes.k_codes) - 1)
        planes.block_tables[:, :pages_of] = new.block_tables
        planes.block_tables[one.context_lens == 0] = NO_PAGE
        for name in ("q_codes", "q_scales", "weights"):
            getattr(planes, name).copy_(getattr(new, name))
        self.step.context_lens.copy_(one.context_lens)
        poison_results(self.step)
        defined = {name: _grown(mask, len(planes.k_codes)) for name, mask in new.defined.items()}
        return replace(self.step, planes=replace(planes, defined=defined), expected=one.expected)

    def elsewhere(self, step: Step) -> Step:
        """``step`` with the same contents in tensors of their own, for a run without a recording."""
        planes = step.planes
        names = ("q_codes", "q_scales", "k_codes", "k_scales", "block_tables", "weights")
        cloned = {name: getattr(planes, name).clone() for name in names}
        made = replace(
            step,
            planes=Planes(**cloned, defined=planes.defined),
            context_lens=step.context_lens.clone(),
            schedule=poisoned_entries(len(step.schedule)),
            out=torch.empty(step.out.shape),
            selected=step.selected.clone(),
        )
        poison_results(made)
        return made

    @cached_property
    def guard(self) -> Tensor:
        return self.whole[len(self.step.schedule) :]


def fixed(case: Case, replays: list[Inputs], units: int) -> Fixed:
    """Tensors that every one of ``replays`` fits into."""
    first = replays[0]
    blocks = 1 + max(one.planes.k_codes.shape[0] for one in replays)
    table = max(one.planes.block_tables.shape[1] for one in replays)
    k_codes, k_scales = pages.poisoned_pool(blocks, case.d, strided=case.t == "strided")
    queries = (first.planes.q_codes, first.planes.q_scales, first.planes.weights)
    tables = torch.full((case.bucket, table), NO_PAGE, dtype=torch.int32)
    rows = [tensor.clone() for tensor in queries]
    if case.t == "strided":
        tables = pages.embedded(tables, NO_PAGE)
        rows = [pages.embedded(row, 255 if row.dtype is torch.uint8 else inputs.HUGE) for row in rows]
    lengths = torch.full((case.bucket + GUARD,), HOSTILE_LENGTH, dtype=torch.int32)
    whole = poisoned_entries(units + GUARD)
    step = Step(
        planes=Planes(rows[0], rows[1], k_codes, k_scales, tables, rows[2]),
        context_lens=lengths[: case.bucket],
        next_n=case.n,
        weight_scale=first.filled.weight_scale,
        max_seq_len=first.width,
        schedule=whole[:units],
        out=first.buffer(),
        selected=torch.empty(case.rows, case.k, dtype=torch.int32),
    )
    return Fixed(step, whole)


def poison_results(step: Step) -> None:
    step.out.view(torch.int32).fill_(SENTINEL)
    step.selected.fill_(UNSELECTED)


def poisoned_entries(count: int) -> Tensor:
    return torch.tensor(POISON_ENTRY, dtype=torch.int32).repeat(count, 1)


def _grown(mask: Tensor, blocks: int) -> Tensor:
    """``mask`` over a pool of more pages, of which nothing is defined."""
    grown = torch.zeros(blocks, *mask.shape[1:], dtype=torch.bool)
    grown[: len(mask)] = mask
    return grown
