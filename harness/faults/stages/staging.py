"""Faults of DCP prefill staging: scales of another row, keys in another order, tables that end too early."""

from __future__ import annotations

from harness.faults import staged
from harness.faults.fault import Fault, Wrong
from harness.faults.plants import always, asking, telling
from harness.paths.requests.staging import GatherPlan, StagePrefill

STAGE = "ATOM atom/models/deepseek_v2.py: _dcp_stage_indexer_fp4_prefill"
PLAN = "ATOM atom/model_ops/attentions/aiter_mla.py: _build_dcp_indexer_prefill_meta"
TABLE = "ATOM atom/model_ops/attentions/aiter_mla.py: _build_dcp_indexer_fp4_prefill_meta"

B11 = "ROCm/ATOM #2216 (B11, B44)"
NEAR = "cosine: after a LayerNorm neighbouring rows have nearly the same scale; all indices are in bounds"

SMALL = "dcp-prefill-world3-inter1-h16-d128-ctx100-w0@0:40,0@0:99+2-k8-tshuffled-faddress-s1"
TWO = "dcp-prefill-world3-inter1-h16-d128-ctx40,70-w0@0:30,1@0:1,1@0:70-k8-tshuffled-faddress-s1"
TURNS = SMALL.replace("inter1-", "inter16-")


def one(
    name: str, stage: str, wrong: str, seen: str, weak: str, case: str, source: str, how: dict[type, Wrong]
) -> Fault:
    return Fault(name, stage, wrong, seen, weak, case, source, always(how))


FAULTS: tuple[Fault, ...] = (
    one(
        "scale-read-flat",
        "DCP staging",
        "scales are read at the row's flat place and written at the bent one",
        f"fault catalogue; {B11}",
        NEAR,
        SMALL,
        STAGE,
        {StagePrefill: asking(staged.read_flat)},
    ),
    one(
        "scale-write-flat",
        "DCP staging",
        "scales are read at the bent place and written at the row's flat one",
        f"fault catalogue; {B11}",
        NEAR,
        SMALL,
        STAGE,
        {StagePrefill: telling(staged.write_flat)},
    ),
    one(
        "scale-both-flat",
        "DCP staging",
        "scales are read and written at the row's flat place, right where a key keeps its row",
        f"fault catalogue; {B11}",
        "world 1, or rows that land on themselves",
        SMALL,
        STAGE,
        {StagePrefill: staged.both_flat},
    ),
    one(
        "page-size-lanes",
        "layout",
        "the multiplier of the scale's row is 4 whatever the rows of a page",
        f"fault catalogue; {B11}",
        "pages of 64 rows",
        SMALL,
        STAGE,
        {StagePrefill: staged.lanes_of_64},
    ),
    one(
        "gather-order",
        "DCP",
        "the keys stay as the all-gather brings them, rank by rank, and are not put in order",
        "fault catalogue",
        "W = 1",
        SMALL,
        PLAN,
        {GatherPlan: telling(staged.as_gathered), StagePrefill: staged.unordered("gathered")},
    ),
    one(
        "gather-order-packed",
        "DCP",
        "the ranks' keys are laid end to end, without what a rank reads past its own",
        "neighbour of gather-order",
        "W = 1",
        SMALL,
        PLAN,
        {GatherPlan: telling(staged.rank_major), StagePrefill: staged.unordered("rank-major")},
    ),
    one(
        "gather-round-robin-only",
        "DCP",
        "which rank a staged key comes from ignores the interleave",
        "neighbour of owner-round-robin-only",
        "S = 1",
        TURNS,
        "ATOM atom/model_ops/dcp_ops.py: dcp_owner_rank",
        {GatherPlan: telling(staged.owner_by_turns), StagePrefill: staged.staged_from(staged.by_turns)},
    ),
    one(
        "gather-reads-share",
        "DCP",
        "every rank reads length / W keys of a sequence rounded down, less than the first ranks hold",
        "sglang #18280 (B43)",
        "chunks that are a multiple of the ranks",
        SMALL,
        PLAN,
        {GatherPlan: telling(staged.short_reads)},
    ),
    one(
        "staged-tail-missing",
        "DCP",
        "keys past the last whole page are not staged, though windows name them",
        "vllm #51252 (B31)",
        "keys that fill whole pages; long contexts, of which the tail is little",
        SMALL,
        STAGE,
        {StagePrefill: telling(staged.without_the_tail)},
    ),
    one(
        "staged-table-one-seq",
        "DCP",
        "the staged table is as wide as one sequence may be, and the batch's pages do not go in",
        "fault catalogue; ROCm/ATOM #2216",
        "short summed context",
        TWO,
        TABLE,
        {StagePrefill: telling(staged.one_sequence)},
    ),
    one(
        "staged-tail-alias",
        "DCP",
        "entries of the table past the staged pages name a page that holds keys",
        "fault catalogue",
        "full tables",
        TWO,
        TABLE,
        {StagePrefill: telling(staged.tail_names_a_page)},
    ),
)
