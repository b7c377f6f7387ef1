"""ATOM's gate is found, called and judged, on small trees laid out like it; a wrong one is red."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from harness.case import cases
from harness.case.case_lists import listed
from harness.checks import gate as check_gate
from harness.judge.verdict import Status, Verdict
from harness.paths.atom import AtomPath
from harness.paths.base import Unsupported

DSA = "atom/model_ops/sparse_indexer_fp4.py"
V4 = "atom/model_ops/v4_kernels/__init__.py"
MODEL = "atom/models/deepseek_v2.py"
MLA = "atom/model_ops/attentions/aiter_mla.py"
V4_ATTENTION = "atom/model_ops/attentions/deepseek_v4_attn.py"

FILES = {
    DSA: """
import logging
import a_gpu_library

logger = logging.getLogger("atom")

def sparse_indexer_fp4_enabled(index_cache_dtype, config, *, warn=False):
    if index_cache_dtype != "fp4":
        return False
    why = reason(config)
    if why and warn:
        logger.warning("FP8 instead: %s", why)
    return not why

def reason(config):
    from aiter.jit.utils.chip_info import get_gfx

    if not getattr(config, "index_topk", None):
        return "no index_topk"
    if getattr(config, "index_head_dim", None) != 128:
        return "index_head_dim"
    if (getattr(config, "index_n_heads", None) or 1) % 16:
        return "index_n_heads"
    if (getattr(config, "index_kpool", None) or 1) > 1:
        return "index_kpool"
    return "" if get_gfx() == "gfx950" else get_gfx()

def assert_fp4_indexer_supported(*, fused_writer, prefill_context_parallel, prefill_ubatching):
    if not fused_writer:
        raise ValueError("there is no fused writer")
    if prefill_context_parallel:
        raise ValueError("no PCP")
    if prefill_ubatching:
        raise ValueError("no prefill micro-batching")

def fp4_index_block_shapes(rows, head_dim):
    if rows != 64:
        raise ValueError("--block-size must be 64")
    return rows, head_dim
""",
    V4: """
import logging
from aiter.jit.utils.chip_info import get_gfx

logger = logging.getLogger("atom")

def fp4_indexer_enabled(index_cache_dtype, *, warn=False):
    if index_cache_dtype != "fp4":
        return False
    chip = get_gfx()
    if chip == "gfx942" and warn:
        logger.warning("not on %s", chip)
    return chip != "gfx942"
""",
    MODEL: """
import torch
from a_gpu_library import ReplicatedLinear, get_hip_quant, QuantType, pcp_is_enabled
from atom.config import get_current_atom_config
from atom.model_ops.sparse_indexer_fp4 import assert_fp4_indexer_supported, sparse_indexer_fp4_enabled

ENABLE_DS_INDEXER_QK_ROPE_CACHE_FUSION = True

class Indexer(torch.nn.Module):
    def __init__(self, atom_config, config, hidden_size, q_lora_rank, quant_config, cache_config):
        super().__init__()
        self.fp4 = sparse_indexer_fp4_enabled(atom_config.index_cache_dtype, config)
        self.quantiser = get_hip_quant(QuantType.per_1x128)
        self.wq = ReplicatedLinear(q_lora_rank, config.index_n_heads, quant_config=quant_config)
        self.fused = ENABLE_DS_INDEXER_QK_ROPE_CACHE_FUSION and config.qk_rope_head_dim == 64
        if self.fp4:
            assert_fp4_indexer_supported(
                fused_writer=self.fused,
                prefill_context_parallel=pcp_is_enabled(),
                prefill_ubatching=get_current_atom_config().enable_tbo,
            )
        self.slots = torch.empty(0, dtype=torch.int32, device="cuda")
""",
    MLA: """
class AiterMLAMetadataBuilder:
    def build_kv_cache_tensor(self, module):
        if module not in self.pool_rows["mla"]:
            return None
        if module.indexer._indexer_fp4 != self._indexer_fp4:
            raise ValueError("the verdicts diverge")
        module.indexer.k_cache.kv_cache[0] = self.kv_pool.layer("index", 0)

    def get_kv_transfer_tensors(self):
        if self._indexer_fp4 and self.reads(self.model_runner.config):
            raise NotImplementedError("KV transfer does not know the scale plane")

    def reads(self, config):
        return bool(config.kv_transfer_config)
""",
    V4_ATTENTION: """
class DeepseekV4AttentionMetadataBuilder:
    def get_kv_transfer_tensors(self):
        if not hasattr(self.model_runner, "v4_unified_kv"):
            return None
        if self._indexer_fp4 and getattr(self.model_runner.config, "kv_transfer_config", None):
            raise NotImplementedError("KV transfer with FP4")
""",
    "atom/config.py": "import a_server\n",
}


def plant(root: Path, file: str = "", old: str = "", new: str = "") -> AtomPath:
    """A tree with ``old`` in ``file`` replaced by ``new``."""
    for name, text in FILES.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        assert name != file or old in text
        place.write_text(text.replace(old, new) if name == file else text)
    return AtomPath(root)


def verdicts(path: AtomPath) -> dict[str, Verdict]:
    return {case.id: check_gate.check(case, path) for case in listed("gate", "smoke")}


def red(path: AtomPath) -> set[str]:
    return {
        name.removeprefix("gate-rule")
        for name, verdict in verdicts(path).items()
        if verdict.status is not Status.AGREE
    }


def test_a_right_tree_is_green(tmp_path: Path) -> None:
    """All questions are answered by the tree, and nothing that was warned of reaches the log."""
    logger = logging.getLogger("atom")
    before = (logger.level, logger.propagate, list(logger.handlers))
    path = plant(tmp_path)
    answered = verdicts(path)
    assert {verdict.status for verdict in answered.values()} == {Status.AGREE}
    subjects = {str(verdict.facts["subjects"]) for verdict in answered.values()}
    assert len(subjects) == 7 and all("atom " in subject for subject in subjects)
    assert (logger.level, logger.propagate, list(logger.handlers)) == before


KNOBS = {f"dsa-by{by}" for by in ("nowriter", "prefillcp", "ubatch")}


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        (DSA, "> 1:", "> 4:", {"dsa-askfp4-k2048-d128-h64-kpool2-chipgfx950"}),
        (DSA, "or 1) % 16", "or 1) % 8", {"dsa-askfp4-k2048-d128-h24-kpool0-chipgfx950"}),
        (
            DSA,
            "None) != 128",
            "None) not in (64, 128)",
            {"dsa-askfp4-k2048-d64-h64-kpool0-chipgfx950"},
        ),
        (DSA, "why and warn", "why", {"dsa-askfp4-k2048-d64-h64-kpool0-chipgfx950"}),
        (DSA, "if not fused_writer", "if False", {"dsa-bynowriter"}),
        (DSA, "if rows != 64", "if rows < 64", {"dsa-bypage"}),
        (MODEL, "if self.fp4:", "if False:", KNOBS),
        (MODEL, "enable_tbo,", "enable_tbo_decode,", {"dsa-byubatch"}),
        (MODEL, " and config.qk_rope_head_dim == 64", "", {"dsa-bynowriter"}),
        (MLA, "_indexer_fp4 != self", "_indexer_fp4 is None or not self", {"dsa-bysplit"}),
        (MLA, "return bool(config.kv_transfer_config)", "return False", {"dsa-bytransfer"}),
        (V4_ATTENTION, "_indexer_fp4 and", "_indexer_fp4 and False and", {"v4-bytransfer"}),
        (V4, 'chip != "gfx942"', "True", {"v4-askfp4-k2048-d128-h64-kpool0-chipgfx942"}),
        (V4, "chip = get_gfx()", "chip = get_gfx() and get_gfx()", set()),
    ],
)
def test_a_tree_that_is_wrong_in_one_place_is_red(
    tmp_path: Path, file: str, old: str, new: str, expected: set[str]
) -> None:
    found = red(plant(tmp_path, file, old, new))
    assert expected <= found and bool(found) is bool(expected)


def test_a_chip_looked_up_for_fp8_is_red(tmp_path: Path) -> None:
    first = "    if index_cache_dtype"
    path = plant(tmp_path, V4, first, f"    get_gfx()\n{first}")
    assert "v4-askfp8-k2048-d128-h64-kpool0-chipgfx942" in red(path)


@pytest.mark.parametrize(
    ("file", "old", "new", "asked", "sentence"),
    [
        (
            DSA,
            "index_cache_dtype, config, *",
            "index_cache_dtype, model, *",
            "dsa-askfp4-k2048-d128-h64-kpool0-chipgfx950",
            "sparse_indexer_fp4_enabled of this ATOM wants a parameter model",
        ),
        (
            DSA,
            "fused_writer, prefill_context_parallel, prefill_ubatching",
            "fused_writer, prefill_context_parallel",
            "dsa-byubatch",
            "assert_fp4_indexer_supported of this ATOM has no parameter prefill_ubatching",
        ),
        (
            DSA,
            "def fp4_index_block_shapes",
            "def shapes",
            "dsa-bypage",
            "has no fp4_",
        ),
        (
            DSA,
            "def sparse_indexer_fp4_enabled",
            "def other",
            "dsa-bytransfer",
            "no FP4 indexer",
        ),
        (MODEL, "class Indexer", "class Other", "dsa-byubatch", r"has no Indexer\.__init__ in"),
        (
            MODEL,
            "self.fused =",
            "self.q.fused =",
            "dsa-byubatch",
            r"on stand-ins: .*self\.q",
        ),
        (
            V4,
            "def fp4_indexer_enabled",
            "def other",
            "v4-askfp8-k0-d0-h0-kpool0-chipgfx950",
            "has no fp4_",
        ),
        (MLA, "module.indexer.k_cache", "module.index.cache", "dsa-bysplit", r"on stand-ins: .*index"),
        (MLA, "def build_kv_cache_tensor", "def other", "dsa-bysplit", r"has no .*build_kv_cache_tensor"),
        (
            MLA,
            "def reads",
            "def other",
            "dsa-bytransfer",
            r"reads self\.reads",
        ),
    ],
)
def test_another_version_is_unsupported_and_says_why(
    tmp_path: Path, file: str, old: str, new: str, asked: str, sentence: str
) -> None:
    path = plant(tmp_path, file, old, new)
    with pytest.raises(Unsupported, match=sentence):
        check_gate.check(cases.parse(f"gate-rule{asked}"), path)


def test_an_earlier_version_with_fewer_refusals_is_asked_for_those(tmp_path: Path) -> None:
    """The knob it does not know is left out where another one is asked about."""
    path = plant(tmp_path)
    for file, last in (
        (DSA, ", prefill_ubatching):"),
        (DSA, '    if prefill_ubatching:\n        raise ValueError("no prefill micro-batching")\n'),
        (MODEL, "prefill_ubatching=get_current_atom_config().enable_tbo,"),
    ):
        text = (tmp_path / file).read_text()
        assert last in text
        (tmp_path / file).write_text(text.replace(last, "):" if last.endswith("):") else ""))
    for by in ("prefillcp", "nowriter"):
        assert check_gate.check(cases.parse(f"gate-ruledsa-by{by}"), path).status is Status.AGREE
    with pytest.raises(Unsupported, match="has no parameter prefill_ubatching"):
        check_gate.check(cases.parse("gate-ruledsa-byubatch"), path)
