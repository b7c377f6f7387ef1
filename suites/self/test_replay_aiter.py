"""aiter's builders on the caller's buffers, on a little tree: in place, and named where they lack it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from harness import runner
from harness.case.cases import parse
from harness.judge.ledger import Ledger
from harness.judge.verdict import Status
from harness.paths.aiter import AiterPath
from harness.paths.base import Unsupported
from harness.paths.requests import publishing as asked
from oracles import schedule, windows

DECODE = """
from planted_builders import decode, prefill, windows

def compute_varctx_schedule(
    context_lens, block_k, parallel_unit_num, max_seq_len, next_n=1, cta_info_out=None
):
    assert block_k == 256 and parallel_unit_num == len(cta_info_out)
    decode(context_lens, next_n, max_seq_len, cta_info_out)
    return None, cta_info_out.clone(), parallel_unit_num
"""
PREFILL = """
from planted_builders import decode, prefill, windows

def compute_prefill_schedule(
    row_to_batch, local_starts, local_ends, block_k, parallel_unit_num, max_seq_len, cta_info_out=None
):
    prefill(row_to_batch, local_starts, local_ends, max_seq_len, cta_info_out)
    return None, cta_info_out.clone(), parallel_unit_num

def compute_varqlen_windows(cu_seq_q, context_lens, total_q, *, out=None):
    windows(cu_seq_q, context_lens, total_q, out)
    return tuple(part.clone() for part in out)
"""
BUILDERS = """
from harness.paths.flydsl.publishing import write_decode as decode
from harness.paths.flydsl.publishing import write_prefill as prefill
from harness.paths.flydsl.publishing import write_windows as windows
"""


@pytest.fixture(autouse=True)
def _no_aiter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test starts in a process that never imported any aiter; modules are put back."""
    (tmp_path / "planted_builders.py").write_text(BUILDERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    kept = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "aiter"}
    for name in kept:
        del sys.modules[name]
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "aiter"]:
        del sys.modules[name]
    sys.modules.update(kept)


def path(tmp_path: Path, decode: str = DECODE) -> AiterPath:
    home = tmp_path / "tree/aiter/ops/flydsl/kernels/mqa_logits"
    home.mkdir(parents=True)
    (home / "pa_mqa_logits_fp4.py").write_text(decode)
    (home / "pa_mqa_logits_fp4_prefill.py").write_text(PREFILL)
    return AiterPath(tmp_path / "tree")


def ints(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.int32)


def test_schedules_and_windows_land_in_the_callers_buffers(tmp_path: Path) -> None:
    under = path(tmp_path)
    out = torch.full((8, 4), -9, dtype=torch.int32)
    value = under.run(asked.Publish(ints(300, 5), 2, 512, out)).value
    assert value is out
    assert torch.equal(out, schedule.decode_schedule(ints(300, 5), units=8, next_n=2, max_seq_len=512))
    seq, start, end = (torch.full((5,), -9, dtype=torch.int32) for _ in range(3))
    under.run(asked.PublishWindows(ints(0, 1, 3), ints(300, 5), 4, seq, start, end))
    assert (seq.tolist(), start.tolist(), end.tolist()) == (
        [0, 1, 1, 1, -9], [0, 0, 0, 0, -9], [300, 4, 5, 0, -9]
    )  # fmt: skip
    made = torch.full((6, 6), -9, dtype=torch.int32)
    under.run(asked.PublishPrefill(seq[:4], start[:4], end[:4], 512, made))
    rows = windows.varqlen_windows(ints(0, 1, 3), ints(300, 5), 4)
    assert torch.equal(made, schedule.prefill_schedule(rows, units=6, max_seq_len=512))


def test_a_draft_loop_publishes_by_the_trees_builder(tmp_path: Path) -> None:
    """The scorer is the oracle's here: the little tree has none, and the suite's own stage is the loop."""
    under = path(tmp_path)
    seen: list[asked.Launched] = []
    buffers = torch.full((1, 512, 4), -9, dtype=torch.int32)
    answer = under.run(asked.DraftLoop(ints(255, 9), 2, 2, 1, 300, buffers, seen.append))
    assert answer.facts["subject"] == "aiter compute_varctx_schedule in the in-tree draft loop"
    assert [(one.step, one.next_n) for one in seen] == [(0, 2), (1, 1), (2, 1), (3, 2)]


def test_a_builder_without_a_buffer_to_write_to_is_unsupported(tmp_path: Path) -> None:
    """An older aiter allocates its schedules: nothing could be published at a fixed address."""
    older = DECODE.replace(", cta_info_out=None", "").replace("cta_info_out", "torch")
    under = path(tmp_path, older)
    said = "compute_varctx_schedule of this aiter has no parameter cta_info_out"
    with pytest.raises(Unsupported, match=said):
        under.run(asked.Publish(ints(1), 1, 256, torch.empty(1, 4, dtype=torch.int32)))
    case = parse("replay-n1-h16-d128-bucket1-v255_257-k8-tshuffled-fbytes-s1")
    verdict = runner.run(case, under, Ledger())
    assert verdict.status is Status.UNSUPPORTED and verdict.reason == said


def test_a_builder_that_writes_a_copy_differs(tmp_path: Path) -> None:
    copy = DECODE.replace("max_seq_len, cta_info_out)\n", "max_seq_len, cta_info_out.clone())\n")
    assert copy != DECODE
    case = parse("replay-n1-h16-d128-bucket1-v255_257-k8-tshuffled-fbytes-s1")
    verdict = runner.run(case, path(tmp_path, copy), Ledger())
    assert verdict.status is Status.DIFFER and verdict.where["got entry"] == "(0, 0, 2, 0)", verdict.text()
