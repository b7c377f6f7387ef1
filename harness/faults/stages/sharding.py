"""Faults of decode over shards: who holds what, and what of it a rank scores, writes and looks up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from harness.faults.builders import as_scheduled, scheduled_lengths
from harness.faults.fault import Answer, Fault, Wrong
from harness.faults.plants import always, asking, telling
from harness.paths.base import Outcome
from harness.paths.requests import sharding as asked
from harness.paths.requests.scoring import DecodeSchedule, DecodeScores
from oracles.dcp import PAD

OPS = "ATOM atom/model_ops/dcp_ops.py"
MLA = "ATOM atom/model_ops/attentions/aiter_mla.py"

OWNER = (asked.Owners, asked.LocalIndices, asked.GlobalPositions, asked.LocalLengths, asked.RowLengths)
REST = (asked.LocalWidth, asked.WriteSlots, asked.PackCandidates, asked.LocaliseIds, asked.LocaliseColumns)


def dealt_singly(request: Any) -> Any:
    """As if S were 1."""
    return replace(request, place=replace(request.place, inter=1))


def one_by_one(*kinds: type) -> dict[type, Wrong]:
    """S is taken for 1 in requests of ``kinds``."""
    return dict.fromkeys(kinds, asking(dealt_singly))


def of_the_newest(request: asked.RowLengths, right: Answer) -> Outcome:
    """Every row of a sequence gets the part of the newest."""
    outcome = right(replace(request, next_n=1))
    return replace(outcome, value=outcome.value.repeat_interleave(request.next_n))


def counted_back(request: asked.RowLengths, right: Answer) -> Outcome:
    """The older rows counted back from the local length of the newest."""
    outcome = right(replace(request, next_n=1))
    older = torch.arange(request.next_n - 1, -1, -1, dtype=torch.int32)
    return replace(outcome, value=(outcome.value[:, None] - older).clamp(min=0).flatten())


def share_of_columns(request: asked.LocalWidth, value: Tensor) -> Tensor:
    return torch.tensor([-(-request.max_seq_len // request.place.world)])


def padding_as_first(request: asked.WriteSlots) -> asked.WriteSlots:
    return replace(request, positions=request.positions.clamp(min=0))


def global_slots(request: asked.WriteSlots, value: Tensor) -> Tensor:
    """The page and row that the position has where nothing is dealt out."""
    page = (request.positions.clamp(min=0) // request.page_rows).clamp(max=request.tables.shape[1] - 1)
    block = request.tables.long().gather(1, page[:, None]).squeeze(1)
    return torch.where(value >= 0, block * request.page_rows + request.positions % request.page_rows, PAD)


def first_rows(request: DecodeSchedule) -> DecodeSchedule:
    """As many lengths as half the rows, taken from the front, twice."""
    half = len(request.context_lens) // 2
    front = request.context_lens.clone()
    front[half:] = front[: len(front) - half]
    return replace(request, context_lens=front)


def by_entries(request: DecodeScores, right: Answer) -> Outcome:
    """A row is scored as far as its entry says."""
    if request.schedule is None or request.out is None:
        return right(request)
    before = request.out.clone()
    outcome = right(replace(request, context_lens=scheduled_lengths(request)))
    as_scheduled(request, before)
    return replace(outcome, value=request.out)


def table_of_another_row(request: DecodeScores) -> DecodeScores:
    """Row r reads the table of row r + 1 where there is one a row."""
    if request.next_n != 1:
        return request
    tables = request.planes.block_tables.roll(-1, 0)
    return replace(request, planes=replace(request.planes, block_tables=tables))


NARROW = "dcp-decode-world2-inter1-exids-n2-h16-d128-ctx20-k4-tshuffled-fbytes-s1"
WIDE = "dcp-decode-world2-inter16-exids-n1-h16-d128-ctx60-k4-tshuffled-fbytes-s1"
STEPS = "contexts that end with a turn of all ranks; W = 1"
ONCE = "S = 1"


def one(
    name: str, wrong: str, seen: str, weak: str, source: str, wrongs: dict[type, Wrong], case: str = WIDE
) -> Fault:
    return Fault(name, "DCP", wrong, seen, weak, case, source, always(wrongs))


FAULTS: tuple[Fault, ...] = (
    one(
        "local-length-uniform",
        "all N rows of a sequence are given the local length of the newest",
        "fault catalogue",
        STEPS,
        f"{OPS}: get_dcp_local_window_lens",
        {asked.RowLengths: of_the_newest},
        NARROW,
    ),
    one(
        "local-length-counted-back",
        "the older rows' local lengths are counted back from the newest's, and lose its newest keys",
        "ROCm/ATOM #2118, vllm #46076 (B39)",
        STEPS,
        f"{OPS}: get_dcp_local_window_lens",
        {asked.RowLengths: counted_back},
        NARROW,
    ),
    one(
        "owner-round-robin-only",
        "positions are dealt one at a time whatever the interleave, in every map alike",
        "fault catalogue; vllm #54541 (B40)",
        ONCE,
        f"{OPS}: dcp_owner_rank, dcp_local_index, dcp_global_pos, get_dcp_local_seq_lens",
        one_by_one(*OWNER, *REST),
    ),
    one(
        "lengths-round-robin-only",
        "local lengths ignore the interleave",
        "neighbour of owner-round-robin-only",
        ONCE,
        f"{OPS}: get_dcp_local_seq_lens",
        one_by_one(asked.LocalLengths, asked.RowLengths),
    ),
    one(
        "slots-round-robin-only",
        "the slots that a rank writes to ignore the interleave",
        "neighbour of owner-round-robin-only",
        ONCE,
        f"{MLA}: _dcp_round_robin_slot",
        one_by_one(asked.WriteSlots),
    ),
    one(
        "width-rounded-up",
        "a rank's score row is ceil(max_model_len / W) wide, too narrow for the first rank where S > 1",
        "ROCm/ATOM, the exchange over an interleave (found by this harness)",
        "max_model_len a multiple of S * W",
        "ATOM atom/model_ops/dcp_ops.py: dcp_decode_candidate_exchange",
        {asked.LocalWidth: telling(share_of_columns)},
    ),
    one(
        "slot-of-padding",
        "padding is written to the slot of position 0",
        "vllm-project/vllm-ascend #16327, #16197 (B42); ROCm/ATOM #2008 (B17)",
        "full batches",
        f"{MLA}: _dcp_round_robin_slot",
        {asked.WriteSlots: asking(padding_as_first)},
    ),
    one(
        "global-slots-local-table",
        "keys are written to the slots that their global positions have in the rank's table",
        "local-inference-lab/vllm #4 (B42)",
        "W = 1",
        f"{MLA}: _dcp_round_robin_slot",
        {asked.WriteSlots: telling(global_slots)},
    ),
    one(
        "schedule-of-the-first-rows",
        "a rank's schedule is built from as many rows as there are sequences, taken from the front",
        "ROCm/ATOM #2216 (B21)",
        "N = 1",
        f"{MLA}: _publish_indexer_fp4_decode_schedule",
        {DecodeSchedule: asking(first_rows), DecodeScores: by_entries},
        "dcp-decode-world1-inter1-exids-n2-h16-d128-ctx5,300-k4-tshuffled-fbytes-s1",
    ),
    one(
        "table-of-another-row",
        "a row over local lengths reads the block table of the next row",
        "neighbour of own-pages-only",
        "batch 1",
        f"{OPS}: dcp_decode_candidate_exchange",
        {DecodeScores: asking(table_of_another_row)},
        "dcp-decode-world1-inter1-exids-n1-h16-d128-ctx20,18-k4-tshuffled-fbytes-s1",
    ),
)
