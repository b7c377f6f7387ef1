"""ATOM's decode over shards through the adapter, on a small tree of this file."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from harness import runner
from harness.case.cases import parse
from harness.judge.ledger import Ledger
from harness.judge.verdict import SUBJECTS, Status
from harness.paths.atom import AtomPath
from harness.paths.base import Unsupported
from harness.paths.oracle import OraclePath
from harness.paths.requests import sharding as asked
from harness.paths.requests.sharding import Place

CASE = "dcp-decode-world2-inter16-exids-n2-h16-d128-ctx70,33,1-k8-tshuffled-fties-s1"
OPS = """
import numpy as np
import torch


def get_dcp_local_seq_lens(seq_lens, dcp_size, dcp_rank, cp_kv_cache_interleave_size=1):
    turn = dcp_size * cp_kv_cache_interleave_size
    rest = seq_lens % turn - dcp_rank * cp_kv_cache_interleave_size
    whole = seq_lens // turn * cp_kv_cache_interleave_size
    return whole + np.minimum(np.maximum(rest, 0), cp_kv_cache_interleave_size)


def dcp_owner_rank(pos, dcp_size, cp_kv_cache_interleave_size=1):
    return pos // cp_kv_cache_interleave_size % dcp_size


def dcp_local_index(pos, dcp_size, cp_kv_cache_interleave_size=1):
    turn = dcp_size * cp_kv_cache_interleave_size
    return pos // turn * cp_kv_cache_interleave_size + pos % cp_kv_cache_interleave_size


def dcp_global_pos(local_index, dcp_rank, dcp_size, cp_kv_cache_interleave_size=1):
    size = cp_kv_cache_interleave_size
    return (local_index // size * dcp_size + dcp_rank) * size + local_index % size


def dcp_pack_topk_candidates(
    local_logits, local_idx, local_lens, dcp_rank, dcp_world_size, out_pair, cp_kv_cache_interleave_size=1
):
    good = (local_idx >= 0) & (local_idx < local_lens[:, None])
    taken = local_logits.gather(1, local_idx.where(good, 0).long())
    out_pair[0] = taken.where(good, float("-inf"))
    ids = dcp_global_pos(local_idx, dcp_rank, dcp_world_size, cp_kv_cache_interleave_size)
    out_pair.view(torch.int32)[1] = ids.where(good, -1)


def _slots(ids, row, table, rank, world, size, page):
    mine = [i for i in ids if i >= 0 and dcp_owner_rank(i, world, size) == rank]
    local = [dcp_local_index(i, world, size) for i in mine]
    return [int(table[row, j // page]) * page + j % page for j in local]
"""
BY_REQUEST = """

def triton_filter_and_convert_dcp_index(
    qo_indptr, global_kv_indptr, block_table, token_indices, dcp_rank, dcp_world_size, block_size,
    out_kv_indptr, owned_counts, NUM_TOPK_TOKENS=2048, BLOCK_N=128, out=None, cp_kv_cache_interleave_size=1
):
    assert NUM_TOPK_TOKENS % BLOCK_N == 0
    out_kv_indptr[0] = 0
    for row, ids in enumerate(token_indices.tolist()):
        slots = _slots(
            ids, row, block_table, dcp_rank, dcp_world_size, cp_kv_cache_interleave_size, block_size
        )
        start = int(out_kv_indptr[row])
        owned_counts[row] = len(slots)
        out_kv_indptr[row + 1] = start + len(slots)
        out[start : start + len(slots)] = torch.tensor(slots, dtype=torch.int32)
"""
BY_TOKEN = """

def get_dcp_local_window_lens(seq_lens, max_seqlen_q, dcp_size, dcp_rank, cp_kv_cache_interleave_size=1):
    ends = seq_lens[:, None] + np.arange(1 - max_seqlen_q, 1)
    return get_dcp_local_seq_lens(
        np.maximum(ends, 0).ravel(), dcp_size, dcp_rank, cp_kv_cache_interleave_size
    )


def triton_filter_and_convert_dcp_index(
    token_to_seq_idxs, num_tokens, block_table, token_indices, dcp_rank, dcp_world_size, block_size,
    out_kv_indptr, owned_counts, NUM_TOPK_TOKENS=2048, BLOCK_N=128, out=None, cp_kv_cache_interleave_size=1
):
    out_kv_indptr[0] = 0
    for row in range(num_tokens):
        slots = _slots(
            token_indices[row].tolist(), int(token_to_seq_idxs[row]), block_table, dcp_rank,
            dcp_world_size, cp_kv_cache_interleave_size, block_size,
        )
        owned_counts[row] = len(slots)
        start, slots = int(out_kv_indptr[row]), slots or [0]
        out_kv_indptr[row + 1] = start + len(slots)
        out[start : start + len(slots)] = torch.tensor(slots, dtype=torch.int32)
"""
BUILDER = """
from atom.model_ops.dcp_ops import dcp_local_index, dcp_owner_rank


class AiterMLAMetadataBuilder:
    def _dcp_round_robin_slot(self, block_table, pos):
        world, size = self.dcp_world_size, self.cp_kv_cache_interleave_size
        if dcp_owner_rank(pos, world, size) != self.dcp_rank:
            return -1
        local, page = dcp_local_index(pos, world, size), self.model_runner.block_size
        return block_table[local // page] * page + local % page
"""
EXCHANGE = """
import torch
from aiter import top_k_per_row_decode
from aiter.ops.triton.pa_mqa_logits import deepgemm_fp8_paged_mqa_logits
from atom.distributed.dcp_utils import get_dcp_group, get_dcp_world_size
from atom.model_ops.dcp_ops import dcp_pack_topk_candidates


def _dcp_decode_candidate_exchange(
    attn_metadata, padded_q_fp8_decode_tokens, kv_cache, weights, topk_indices, dcp_rank, num_decode_tokens,
    topk_tokens, max_model_len, runner_block_size, stable_topk, cp_kv_cache_interleave_size=1,
):
    world, size, rows = get_dcp_world_size(), cp_kv_cache_interleave_size, num_decode_tokens
    turn, length = world * size, attn_metadata.context_lens
    local = length // turn * size + (length % turn - dcp_rank * size).clamp(0, size)
    logits = torch.empty([rows, WIDTH], device="cuda")
    deepgemm_fp8_paged_mqa_logits(
        padded_q_fp8_decode_tokens, kv_cache, weights, logits, local, attn_metadata.block_tables,
        logits.shape[1],
    )
    ids = torch.empty(rows, topk_tokens, dtype=torch.int32, device="cuda")
    top_k_per_row_decode(logits, 1, local, ids, rows, *logits.stride(), topk_tokens, stable=stable_topk)
    pair = torch.empty(2, rows, topk_tokens, device="cuda")
    dcp_pack_topk_candidates(logits, ids, local, dcp_rank, world, pair, size)
    all_pairs = get_dcp_group().all_gather(pair.view(torch.int32), dim=0)
    scores, names = all_pairs.view(world, 2, rows, topk_tokens).permute(1, 2, 0, 3).flatten(2)
    scores, count = scores.contiguous().view(torch.float32), torch.full((rows,), world * topk_tokens)
    best = torch.empty(rows, topk_tokens, dtype=torch.int32, device="cuda")
    top_k_per_row_decode(scores, 1, count, best, rows, *scores.stride(), topk_tokens, stable=True)
    topk_indices.copy_(names.gather(1, best.long()))
"""
WIDE = "-(-max_model_len // (world * cp_kv_cache_interleave_size)) * cp_kv_cache_interleave_size"
NARROW = "4"


def tree(folder: Path, ops: str = OPS + BY_REQUEST, exchange: str = EXCHANGE, width: str = WIDE) -> Path:
    """A checkout with what is given."""
    files = {
        "model_ops/dcp_ops.py": ops,
        "model_ops/attentions/aiter_mla.py": BUILDER,
        "models/deepseek_v2.py": exchange.replace("WIDTH", width),
        "distributed/dcp_utils.py": "get_dcp_group = get_dcp_world_size = None\n",
    }
    for name, text in files.items():
        file = folder / "atom" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder


SUBJECT = "atom {} (interpreted)"


def test_every_stage_of_the_tree_is_asked(tmp_path: Path) -> None:
    """On real ranks; who answered what is in the verdict, and what the tree lacks the oracle answers."""
    verdict = runner.run(parse(CASE), AtomPath(tree(tmp_path)), Ledger())
    assert verdict.status is Status.AGREE, verdict.text()
    told = verdict.facts[SUBJECTS]
    for request, name in {
        "Owners": "dcp_owner_rank",
        "LocalIndices": "dcp_local_index",
        "GlobalPositions": "dcp_global_pos",
        "LocalLengths": "get_dcp_local_seq_lens",
        "WriteSlots": "AiterMLAMetadataBuilder._dcp_round_robin_slot",
        "PackCandidates": "dcp_pack_topk_candidates",
        "LocaliseIds": "triton_filter_and_convert_dcp_index",
        "Exchange": "_dcp_decode_candidate_exchange",
    }.items():
        assert told[request] == SUBJECT.format(name)
    assert told["RowLengths"].startswith("oracle") and told["DecodeScores"].startswith("oracle")


def test_a_newer_tree_is_asked_for_its_row_lengths(tmp_path: Path) -> None:
    """A filter by token keeps a dummy for rows of no key, which its counts tell from a slot."""
    path = AtomPath(tree(tmp_path, OPS + BY_TOKEN, exchange=""))
    verdict = runner.run(parse(CASE), path, Ledger())
    assert verdict.status is Status.AGREE, verdict.text()
    assert verdict.facts[SUBJECTS]["RowLengths"] == SUBJECT.format("get_dcp_local_window_lens")
    assert "Exchange" not in verdict.facts[SUBJECTS]
    tables = torch.tensor([[3], [5]], dtype=torch.int32)
    ids = torch.tensor([[1, -1], [2, 0]], dtype=torch.int32)
    bounds, slots = path.run(asked.LocaliseIds(ids, tables, 64, Place(2, 1, 0))).value
    assert (bounds.tolist(), slots.tolist()) == ([0, 0, 2], [321, 320])


def test_an_exchange_that_moved_is_found(tmp_path: Path) -> None:
    """Its newer home is the module of the maps, its newer top-k has another name."""
    moved = EXCHANGE.replace("def _dcp_decode", "def dcp_decode").replace(
        "top_k_per_row", "flydsl_top_k_per_row"
    )
    moved = moved.replace("from atom.model_ops.dcp_ops import dcp_pack_topk_candidates", "")
    ops = OPS + BY_TOKEN + moved.replace("WIDTH", WIDE)
    verdict = runner.run(parse(CASE), AtomPath(tree(tmp_path, ops, exchange="")), Ledger())
    assert verdict.status is Status.AGREE, verdict.text()
    assert verdict.facts[SUBJECTS]["Exchange"] == SUBJECT.format("dcp_decode_candidate_exchange")


def test_a_score_buffer_that_is_too_narrow_is_a_finding(tmp_path: Path) -> None:
    """It names the buffer, and ends that exchange only: all other stages are compared."""
    verdict = runner.run(parse(CASE), AtomPath(tree(tmp_path, width=NARROW)), Ledger())
    assert (verdict.status, verdict.layer) == (Status.DIFFER, "finding"), verdict.text()
    (found,) = verdict.findings
    assert (found.kind, found.operand) == ("out-of-bounds-store", "local_logits")
    assert found.first == {"row": 0, "length": 37, "width": 4}
    assert found.location == "atom/models/deepseek_v2.py:_dcp_decode_candidate_exchange"


WRONG = {
    "length // turn * size": "length // turn * size + 1",
    "[rows, WIDTH]": "[rows, WIDTH + 1]",
    "names.gather(1, best.long())": "best",
    "dcp_rank, world, pair, size": "dcp_rank, world, pair, 1",
    "names.gather(1,": "names.flip(1).gather(1,",
}


@pytest.mark.parametrize(("right", "wrong"), WRONG.items())
def test_a_wrong_exchange_is_seen(tmp_path: Path, right: str, wrong: str) -> None:
    """All but a buffer that is wider than need be."""
    assert right in EXCHANGE
    path = AtomPath(tree(tmp_path, exchange=EXCHANGE.replace(right, wrong)))
    verdict = runner.run(parse(CASE), path, Ledger())
    assert verdict.status is (Status.AGREE if "WIDTH" in right else Status.DIFFER), verdict.text()


@pytest.mark.parametrize("name", ("dcp_owner_rank", "get_dcp_local_seq_lens"))
def test_what_every_version_has_is_unsupported_where_it_is_not(tmp_path: Path, name: str) -> None:
    """The sentence names it."""
    path = AtomPath(tree(tmp_path, OPS.replace(f"def {name}(", "def renamed(") + BY_REQUEST))
    verdict = runner.run(parse(CASE), path, Ledger())
    assert verdict.status is Status.UNSUPPORTED and name in verdict.reason, verdict.text()


def test_another_signature_is_unsupported(tmp_path: Path) -> None:
    """By name: nothing is called by position."""
    other = OPS.replace("def dcp_owner_rank(pos, dcp_size", "def dcp_owner_rank(pos, world")
    position = torch.arange(4)
    with pytest.raises(Unsupported, match=r"dcp_owner_rank of this ATOM .* parameter world"):
        AtomPath(tree(tmp_path, other)).run(asked.Owners(position, Place(2, 1)))


def test_padding_is_never_asked_of_the_builder(tmp_path: Path) -> None:
    """Its slot stays -1."""
    request = asked.WriteSlots(
        torch.tensor([1, -1, 2]), torch.tensor([[7]] * 3, dtype=torch.int32), 64, Place(2, 1)
    )
    assert AtomPath(tree(tmp_path)).run(request).value.tolist() == [-1, -1, 449]
    assert OraclePath().run(request).value.tolist() == [-1, -1, 449]
