"""ATOM's staging through the adapter, on a small tree of this file: what is called, what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from harness.case.cases import parse
from harness.checks.dcp_prefill import suite as dcp_prefill
from harness.judge.verdict import SUBJECTS, Status
from harness.paths.atom import AtomPath
from harness.paths.atom import staging as adapter
from harness.paths.base import Unsupported
from harness.paths.requests.staging import GatherPlan

CASE = "dcp-prefill-world3-inter16-h16-d128-ctx100,90-w0@0:1,0@0:99+2,1@0:80,1@0:90-k8-tshuffled-faddress-s1"

BUILDER = """
import numpy as np
import torch


class Base:
    pass


class AiterMLAMetadataBuilder(Base):
    def _build_dcp_indexer_prefill_meta(self, attn_metadata, bs, counts, var):
        world, turn = self.dcp_world_size, self.cp_kv_cache_interleave_size
        name = "cu_seqlens_k" if attn_metadata.has_cached else "cu_seqlens_q"
        bounds = var[name].np[: bs + 1].tolist()
        starts, index = [0], []
        for first, last in zip(bounds, bounds[1:]):
            starts.append(starts[-1] + -(-(last - first) // (turn * world)) * turn)
        for seq, (first, last) in enumerate(zip(bounds, bounds[1:])):
            for p in range(last - first):
                local = p // (turn * world) * turn + p % turn
                index.append(p // turn % world * starts[-1] + starts[seq] + local)
        bounds = torch.tensor(starts, dtype=torch.int32, device=self.device)
        attn_metadata.dcp_indexer_local_cu_seqlens = bounds
        attn_metadata.dcp_indexer_gather_index = torch.tensor(index, dtype=torch.int32)
        if self._indexer_fp4:
            self._build_dcp_indexer_fp4_prefill_meta(attn_metadata, bs, starts, len(index), var)
"""
BUILDER_FP4 = """
    def _build_dcp_indexer_fp4_prefill_meta(self, attn_metadata, bs, starts, total, var):
        rows = self.model_runner.block_size
        if rows != 64:
            raise ValueError(f"pages of {rows} rows")
        slots = []
        for seq in range(bs):
            for j in range(starts[seq + 1] - starts[seq]):
                slots.append(int(var["block_tables"].np[seq, j // rows]) * rows + j % rows)
        attn_metadata.slots = torch.tensor(slots)
        table = torch.zeros(bs, self.max_bs * self.block_table_cols, dtype=torch.int32)
        pages = -(-total // rows)
        table[:, :pages] = torch.arange(pages)
        attn_metadata.dcp_indexer_fp4_block_tables = table
"""
MODEL = """
import torch
from atom.distributed.dcp_utils import get_dcp_group


def at(row):
    return row % 16 * 4 + row // 16


def _dcp_stage_indexer_fp4_prefill(kv_cache, kv_cache_scale, prefill_metadata, total_kv, block_size):
    page, row = prefill_metadata.slots // block_size, prefill_metadata.slots % block_size
    parts = kv_cache[page, :, :, row], kv_cache_scale[page, :, :, at(row)]
    index = prefill_metadata.dcp_indexer_gather_index.long()
    codes, scales = (get_dcp_group().all_gather(part, dim=0)[index] for part in parts)
    key = torch.arange(total_kv)
    pages = -(-total_kv // block_size)
    made = [plane.new_zeros(pages, *plane.shape[1:]) for plane in (kv_cache, kv_cache_scale)]
    made[0][key // block_size, :, :, key % block_size] = codes
    made[1][key // block_size, :, :, at(key % block_size)] = scales
    return made
"""


def tree(root: Path, *, builder: str = BUILDER + BUILDER_FP4, model: str = MODEL) -> AtomPath:
    """An ATOM of two files, and the one that knows the ranks' group (which is never asked for it)."""
    for name, text in {
        adapter.BUILDER: builder,
        adapter.MODEL: model,
        "atom/distributed/dcp_utils.py": "def get_dcp_group():\n    raise RuntimeError('no server')\n",
    }.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return AtomPath(root)


def test_a_tree_that_stages_rightly_agrees(tmp_path: Path) -> None:
    """Builder and function are ATOM's, scores the oracle's; pages of other sizes are refused."""
    seen = dcp_prefill.check(parse(CASE), tree(tmp_path))
    assert (seen.status, seen.reason) == (Status.AGREE, "")
    assert seen.facts[SUBJECTS] == {
        "GatherPlan": f"atom {adapter.PLAN} (interpreted)",
        "StagePrefill": f"atom {adapter.STAGE} (interpreted)",
        "PrefillScores": "oracle (torch)",
    }
    assert seen.facts["pages of 128 rows"] == "refused (ValueError)"


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        (
            "kv_cache_scale[page, :, :, at(row)]",
            "kv_cache_scale[page, :, :, row]",
            "right if scales were read flat",
        ),
        (
            "made[1][key // block_size, :, :, at(key % block_size)]",
            "made[1][key // block_size, :, :, key % block_size]",
            "right if scales were written flat",
        ),
        (
            "(part, dim=0)[index]",
            "(part, dim=0)[:total_kv]",
            "right if the keys were left as the all-gather brings them",
        ),
    ],
)
def test_a_fault_in_the_tree_is_named(tmp_path: Path, right: str, wrong: str, said: str) -> None:
    """One edit of the function under test, in its own words."""
    assert right in MODEL
    seen = dcp_prefill.check(parse(CASE), tree(tmp_path, model=MODEL.replace(right, wrong)))
    assert (seen.status, seen.pattern) == (Status.DIFFER, said)


def test_a_tree_without_the_staging_names_it_and_what_agrees(tmp_path: Path) -> None:
    """An older tree plans the gather of its FP8 keys; its plan is compared, its staging is missing."""
    path = tree(tmp_path, builder=BUILDER, model="")
    with pytest.raises(Unsupported, match=rf"has no {adapter.STAGE} in .*its plan of the gather agrees"):
        dcp_prefill.check(parse(CASE), path)
    path = tree(tmp_path / "two", builder=BUILDER)
    with pytest.raises(Unsupported, match=r"has no .*_build_dcp_indexer_fp4_prefill_meta"):
        dcp_prefill.check(parse(CASE), path)


def test_a_tree_whose_plan_is_wrong_differs_before_its_staging_is_missed(tmp_path: Path) -> None:
    """The plan of a tree without FP4 is a subject of its own."""
    wrong = BUILDER.replace("p // turn % world *", "p % world *")
    seen = dcp_prefill.check(parse(CASE), tree(tmp_path, builder=wrong, model=""))
    assert seen.status is Status.DIFFER and "the interleave is ignored" in seen.pattern


def test_another_signature_is_unsupported(tmp_path: Path) -> None:
    """Nothing is called by position: a parameter that is not known is named."""
    path = tree(tmp_path, model=MODEL.replace("total_kv, block_size):", "total_kv, page_size):"))
    with pytest.raises(Unsupported, match="wants a parameter page_size"):
        dcp_prefill.check(parse(CASE), path)
    path = tree(tmp_path / "two", builder=BUILDER.replace("counts, var)", "var)"))
    with pytest.raises(Unsupported, match="has no parameter counts"):
        dcp_prefill.check(parse(CASE), path)


def test_an_attribute_that_is_not_given_is_named(tmp_path: Path) -> None:
    """A builder that asks for more than it is given is not answered with something made up."""
    path = tree(tmp_path, builder=BUILDER.replace("self.dcp_world_size", "self.world_of_ranks"))
    with pytest.raises(Unsupported, match=r"reads self\.world_of_ranks, which is not given here"):
        dcp_prefill.check(parse(CASE), path)


def test_a_plan_that_forgets_cached_keys_is_an_error(tmp_path: Path) -> None:
    """A batch with cached keys is planned from all of them, as one without is."""
    path = tree(
        tmp_path,
        builder=BUILDER.replace("bounds[1:]))", "bounds[1:]))").replace(
            "turn * world)) * turn)", "turn * world)) * turn * (2 if attn_metadata.has_cached else 1))"
        ),
    )
    with pytest.raises(ValueError, match="plans a batch with cached keys otherwise"):
        path.run(GatherPlan(torch.tensor([100, 90], dtype=torch.int32), 3, 16))


def test_the_group_gathers_along_the_first_axis() -> None:
    """Another axis would lay the ranks' bytes side by side."""
    group = adapter.Group(lambda tensor: torch.cat([tensor, tensor]))
    assert group.all_gather(torch.tensor([1]), dim=0).tolist() == [1, 1]
    with pytest.raises(ValueError, match="dim is 1"):
        group.all_gather(torch.tensor([[1]]), dim=1)
