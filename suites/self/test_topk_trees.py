"""The top-k of source trees: which function is asked, and what is said where none can be."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
import torch

from harness.hip import compilers
from harness.hip.compilers import CannotCompile
from harness.paths.aiter import selecting
from harness.paths.atom import AtomPath
from harness.paths.base import OutOfScope, Unsupported
from harness.paths.requests.selecting import PlainTopK, SelectDecode, SelectPrefill

GENERAL = """import torch
from aiter.ops.triton.utils._triton.arch_info import is_tdm_avail


def topk(x, k, *, dim=-1):
    assert not is_tdm_avail()
    return torch.topk(x, k, dim=dim)
"""
FAST = """import torch


def fast_topk(values, topk, dim):
    return torch.topk(values, topk, dim=dim)
"""
ROW = torch.tensor([[1.0, 5.0, 3.0, 4.0]])


class Emulated:
    """An aiter path without a chip."""

    executor = "emulated"

    def __init__(self, root: Path) -> None:
        self.root = root

    def source(self) -> Path:
        return self.root


def aiter_of(root: Path, text: str) -> Any:
    file = root / "aiter/ops/triton/topk.py"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return selecting.answers(cast(Any, Emulated(root)))


def test_the_triton_top_k_of_aiter_is_asked_through_its_host(tmp_path: Path) -> None:
    found = aiter_of(tmp_path, GENERAL)[PlainTopK](PlainTopK(ROW, 2))
    assert found.value.tolist() == [[1, 3]] and found.facts["subject"] == "aiter triton topk"


def test_hip_ops_are_out_of_scope_without_source_or_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Off the chip they are compiled from the tree's source; what is missing for that is named."""
    table, ids = aiter_of(tmp_path, GENERAL), torch.zeros(1, 2, dtype=torch.int32)
    one = torch.ones(1, dtype=torch.int32)
    asked = (
        SelectDecode(ROW, one, 1, 2, False, ids),
        SelectPrefill(ROW, one - 1, one, 2, False, ids),
    )
    for request in asked:
        with pytest.raises(OutOfScope, match=r"topk_per_row_kernels\.cu, a HIP source, is not in this tree"):
            table[type(request)](request)

    def none() -> None:
        raise CannotCompile("no compiler for HIP kernels")

    monkeypatch.setattr(compilers, "find", none)
    for request in asked:
        with pytest.raises(OutOfScope, match="no compiler for HIP kernels"):
            table[type(request)](request)


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (PlainTopK(torch.zeros(1, 5000), 512), "would take 2560 turns"),
        (PlainTopK(torch.zeros(1, 900), 200), "k = 200 is no power of two"),
    ],
)
def test_shapes_it_is_not_made_for_are_out_of_scope(tmp_path: Path, request_: PlainTopK, says: str) -> None:
    with pytest.raises(OutOfScope, match=says):
        aiter_of(tmp_path, GENERAL)[PlainTopK](request_)


def test_a_missing_file_or_parameter_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="topk of this aiter has no parameter k"):
        aiter_of(tmp_path, GENERAL.replace("x, k, *,", "x, count=2, *,"))[PlainTopK](PlainTopK(ROW, 2))
    empty = selecting.answers(cast(Any, Emulated(tmp_path / "none")))
    with pytest.raises(Unsupported, match=r"this aiter has no aiter/ops/triton/topk\.py"):
        empty[PlainTopK](PlainTopK(ROW, 2))


def test_the_general_top_k_of_atom_is_asked_where_there_is_one(tmp_path: Path) -> None:
    file = tmp_path / "atom/models/utils.py"
    file.parent.mkdir(parents=True)
    file.write_text(FAST)
    found = AtomPath(tmp_path, None).run(PlainTopK(ROW, 2))
    assert found.value.tolist() == [[1, 3]] and found.facts["subject"] == "atom fast_topk"
    file.write_text("")
    with pytest.raises(OutOfScope, match="has no operation PlainTopK"):
        AtomPath(tmp_path, None).run(PlainTopK(ROW, 2))
