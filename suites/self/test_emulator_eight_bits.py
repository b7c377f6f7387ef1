"""Eight-bit conversions by target: gfx942 has FNUZ, gfx950 OCP; every code as ml_dtypes has it."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import Tensor

from harness.emulator import calls, conversions
from harness.emulator.llvm.module import read
from harness.emulator.llvm.translate import translate
from harness.emulator.program import UnsupportedOperation

FORMATS = {
    "fp8": ml_dtypes.float8_e4m3fn,
    "bf8": ml_dtypes.float8_e5m2,
    "fp8_fnuz": ml_dtypes.float8_e4m3fnuz,
    "bf8_fnuz": ml_dtypes.float8_e5m2fnuz,
}
INTRINSIC = """\
define amdgpu_kernel void @k(ptr addrspace(1) %out, float %a, float %b) #0 {
  %c = call i32 @llvm.amdgcn.cvt.pk.fp8.f32(float %a, float %b, i32 0, i1 false)
  store i32 %c, ptr addrspace(1) %out
  ret void
}
attributes #0 = { "target-cpu"="TARGET" }
"""
CLAMPED = INTRINSIC.replace(
    "%c = call i32 @llvm.amdgcn.cvt.pk.fp8.f32(float %a, float %b, i32 0, i1 false)",
    "%s = call { i32, float, float } asm sideeffect "
    '"v_med3_f32 $1, $1, $3, $4\\0Av_med3_f32 $2, $2, $3, $4\\0Av_cvt_pk_fp8_f32 $0, $1, $2", '
    '"=v,=v,=v,v,v,1,2"(float -LIMIT, float LIMIT, float %a, float %b)\n'
    "  %c = extractvalue { i32, float, float } %s, 0",
)
READ = INTRINSIC.replace(
    "%c = call i32 @llvm.amdgcn.cvt.pk.fp8.f32(float %a, float %b, i32 0, i1 false)",
    "%c = call float @llvm.amdgcn.cvt.f32.fp8(i32 56, i32 0)",
).replace("store i32 %c", "store float %c")


def values(name: str) -> Tensor:
    """float32: all of 16 bits; each midpoint of two codes and each code, with their neighbours."""
    halves = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(torch.bfloat16).float()
    codes = np.arange(256, dtype=np.uint8).view(FORMATS[name]).astype(np.float64)
    numbers = np.unique(codes[np.isfinite(codes)])
    last = 2 * numbers[-1] - numbers[-2]  # what the next code would be
    points = np.concatenate((numbers, (numbers[1:] + numbers[:-1]) / 2, [last, (numbers[-1] + last) / 2]))
    given = torch.from_numpy(np.concatenate((points, -points))).float()
    sides = (torch.nextafter(given, torch.tensor(side)) for side in (torch.inf, -torch.inf))
    return torch.cat((halves, given, *sides))


@pytest.mark.parametrize("name", FORMATS)
def test_codes_are_those_of_ml_dtypes(name: str) -> None:
    """Also infinities and what is beyond the largest number; which NaN of OCP's it is is not the question."""
    given = values(name)
    got = conversions.pair_to_fp8(torch.zeros_like(given, dtype=torch.int32), given, given, 1, name)
    with np.errstate(invalid="ignore"):
        theirs = given.numpy().astype(FORMATS[name])
    want = torch.from_numpy(theirs.view(np.uint8)).int()
    known = ~torch.isnan(given) | name.endswith("fnuz")
    assert torch.equal((got >> 16 & 0xFF)[known], want[known])
    assert torch.equal(got >> 24 & 0xFF, got >> 16 & 0xFF)
    back, held = conversions.from_fp8(got, 3, name), torch.from_numpy(theirs.astype(np.float32))
    assert torch.equal(back.nan_to_num(7e9, 8e9, -8e9), held.nan_to_num(7e9, 8e9, -8e9))


def test_fnuz_has_one_nan_and_no_negative_zero() -> None:
    """248 lies midway between 240 and what would be 256, the even one, so it is beyond the numbers."""
    given = torch.tensor(
        [-0.0, -(2.0**-11), 247.99, -247.99, 248.0, torch.inf, -torch.inf, torch.nan, -torch.nan]
    )
    got = conversions.pair_to_fp8(torch.zeros(9, dtype=torch.int32), given, given, 0, "fp8_fnuz") & 0xFF
    assert got.tolist() == [0, 0, 0x7F, 0xFF, 0x80, 0x80, 0x80, 0x80, 0x80]


def run(text: str, *arguments: float, out: Tensor | None = None) -> Tensor:
    out = torch.zeros(1, dtype=torch.int32) if out is None else out
    calls.call(translate(read(text), "k"), (1, 1, 1), (1, 1, 1), (out, *arguments))
    return out


@pytest.mark.parametrize(("target", "want", "worth"), [("gfx942", 0x8041, 0.5), ("gfx950", 0x7E39, 1.0)])
def test_the_target_decides_what_a_code_is(target: str, want: int, worth: float) -> None:
    """1.125, and 440, which only E4M3FN holds (as 448); the code 0x38 read back."""
    assert run(INTRINSIC.replace("TARGET", target), 1.125, 440.0).item() == want
    assert run(READ.replace("TARGET", target), 0.0, 0.0, out=torch.zeros(1)).item() == worth


@pytest.mark.parametrize(("target", "limit", "want"), [("gfx942", 240, 0xFF7F), ("gfx950", 448, 0xFE7E)])
def test_a_clamp_before_the_conversion_saturates(target: str, limit: int, want: int) -> None:
    """As aiter's opus writes it, in inline assembly; without the clamp both would be NaN."""
    text = CLAMPED.replace("TARGET", target).replace("LIMIT", f"{float(limit):e}")
    assert run(text, 1e9, -torch.inf).item() % 0x10000 == want


@pytest.mark.parametrize(
    ("line", "said"), [('"target-cpu"="gfx90a"', "gfx90a"), ('"target-cpx"="gfx942"', "(none)")]
)
@pytest.mark.parametrize("text", [INTRINSIC, CLAMPED.replace("LIMIT", "1.0"), READ])
def test_another_target_is_refused_by_name(text: str, line: str, said: str) -> None:
    changed = text.replace('"target-cpu"="TARGET"', line)
    with pytest.raises(UnsupportedOperation) as refusal:
        translate(read(changed), "k")
    known = f"fp8 conversion for target-cpu {said}, known are gfx942 and gfx950"
    assert known in str(refusal.value)


def test_the_overflow_bit_of_the_mode_cannot_be_set() -> None:
    """With it the instruction would saturate; who sets it is refused instead of being misread."""
    text = INTRINSIC.replace("TARGET", "gfx942").replace(
        "  ret void", "  call void @llvm.amdgcn.s.setreg(i32 5569, i32 1)\n  ret void"
    )
    with pytest.raises(UnsupportedOperation, match=r"s\.setreg"):
        translate(read(text), "k")
