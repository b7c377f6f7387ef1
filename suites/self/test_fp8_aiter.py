"""The adapter of aiter's FP8 scorers, against little trees: what runs, what is refused, what is lent."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness import runner
from harness.case.cases import parse
from harness.checks.fp8 import paged as fp8_paged
from harness.checks.fp8 import stages as fp8_stages
from harness.checks.fp8 import tokens as fp8_tokens
from harness.hip import cache_subjects
from harness.judge.ledger import Ledger
from harness.judge.verdict import Status
from harness.paths import registry
from harness.paths.aiter import eightbit, hip, hosted, interpreting
from harness.paths.base import Unsupported
from harness.paths.oracle import OraclePath
from harness.paths.requests.eightbit import PagedScores8
from oracles import eightbit_pages
from suites.self.fake_aiter import FLAT_SOURCE, PAGED_SOURCE, plant

registry.prepare_environment("aiter")
CASE = "fp8-n2-h16-d128-ctx66,3-fmt{}-ue1-tile{}-tshuffled-fbytes-s1"
TOKENS_CASE = "fp8-r6-h16-d128-pairneox-p1-fmtfn-ue1-tileflat-fspread-s1"
FLAT_CASE = "fp8-h16-d128-ctx65,64-w0@0:64+2,1@3:64-fmt{}-ue1-fbytes-s1"


@pytest.fixture(autouse=True)
def _no_aiter() -> Iterator[None]:
    """No test sees modules or hosts of another one's tree."""
    yield
    eightbit._host.cache_clear()
    for name in [name for name in sys.modules if name.split(".")[0] == "aiter"]:
        del sys.modules[name]


class OfTree:
    """As much of the production path as a check of scores needs."""

    name, executor, rerun_args = "aiter", "interpreted", ()

    def __init__(self, root: Path) -> None:
        self.table = eightbit.answers(SimpleNamespace(source=lambda: root))  # type: ignore[arg-type]

    def run(self, request: Any) -> Any:
        return self.table[type(request)](request)


def verdict(root: Path, case: str) -> Any:
    return runner.run(parse(case), OfTree(root), Ledger())  # type: ignore[arg-type]


def paged(row_bytes: int, tile: str = "flat", fmt: str = "fn") -> PagedScores8:
    """The request of a small case over pages of so many bytes a row."""
    made = fp8_paged.build(parse(CASE.format(fmt, tile)))
    cache = fp8_stages.empty_cache(made.blocks, row_bytes, strided=False)
    eightbit_pages.write_keys(cache, made.filled.k_codes, made.filled.k_scales, made.slots, tile)
    return fp8_paged.ask(made, cache, made.buffer())


@pytest.mark.parametrize("fmt", ["fn", "fnuz"])
def test_a_right_flat_host_agrees(tmp_path: Path, fmt: str) -> None:
    """The host is given the tensors of its format and finds itself on that format's chip."""
    found = verdict(plant(tmp_path), FLAT_CASE.format(fmt))
    assert found.status is Status.AGREE, found.text()
    assert "fp8_mqa_logits" in str(found.facts["subjects"])


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("cu_ends[:, None])", "cu_ends[:, None] - 1)"),
        (".clamp(min=0)\n    scores", "\n    scores"),
        ("* kv_scales.double()", ""),
        ("Q.double()", "Q.view(torch.uint8).view(torch.float8_e4m3fnuz).double()"),
    ],
)
def test_a_wrong_flat_host_differs(tmp_path: Path, right: str, wrong: str) -> None:
    """A window, a ReLU, a scale, a format: each shows."""
    assert right in FLAT_SOURCE
    found = verdict(plant(tmp_path, flat=FLAT_SOURCE.replace(right, wrong)), FLAT_CASE.format("fn"))
    assert found.status is Status.DIFFER, found.text()


def test_pages_without_padding_go_through_the_host(tmp_path: Path) -> None:
    """Its Gluon flag is off, its page is 64 keys, and that it ends on a missing hash is no error."""
    root = plant(tmp_path, paged=PAGED_SOURCE)
    request = paged(132)
    outcome = eightbit.paged(root, request)
    assert outcome.value is request.out and "host" in outcome.facts["subject"]
    right = OraclePath().run(paged(132)).value
    assert torch.equal(request.out.view(torch.int32), right.view(torch.int32))


def test_another_missing_attribute_is_not_taken_for_the_end(tmp_path: Path) -> None:
    """Only the hash of a kernel that the interpreter ran may be missing."""
    root = plant(tmp_path, paged=PAGED_SOURCE.replace("None.hash", "None.other"))
    with pytest.raises(AttributeError, match="other"):
        eightbit.paged(root, paged(132))


def test_tiled_pages_are_refused_with_the_reason(tmp_path: Path) -> None:
    """Gluon is not interpreted, so nothing is guessed."""
    with pytest.raises(Unsupported, match="Gluon"):
        eightbit.paged(plant(tmp_path, paged=PAGED_SOURCE), paged(144, "tiled"))


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (PAGED_SOURCE.replace("TotalCuCount=None", "Units=None"), "has no parameter TotalCuCount"),
        (PAGED_SOURCE.replace("max_model_len,", "max_model_len, extra,"), "wants a parameter extra"),
        (PAGED_SOURCE.replace("def deepgemm", "def other"), "has no function deepgemm_fp8_paged_mqa_logits"),
        ("import nowhere_to_be_found", "does not execute: No module named 'nowhere_to_be_found'"),
        (PAGED_SOURCE.replace("assert not", "assert KVBlockSize == 1 and not"), "refuses pages of 64 keys"),
    ],
)
def test_a_version_that_does_not_fit_is_one_sentence(tmp_path: Path, source: str, says: str) -> None:
    """Named by what is missing or refused."""
    with pytest.raises(Unsupported, match=says):
        eightbit.paged(plant(tmp_path, paged=source), paged(132))


def test_padded_pages_need_the_kernel(tmp_path: Path) -> None:
    """A tree without it says so."""
    with pytest.raises(Unsupported, match="has no aiter/ops/triton/_triton_kernels"):
        eightbit.paged(plant(tmp_path, paged=PAGED_SOURCE), paged(144))


def test_what_a_host_imports_in_vain_is_refused_on_use(tmp_path: Path) -> None:
    """A module that cannot be had is no error until it is needed, and then names itself."""
    root = plant(tmp_path, flat="from aiter.ops.missing import thing\ndef fp8_mqa_logits():\n    thing()\n")
    module = hosted.load(root, "aiter.ops.triton.attention.fp8_mqa_logits", {})
    with pytest.raises(Unsupported, match=r"aiter\.ops\.missing\.thing cannot be had here"):
        module.fp8_mqa_logits()
    assert not [name for name in sys.modules if name.startswith("aiter.ops.missing")]


KERNEL = """
import triton
import triton.language as tl


@triton.jit
def combine(a, b):
    return a + b


@triton.jit
def folded(x, out, codes, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row, column = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    place = row[:, None] * COLUMNS + column[None, :]
    total = tl.reduce(tl.load(x + place), axis=0, combine_fn=combine)
    tl.store(out + column, total + tl.load(codes + column).to(tl.float32) * 0)
"""


def folded(tmp_path: Path, *, lent: bool, dtype: torch.dtype) -> torch.Tensor:
    """Column sums of a fixed matrix by a kernel's own function, with codes of ``dtype`` at hand."""
    (tmp_path / "kernel_of_the_test.py").write_text(KERNEL)
    sys.path.insert(0, str(tmp_path))
    try:
        from kernel_of_the_test import folded as kernel  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("kernel_of_the_test", None)
    x = torch.randn(16, 32, generator=torch.Generator().manual_seed(1)) * 1000
    out, codes = torch.zeros(32), torch.zeros(32, dtype=torch.uint8).view(dtype)
    if lent:
        with interpreting.lent():
            kernel[(1,)](x, out, codes, 16, 32)
    else:
        kernel[(1,)](x, out, codes, 16, 32)
    return out


def test_what_is_lent_changes_no_bit(tmp_path: Path) -> None:
    """Slices are combined in the order in which the interpreter combines cells."""
    plain = folded(tmp_path, lent=False, dtype=torch.float8_e4m3fn)
    assert torch.equal(folded(tmp_path, lent=True, dtype=torch.float8_e4m3fn), plain)


def test_fnuz_is_lent_and_taken_back(tmp_path: Path) -> None:
    """The interpreter alone refuses E4M3FNUZ, before and after."""
    from triton.runtime import interpreter

    before = interpreter._patch_lang_core, interpreter.ReduceOps.generic_reduce
    for _ in range(2):
        with pytest.raises(Exception, match="fp8e4b8"):
            folded(tmp_path, lent=False, dtype=torch.float8_e4m3fnuz)
        assert bool(folded(tmp_path, lent=True, dtype=torch.float8_e4m3fnuz).abs().sum() > 0)
    assert before == (interpreter._patch_lang_core, interpreter.ReduceOps.generic_reduce)


def test_an_unknown_interpreter_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lent to one that lacks the places it goes to."""
    from triton.runtime import interpreter

    monkeypatch.delattr(interpreter.ReduceOps, "generic_reduce")
    with pytest.raises(Unsupported, match="not known"), interpreting.lent():
        pass


def test_the_request_is_not_changed(tmp_path: Path) -> None:
    """Tensors that are only read are as they were."""
    request = paged(132)
    kept = replace(
        request, **{name: getattr(request, name).clone() for name in ("q_codes", "cache", "weights")}
    )
    eightbit.paged(plant(tmp_path, paged=PAGED_SOURCE), request)
    assert all(torch.equal(getattr(request, name), getattr(kept, name)) for name in ("q_codes", "cache"))
    assert torch.equal(request.weights, kept.weights)


@pytest.mark.parametrize(
    ("declared", "kind"), [("const float*", torch.float32), ("const scalar_t*", torch.bfloat16)]
)
def test_norm_parameters_go_in_the_type_that_the_kernel_declares(
    declared: str, kind: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until aiter 4a1cc773f3 that is the type of q; read as float32 there, they would be other numbers."""
    request, launched = fp8_tokens.build(parse(TOKENS_CASE)), []
    names = {"norm_weight": declared, "norm_bias": declared}
    monkeypatch.setattr(hip, "declared", lambda path, launch: names)
    monkeypatch.setattr(hip, "writer_template", lambda path: cache_subjects.BLOCK_A_HEAD)
    monkeypatch.setattr(hip, "answered", lambda path, launch, *rest: launched.append(launch))
    eightbit.write_tokens(SimpleNamespace(), request)  # type: ignore[arg-type]
    for name in names:
        given = launched[0].arguments[name]
        assert given.dtype is kind and torch.equal(given, getattr(request, name).to(kind))
    assert launched[0].arguments["q"] is request.q
