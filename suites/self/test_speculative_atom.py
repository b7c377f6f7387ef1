"""ATOM's publish call, on little trees: who answers is read, what is published is run."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from harness import runner
from harness.case.cases import parse
from harness.judge.ledger import Ledger
from harness.judge.verdict import Status, Verdict
from harness.paths.atom import AtomPath, backends
from harness.paths.base import Unsupported
from harness.paths.requests import publishing as asked

CASE = "speculative-n2-h16-d128-ctx255,9,700,1-steps2-ub{parts}-tshuffled-fbytes-s1"

UNITS = """
def fp4_decode_parallel_units(max_bs, next_n):
    slots = max(max_bs, 512 // next_n + (512 % next_n > 0))
    return next_n * slots

def fp4_decode_schedule(context_lens, block_k, parallel_units, max_seq_len, next_n, cta_info_out):
    from planted_publisher import write
    assert block_k == 256 and len(cta_info_out) == parallel_units
    write(context_lens, next_n, max_seq_len, cta_info_out)
"""
BASE = """
class Generic: pass
class CommonAttentionBuilder(Generic):
    def _publish_indexer_fp4_decode_schedule(self, attn_metadata, bs, next_n, ubatch=0):
        '''Nothing to refresh.'''
"""
MLA = """
from typing import Generic, TypeVar
from atom.model_ops.attentions import backends
from atom.model_ops.sparse_indexer_fp4 import fp4_decode_parallel_units, fp4_decode_schedule

class AiterMLAMetadataBuilder(backends.CommonAttentionBuilder):
    def _publish_indexer_fp4_decode_schedule(self, attn_metadata, bs, next_n, ubatch=0):
        if not self._indexer_fp4:
            return
        units = fp4_decode_parallel_units(bs, next_n)
        entries = self._indexer_fp4_cta_info[ubatch][:units]
        width = self.model_runner.config.max_model_len
        fp4_decode_schedule(attn_metadata.context_lens[:bs], 256, units, width, next_n, entries)
        attn_metadata.indexer_fp4_cta_info, attn_metadata.indexer_fp4_n_ctas = entries, units

class TritonMLAMetadataBuilder(AiterMLAMetadataBuilder): pass
"""
OTHERS = """
class DenseBuilder(CommonAttentionBuilder[object]): pass
class HybridBuilder(Mixin, DenseBuilder): pass
class NoBuilder: pass
"""
SPLIT = """
class Slices:
    def __init__(self, first, last):
        self.request_slice = slice(first, last)

def maybe_create_ubatch_slices(num_reqs, num_tokens, num_ubatches=2):
    share = num_reqs // num_ubatches
    last = num_ubatches - 1
    return [Slices(i * share, num_reqs if i == last else (i + 1) * share) for i in range(num_ubatches)]
"""
V4 = """
from enum import Enum

class AttnState(Enum):
    DECODE = "decode"

class DeepseekV4AttentionMetadataBuilder:
    def _build_v4_indexer_meta(
        self, *, attn_metadata, positions_gpu, scheduled_bs, total_tokens, device, buf_prefix_ubatch=""
    ):
        assert attn_metadata.state is AttnState.DECODE
        from planted_publisher import write
        lengths = attn_metadata.n_committed_per_token[: positions_gpu.shape[0]]
        write(lengths, 1, self.max_model_len_idx, self._v4_fp4_cta_info)
        return {"fp4_cta_info": self._v4_fp4_cta_info, "fp4_total_ctas": self._fp4_parallel_unit_num}
"""
CONSTANTS = "FP4_MQA_PARALLEL_UNIT_NUM = 512\nFP4_MQA_BLOCK_K = 256\n"
FOLDER = "atom/model_ops/attentions"
NEWER = {
    "atom/model_ops/sparse_indexer_fp4.py": UNITS,
    f"{FOLDER}/backends.py": BASE,
    f"{FOLDER}/aiter_mla.py": MLA,
    f"{FOLDER}/others.py": OTHERS,
    "atom/utils/tbo/ubatch_splitting.py": SPLIT,
}
OLDER = {
    f"{FOLDER}/deepseek_v4_attn.py": V4,
    "atom/model_ops/v4_kernels/__init__.py": CONSTANTS,
    "atom/utils/tbo/ubatch_splitting.py": SPLIT,
}


@pytest.fixture(autouse=True)
def publisher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The builder that the little trees import, in place of aiter's."""
    (tmp_path / "planted_publisher.py").write_text(
        "from harness.paths.flydsl.publishing import write_decode as write\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))


def tree(tmp_path: Path, files: dict[str, str], **changed: tuple[str, str]) -> AtomPath:
    """A tree of ``files``; ``changed``: file stem to (old, new) text."""
    root = tmp_path / "tree"
    for name, text in files.items():
        old, new = changed.get(Path(name).stem, ("", ""))
        assert old in text
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text.replace(old, new) if old else text)
    return AtomPath(root, None)


def verdict(path: AtomPath, parts: int = 1) -> Verdict:
    return runner.run(parse(CASE.format(parts=parts)), path, Ledger())


@pytest.mark.parametrize("parts", [1, 2])
def test_a_newer_tree_agrees(tmp_path: Path, parts: int) -> None:
    """Its own split, formula and publish method, for the whole batch and for micro-batches."""
    got = verdict(tree(tmp_path, NEWER), parts)
    assert got.status is Status.AGREE, got.text()
    assert got.facts["subjects"]["DraftLoop"].startswith("atom AiterMLAMetadataBuilder._publish")
    assert got.facts["backends"] == [
        "AiterMLAMetadataBuilder",
        "CommonAttentionBuilder",
        "DenseBuilder",
        "HybridBuilder",
        "TritonMLAMetadataBuilder",
    ]


def test_a_micro_batch_that_reads_the_whole_batch_from_zero_differs(tmp_path: Path) -> None:
    reads = ("attn_metadata.context_lens[:bs], 256", "self.model_runner.all_lens[:bs], 256")
    path = tree(tmp_path, NEWER, aiter_mla=reads)
    got = verdict(path, 2)
    assert got.status is not Status.AGREE  # the attribute is not given: the planted change cannot pass


def test_rows_of_a_step_less_differ(tmp_path: Path) -> None:
    got = verdict(tree(tmp_path, NEWER, aiter_mla=("context_lens[:bs], 256", "context_lens[:bs] - 1, 256")))
    assert got.status is Status.DIFFER and "another length" in got.pattern, got.text()


def test_one_buffer_for_all_micro_batches_differs(tmp_path: Path) -> None:
    """The last to be published is what all of them read."""
    path = tree(tmp_path, NEWER, aiter_mla=("_cta_info[ubatch]", "_cta_info[0]"))
    assert verdict(path, 1).status is Status.AGREE
    got = verdict(path, 2)
    assert got.status is Status.DIFFER and "micro-batch 0" in got.notes[0], got.text()


def test_a_base_without_the_call_differs(tmp_path: Path) -> None:
    """The fault no-base-publish: every backend beneath it is named."""
    call = "    def _publish_indexer_fp4_decode_schedule(self, attn_metadata, bs, next_n, ubatch=0):\n"
    path = tree(tmp_path, NEWER, backends=(f"{call}        '''Nothing to refresh.'''", "    pass"))
    got = verdict(path)
    assert got.reason == "does-not-answer-publish", got.text()
    assert got.where["backend"] == "CommonAttentionBuilder, DenseBuilder, HybridBuilder"


def test_a_base_that_acts_differs(tmp_path: Path) -> None:
    path = tree(tmp_path, NEWER, backends=("'''Nothing to refresh.'''", "attn_metadata.x = 1"))
    assert verdict(path).reason == "acts-without-fp4"


def test_a_units_formula_that_is_no_multiple_differs(tmp_path: Path) -> None:
    path = tree(tmp_path, NEWER, sparse_indexer_fp4=("return next_n * slots", "return max(513, max_bs)"))
    assert verdict(path).status is not Status.AGREE
    answer = path.run(asked.Units(2, 4)).value
    assert answer.tolist() == [513]


def test_an_older_tree_publishes_for_v4_and_lacks_the_call(tmp_path: Path) -> None:
    """Its launches are judged first; then the sentence names what it has not."""
    got = verdict(tree(tmp_path, OLDER))
    assert got.status is Status.UNSUPPORTED
    assert got.reason == (
        "this ATOM has no _publish_indexer_fp4_decode_schedule in atom/model_ops/attentions, "
        "the publish call of a draft"
    )


def test_an_older_tree_shares_one_buffer_between_micro_batches(tmp_path: Path) -> None:
    """DeepSeek-V4's builder has one schedule buffer: the first micro-batch reads the last one's."""
    got = verdict(tree(tmp_path, OLDER), 2)
    assert got.status is Status.DIFFER and got.where["tensor"] == "schedule", got.text()
    assert got.notes[0] == "asked at the verify step, micro-batch 0"


def test_a_tree_with_neither_is_unsupported(tmp_path: Path) -> None:
    files = {f"{FOLDER}/backends.py": "class CommonAttentionBuilder: pass\n"}
    got = verdict(tree(tmp_path, files))
    assert got.status is Status.UNSUPPORTED and "_build_v4_indexer_meta" in got.reason
    with pytest.raises(Unsupported, match="has no fp4_decode_parallel_units"):
        AtomPath(tmp_path / "tree", None).run(asked.Units(1, 1))


def test_backends_are_read_and_nothing_runs(tmp_path: Path) -> None:
    """A file that could not be imported is read all the same; a class of the same name above is not met."""
    place = tmp_path / FOLDER
    place.mkdir(parents=True)
    (place / "backends.py").write_text(BASE + "raise SystemExit\n")
    (place / "loop.py").write_text("class Loop(Loop, CommonAttentionBuilder): pass\n")
    found = {one.name: (one.answers, one.acts, one.scores_fp4) for one in backends.read(tmp_path)}
    assert found == {"CommonAttentionBuilder": (True, False, False), "Loop": (True, False, False)}


def test_the_in_tree_backends_all_answer() -> None:
    from harness.paths.flydsl import publishing

    answers, acts, should = publishing.backends(asked.Backends()).value
    assert answers.all() and torch.equal(acts, should) and acts.any() and not acts.all()
