"""Fused and separate: the two ends of what a compiler may make of marked products and sums."""

from __future__ import annotations

import pytest
import torch

from harness.emulator import calls
from harness.emulator.llvm.contracting import chances, contracted
from harness.emulator.llvm.module import read
from harness.emulator.llvm.translate import translate
from harness.emulator.rounding import fma

KERNEL = """\
define amdgpu_kernel void @k(ptr addrspace(1) %in, ptr addrspace(1) %out) {
  %lane = call i32 @llvm.amdgcn.workitem.id.x()
  %at = getelementptr [3 x float], ptr addrspace(1) %in, i32 %lane, i32 0
  %a = load float, ptr addrspace(1) %at
  %bt = getelementptr [3 x float], ptr addrspace(1) %in, i32 %lane, i32 1
  %b = load float, ptr addrspace(1) %bt
  %ct = getelementptr [3 x float], ptr addrspace(1) %in, i32 %lane, i32 2
  %c = load float, ptr addrspace(1) %ct
  %p = fmul MARK float %a, %b
  %s = SUM
  %to = getelementptr float, ptr addrspace(1) %out, i32 %lane
  store float %s, ptr addrspace(1) %to
  ret void
}
"""
SUMS = {
    "fadd contract float %p, %c": (1, 1),
    "fadd contract float %c, %p": (1, 1),
    "fsub contract float %p, %c": (1, -1),
    "fsub contract float %c, %p": (-1, 1),
}


def both(sum_: str, mark: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, int]:
    """Operands [64, 3], and the results of the separate and the contracted kernel."""
    generator = torch.Generator().manual_seed(3)
    operands = torch.randn(64, 3, generator=generator)
    plain = translate(read(KERNEL.replace("MARK", mark).replace("SUM", sum_)), "k")
    found = []
    for kernel in (plain, contracted(plain)):
        out = torch.zeros(64)
        calls.call(kernel, (1, 1, 1), (64, 1, 1), (operands, out))
        found.append(out)
    return operands, found[0], found[1], chances(plain)


@pytest.mark.parametrize("sum_", SUMS)
def test_a_marked_sum_of_a_marked_product_is_rounded_once(sum_: str) -> None:
    operands, separate, fused, count = both(sum_, "contract")
    a, b, c = operands.unbind(1)
    product, added = SUMS[sum_]
    assert count == 1
    assert torch.equal(separate, a * b * product + c * added)
    assert torch.equal(fused, fma(a * product, b, c * added))
    assert not torch.equal(separate, fused)


def test_nothing_is_fused_that_is_not_marked() -> None:
    for sum_, mark in (("fadd float %p, %c", "contract"), ("fadd contract float %p, %c", "")):
        _, separate, fused, count = both(sum_, mark)
        assert count == 0
        assert torch.equal(separate, fused)
