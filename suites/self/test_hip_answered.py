"""A HIP kernel is run in every way that compiler and hardware may choose, and each way's bytes are told."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from harness import runner
from harness.case.cases import parse
from harness.emulator import nearly
from harness.hip.launching import Launch
from harness.judge import several
from harness.judge.ledger import Ledger
from harness.judge.verdict import Status, Verdict
from harness.paths import base
from harness.paths.aiter import hip
from harness.paths.oracle import OraclePath
from harness.paths.requests.eightbit import SUBNORMALS, WriteTokens8
from oracles import eightbit_subnormals
from suites.self import hip_tree

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="no compiler (extra hip)")

LIGHT = hip_tree.LIGHT + "#include <hip/device_math.h>\n"
KERNELS = f"""{LIGHT}
namespace own {{
__global__ void plain_kernel(const float* a, const float* b, const float* c, float* out)
{{
    const int at = threadIdx.x;
    out[at] = a[at] + b[at];
}}

__global__ void fusing_kernel(const float* a, const float* b, const float* c, float* out)
{{
    const int at = threadIdx.x;
    out[at] = a[at] * b[at] + c[at];
}}

__global__ void near_kernel(const float* a, const float* b, const float* c, float* out)
{{
    const int at = threadIdx.x;
    out[at] = rsqrtf(a[at]);
}}

__global__ void both_kernel(const float* a, const float* b, const float* c, float* out)
{{
    const int at = threadIdx.x;
    out[at] = rsqrtf(a[at]) * b[at] + c[at];
}}
}} // namespace own
"""
LANES = 64


class Emulated:
    """An aiter path without a chip."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def source(self) -> Path:
        return self.root


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hip_tree.plant(tmp_path_factory.mktemp("tree"), KERNELS)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "hip-cache"))


def operands() -> tuple[Tensor, Tensor, Tensor]:
    """Products that cancel to what a rounding leaves; every fourth root is exact."""
    count = torch.arange(LANES, dtype=torch.float32)
    a = torch.where(count % 4 == 0, 4.0, 1 + count * 2.0**-12)
    b = 1 + (count + 1) * 2.0**-13
    return a, b, -(a * b)


def ran(tree: Path, kernel: str) -> tuple[base.Outcome, Tensor]:
    """What `answered` says of ``kernel``, and the tensor it wrote."""
    a, b, c = operands()
    out = torch.full((LANES,), 7.0)
    launch = Launch(
        hip_tree.SOURCE, f"own::{kernel}", (1, 1, 1), (LANES, 1, 1), {"a": a, "b": b, "c": c, "out": out}
    )
    return hip.answered(cast("Any", Emulated(tree)), launch, (out,), out, kernel), out


def bits(tensors: list[Tensor]) -> set[bytes]:
    return {bytes(one.view(torch.uint8).tolist()) for one in tensors}


@pytest.mark.parametrize(
    ("kernel", "count"), [("plain_kernel", 1), ("fusing_kernel", 2), ("near_kernel", 3), ("both_kernel", 6)]
)
def test_every_way_is_run(tree: Path, kernel: str, count: int) -> None:
    """Separate and contracted, each with every choice of approximations, and only where there is a choice."""
    outcome, _ = ran(tree, kernel)
    assert outcome.facts["ways run"] == count
    assert outcome.facts[SUBNORMALS] == "flushed"  # the flag of aiter's build
    assert len(outcome.others) <= count - 1


def test_the_ways_are_those_that_were_meant(tree: Path) -> None:
    """By arithmetic of the test's own: rounded before the sum, and not; a root and its neighbours."""
    a, b, c = operands()
    outcome, out = ran(tree, "fusing_kernel")
    separate, fused = a * b + c, (a.double() * b.double() + c.double()).float()
    assert torch.equal(out, separate) and bits([out, *outcome.others]) == bits([separate, fused])
    outcome, out = ran(tree, "near_kernel")
    exact = a.double().rsqrt()
    nearest, inexact = exact.float(), exact.float().double() ** -2 != a.double()
    moved = [
        torch.where(inexact, torch.nextafter(nearest, torch.tensor(to)), nearest)
        for to in (-torch.inf, torch.inf)
    ]
    assert bits([out, *outcome.others]) == bits([nearest, *moved])
    assert bool((~inexact).any())


def test_the_answer_stays_that_of_the_first_way(tree: Path) -> None:
    """The caller's buffer ends as the plain way left it, and bytes that part are counted."""
    outcome, out = ran(tree, "both_kernel")
    assert outcome.value is out
    every = [out, *outcome.others]
    raw = torch.stack([one.view(torch.uint8) for one in every])
    assert outcome.facts["bytes with several results"] == int((raw != raw[0]).any(0).sum()) > 0
    plain, _ = ran(tree, "plain_kernel")
    assert plain.facts["bytes with several results"] == 0 and plain.others == ()


def test_a_choice_is_taken_back(tree: Path) -> None:
    """After all ways the thread takes rounded results again."""
    ran(tree, "near_kernel")
    with nearly.choosing("above"):
        pass
    outcome, out = ran(tree, "near_kernel")
    assert torch.equal(out, operands()[0].double().rsqrt().float()) and len(outcome.others) == 2


def test_ways_are_not_mixed() -> None:
    """A cell is right where one way gave what must be for that way; else it stays what the first way gave."""
    first, second = torch.tensor([1, 2, 3, 4]), torch.tensor([1, 5, 6, 7])
    wanted = [torch.tensor([1, 9, 9, 4]), torch.tensor([1, 5, 8, 0])]
    assert several.met([first, second], wanted).tolist() == [1, 9, 3, 4]


CASE = "fp8-r6-h16-d128-pairneox-p1-fmtfn-ue1-tileflat-fspread-s21"


class Ways(OraclePath):
    """The oracle's writer, whose answers in ``spoil`` (one a way) have a byte of q_codes that is off."""

    name = "ways"

    def __init__(self, *spoil: tuple[int, ...], stated: str | None = None) -> None:
        self.spoil, self.stated = spoil, stated

    @cached_property
    def table(self) -> base.Answers:
        own = super().table[WriteTokens8]
        return {WriteTokens8: lambda request: self.answer(own(request), request)}

    def answer(self, outcome: base.Outcome, request: WriteTokens8) -> base.Outcome:
        ways = []
        for bytes_ in self.spoil:
            made = [tensor.clone() for tensor in request.outputs]
            for byte in bytes_:
                made[0].flatten()[byte] ^= 1
            ways.append(tuple(made))
        for tensor, own in zip(request.outputs, ways[0], strict=True):
            tensor.copy_(own)
        facts: dict[str, Any] = {"ways run": len(ways), "bytes with several results": hip.several(ways)}
        if self.stated:
            facts[SUBNORMALS] = self.stated
        return replace(outcome, others=tuple(ways[1:]), facts=facts)


def judged(*spoil: tuple[int, ...], stated: str | None = None) -> Verdict:
    return runner.run(parse(CASE), Ways(*spoil, stated=stated), Ledger())


def test_a_byte_is_right_where_one_way_has_it_right() -> None:
    """Each way may be wrong where another is not, and the verdict says that there was more than one value."""
    verdict = judged((3,), (7, 9))
    assert verdict.status is Status.AGREE
    assert verdict.facts["bytes with several results"] == 3
    assert "3 bytes came out in several ways, one of them right in each" in verdict.notes


def test_a_byte_that_no_way_has_right_is_red() -> None:
    """Byte 7 is wrong in every way."""
    verdict = judged((3, 7), (7, 9))
    assert verdict.status is Status.DIFFER and verdict.count == 1
    assert verdict.where["column"] == 7
    assert "q_codes: 1 of 14336 differ" in verdict.notes and "cache: right" in verdict.notes


def test_without_a_second_value_nothing_is_said() -> None:
    """One way, no note."""
    assert judged(()).notes == () and judged((), ()).status is Status.AGREE


@pytest.mark.parametrize("stated", [None, *eightbit_subnormals.MODES])
def test_a_stated_mode_is_in_the_verdict(stated: str | None) -> None:
    """Where nothing is subnormal any mode agrees; what a path states stands in the verdict."""
    verdict = judged((), stated=stated)
    assert verdict.status is Status.AGREE and verdict.facts[SUBNORMALS] == (stated or "kept")
