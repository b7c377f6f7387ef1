"""ATOM's index caches through the adapter, on small trees of this file: what is called, what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from harness.case.cases import parse
from harness.checks import pool as check
from harness.judge.verdict import SUBJECTS, Status
from harness.paths.atom import AtomPath
from harness.paths.atom import pooling as adapter
from harness.paths.base import Unsupported

CASE = "pool-layers3-page64-blocks5-d128"

SPECS = """
class Spec:
    def __init__(self, entry_bytes):
        self.entry_bytes = entry_bytes


def page_pool(entry_bytes):
    return Spec(entry_bytes)
"""
MLA = """
import torch
from aiter import dtypes
from atom.model_ops.attentions.sub_pool_spec import page_pool


def aligned_index_cache_dim(hf_config):
    return -(-(hf_config.index_head_dim + 4) // 16) * 16


class AiterMLAMetadataBuilder:
    def _row(self):
        return aligned_index_cache_dim(self.model_runner.config.hf_config)

    def sub_pool_specs(self):
        runner = self.model_runner
        page = 576 * dtypes.d_dtypes[runner.config.kv_cache_dtype].itemsize
        page += self._row() * dtypes.fp8.itemsize if runner.is_deepseek_v32 else 0
        return [page_pool(runner._get_total_num_layers() * runner.block_size * page)]

    def allocate_kv_cache_tensors(self, num_kv_heads, num_draft_layers):
        runner = self.model_runner
        layers, pages = runner._get_total_num_layers(), runner.num_physical_kvcache_blocks
        size = (layers, pages, runner.physical_block_size, self._row())
        return {"index_cache": torch.zeros(*size, dtype=dtypes.fp8, device="cuda")}
"""
V4 = """
import torch


class DeepseekV4AttentionMetadataBuilder:
    def _indexer_block_bytes(self):
        return len(self.csa_layers) * self._idx_k_tiles * 4 * self.csa_rows_per_block * 17

    def allocate_kv_cache_tensors(self, num_kv_heads, num_draft_layers):
        size = (len(self.csa_layers), self.model_runner.num_physical_kvcache_blocks, self._idx_k_tiles, 4)
        rows, device = self.csa_rows_per_block, self.model_runner.device
        return {
            "v4_csa_idx_kv": torch.zeros((*size, rows, 16), dtype=torch.uint8, device=device),
            "v4_csa_idx_kv_scale": torch.zeros((*size, rows), dtype=torch.uint8, device=device),
        }
"""
DECLARED = """
import torch


class MlaKvPool:
    def __init__(self, *, layers, block_size, entry_dim, kv_dtype, index_layers=0, index_rows_per_block=0,
                 index_dim=0, index_dtype=None, index_head_dim=0, index_fp4=False):
        if index_fp4 and index_rows_per_block != 64:
            raise ValueError("pages of 64 rows")
        tiles = index_head_dim // 128
        shapes = {"index": (tiles, 4, 64, 16), "index_scale": (tiles, 4, 64)} if index_fp4 else {
            "index": (index_rows_per_block, index_dim)}
        self.shapes = {name: (index_layers, shape) for name, shape in shapes.items()} if index_layers else {}
        self.entry_bytes = layers * block_size * entry_dim * kv_dtype.itemsize
        for layers, shape in self.shapes.values():
            self.entry_bytes += layers * torch.Size(shape).numel()

    def allocate(self, blocks, device, buf=None):
        self.views = {
            name: torch.zeros(layers, blocks, *shape, dtype=torch.uint8, device=device)
            for name, (layers, shape) in self.shapes.items()
        }

    def layer(self, name, layer):
        return self.views[name][layer]
"""


def tree(root: Path, **files: str) -> AtomPath:
    """An ATOM of the given files; all of them but the declared pool unless said otherwise."""
    texts = {"mla": MLA, "v4": V4, "declared": "", "specs": SPECS} | files
    places = {
        "mla": adapter.MLA,
        "v4": adapter.V4,
        "declared": adapter.DECLARED,
        "specs": "atom/model_ops/attentions/sub_pool_spec.py",
    }
    for name, text in texts.items():
        file = root / places[name]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return AtomPath(root)


def test_builders_that_allocate_agree(tmp_path: Path) -> None:
    """fp8 from the MLA builder, fp4 from the V4 one; nothing is allocated on a GPU that is not there."""
    seen = check.check(parse(CASE), tree(tmp_path))
    assert (seen.status, seen.reason) == (Status.AGREE, "")
    assert seen.facts[SUBJECTS] == {
        "fp4 pool": f"atom {adapter.V4_BUILDER}.{adapter.ALLOCATE} (interpreted)",
        "fp8 pool": f"atom {adapter.MLA_BUILDER}.{adapter.ALLOCATE} (interpreted)",
    }
    assert seen.facts["bytes saved a page"] == 3 * (9216 - 4352)


def test_a_declared_pool_comes_first(tmp_path: Path) -> None:
    """A tree whose pool knows fp4 is asked for both; its refusal of other pages is a fact."""
    path = tree(tmp_path, declared=DECLARED)
    seen = check.check(parse(CASE), path)
    assert seen.status is Status.AGREE
    assert set(seen.facts[SUBJECTS].values()) == {f"atom {adapter.MLA_POOL} (interpreted)"}
    seen = check.check(parse(CASE.replace("page64", "page32")), path)
    assert seen.facts["fp4 pages of 32 rows"] == "refused (ValueError)"


def test_a_declared_pool_without_fp4_leaves_it_to_the_other_builder(tmp_path: Path) -> None:
    """The version between: fp8 is the pool's, fp4 the V4 builder's."""
    parameters = ", index_head_dim=0, index_fp4=False"
    assert parameters in DECLARED
    older = DECLARED.replace(parameters, "").replace(
        "        if index_fp4 and", "        index_head_dim, index_fp4 = 128, False\n        if index_fp4 and"
    )
    seen = check.check(parse(CASE), tree(tmp_path, declared=older))
    assert seen.status is Status.AGREE
    assert [word.split()[1] for word in seen.facts[SUBJECTS].values()] == [
        f"{adapter.V4_BUILDER}.{adapter.ALLOCATE}",
        adapter.MLA_POOL,
    ]


@pytest.mark.parametrize(
    ("file", "right", "wrong", "reason"),
    [
        ("v4", "* 17", "* 18", "charged-otherwise"),
        ("v4", "(*size, rows, 16)", "(*size, 16, rows)", "wrong-shape"),
        ("v4", "(*size, rows)", "(*size[:3], rows, 4)", "wrong-shape"),
        ("mla", "// 16) * 16", "// 8) * 8", "wrong-shape"),
        ("mla", "page += self._row()", "page += 128", "charged-otherwise"),
    ],
)
def test_a_fault_in_the_tree_is_seen(tmp_path: Path, file: str, right: str, wrong: str, reason: str) -> None:
    """One edit of the code under test."""
    text = {"v4": V4, "mla": MLA}[file]
    assert right in text
    seen = check.check(parse(CASE), tree(tmp_path, **{file: text.replace(right, wrong)}))
    assert (seen.status, seen.reason) == (Status.DIFFER, reason)


def test_what_a_tree_lacks_is_named(tmp_path: Path) -> None:
    """No builder, another signature, an attribute that is not given."""
    with pytest.raises(
        Unsupported, match=rf"has no {adapter.V4_BUILDER}\.{adapter.ALLOCATE} .*\(fp8 agrees\)"
    ):
        check.check(parse(CASE), tree(tmp_path / "one", v4=""))
    newer = V4.replace("num_kv_heads, num_draft_layers", "blocks, buf")
    with pytest.raises(Unsupported, match="wants a parameter blocks"):
        check.check(parse(CASE), tree(tmp_path / "two", v4=newer))
    asks = MLA.replace("runner.physical_block_size,", "self.block_ratio,")
    with pytest.raises(Unsupported, match=r"reads self\.block_ratio, which is not given here \(fp4 agrees\)"):
        check.check(parse(CASE), tree(tmp_path / "three", mla=asks))


def test_torch_without_allocation() -> None:
    """zeros and empty make tensors of the meta device wherever they are asked to; the rest is torch."""
    torch_seen = adapter.Unallocated()
    made = torch_seen.zeros(2, 3, dtype=torch.uint8, device="cuda")
    assert (made.device.type, tuple(made.shape), made.dtype) == ("meta", (2, 3), torch.uint8)
    assert torch_seen.empty((4,), device="cuda").is_meta
    assert torch_seen.float32 is torch.float32
