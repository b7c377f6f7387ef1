"""A pipeline case as raw tokens and empty pages: what a serving engine has before the indexer starts.

Keys are those of every position of every sequence; the last ``n`` of a sequence are the step's own
tokens, the rest was written before. Each rank has pages of its own, permuted, and knows nothing of
the others'. Fills are those of the fused writer whose keys come out the same in any order of
summation, since a byte with two right values would leave the stages after it open.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from harness.case.cases import Case
from harness.fill import fill_writer, noise, pages
from harness.paths.requests.sharding import Place
from oracles import dcp, prepare, schedule
from oracles.windows import Windows, decode_windows

EPSILON = 1e-6


@dataclass(frozen=True)
class Tokens:
    """Rows of one write, in the order in which they are written; sequence and position int64 [R]."""

    q: Tensor
    k: Tensor
    weights: Tensor
    sequence: Tensor
    positions: Tensor

    def part(self, rows: Tensor) -> Tokens:
        """The tokens ``rows``."""
        return Tokens(
            self.q[rows], self.k[rows], self.weights[rows], self.sequence[rows], self.positions[rows]
        )


@dataclass(frozen=True)
class Raw:
    """All tokens of a case, sequence by sequence, and the parameters of the writer."""

    case: Case
    tokens: Tokens
    norm_weight: Tensor
    norm_bias: Tensor
    cos: Tensor
    sin: Tensor

    @property
    def weight_scale(self) -> float:
        return float(self.case.d**-0.5 * self.case.h**-0.5)

    @cached_property
    def context_lens(self) -> Tensor:
        return torch.tensor(self.case.ctx, dtype=torch.int32)

    @cached_property
    def windows(self) -> Windows:
        """Windows of the step's rows over global positions."""
        return decode_windows(self.context_lens, self.case.n)

    @cached_property
    def is_step(self) -> Tensor:
        """bool [T]: tokens of this step."""
        return self.tokens.positions >= self.context_lens.long()[self.tokens.sequence] - self.case.n

    @property
    def prompt(self) -> Tokens:
        return self.tokens.part((~self.is_step).nonzero().flatten())

    @property
    def step(self) -> Tokens:
        return self.tokens.part(self.is_step.nonzero().flatten())

    @property
    def world(self) -> int:
        """Ranks that share the keys; one where the case does not ask for several."""
        return self.case.world or 1

    @property
    def ranks(self) -> range:
        return range(self.world)

    def place(self, rank: int) -> Place:
        return Place(self.world, self.case.inter or 1, rank)

    def owned(self, rank: int) -> tuple[int, ...]:
        """Keys of each sequence that ``rank`` holds."""
        sharding = dcp.Sharding(self.world, self.case.inter or 1)
        return tuple(dcp.local_lengths(sharding, rank, self.context_lens).tolist())

    def placement(self, rank: int) -> pages.Placement:
        """The pages of ``rank``."""
        return pages.place(self.owned(rank), "shuffled", self.case.s + rank)

    def units(self, rows: int, width: int) -> int:
        """Schedule slots that let every chunk have one of its own."""
        return rows * max(1, -(-width // schedule.BLOCK_K))


def build(case: Case) -> Raw:
    """The raw tokens of ``case``."""
    sequence = torch.repeat_interleave(torch.arange(len(case.ctx)), torch.tensor(case.ctx))
    positions = torch.cat([torch.arange(length) for length in case.ctx])
    drawn = fill_writer.fill(case.f, fill_writer.Asked(case.h, positions, case.s))
    weights = noise.gaussian(case.s, "pipeline/weights", (len(positions), case.h)).bfloat16()
    cos, sin = prepare.rope_tables(max(case.ctx))
    tokens = Tokens(drawn.q, drawn.k, weights, sequence, positions)
    return Raw(case, tokens, drawn.norm_weight, drawn.norm_bias, cos, sin)
