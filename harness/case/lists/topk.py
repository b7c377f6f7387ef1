"""The cases of suite topk: lengths one either side of powers of two, and every kind of row that is hard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from harness.case.case_limits import CaseError
from harness.case.suite import Suite

if TYPE_CHECKING:
    from harness.case.cases import Case

FILLS: Mapping[str, str] = {
    "distinct": "all scores of a row differ, both signs, neighbours far apart",
    "ties": "seven scores a row, so that equal ones lie on both sides of any cut",
    "plateau": "one score for nearly all keys of a row, the cut inside it",
    "narrow": "scores that differ in their last bits only, both signs",
    "special": "infinities of both signs, zeros of both signs, subnormals, the largest numbers",
    "natural": "Gaussian",
    "nan": "Gaussian with NaNs of both signs: only the order of the numbers is specified (mistrusted)",
}
POWERS = (256, 1024, 2048, 4096, 8192, 16384, 32768)
"""Lengths whose neighbours the full list goes through."""

SMOKE = (
    "topk-n1-ctx0,1,2047,2048,2049,4096-k2048-stable0-l0-fdistinct-s1",
    "topk-n4-ctx3,0,2050,513-k512-stable1-l2100-fties-s2",
    "topk-n2-ctx32767,5-k2048-stable0-l32801-fnarrow-s3",
    "topk-n1-ctx32768,1025-k1024-stable1-l32769-fplateau-s4",
    "topk-n3-ctx257,65-k64-stable0-l300-fspecial-s5",
    "topk-n8-ctx9-k1-stable1-l131-fspecial-s6",
    "topk-n1-ctx5000,4097,4095-k4096-stable0-l5001-fnatural-s7",
    "topk-n2-ctx127,129,63-k65-stable0-l0-fplateau-s8",
    "topk-w0@0:300,0@37:41,0@5:5,0@100:357+2,1@400:700,1@433:437-k16-stable1-l701-fties-s11",
    "topk-w0@0:2047+3,0@2040:4096,1@1:4097,2@4090:4097-k2048-stable0-l0-fnarrow-s12",
    "topk-w0@3:40,0@7:1031,1@1029:1100,1@1099:1100-k40-stable1-l1101-fspecial-s13",
    "topk-w0@0:8,0@8:17+2,1@16:40,2@0:9-k8-stable0-l41-fdistinct-s14",
    "topk-n1-ctx40000,70000-k2048-stable0-l0-fdistinct-s15",
    "topk-n1-ctx40000,70000-k2048-stable1-l0-fties-s16",
    "topk-n1-ctx100,5000-k4096-stable0-l0-fdistinct-s17",
)


def full() -> Iterator[str]:
    fills = [fill for fill in FILLS if fill != "nan"]
    for turn, power in enumerate(POWERS):
        for stable, fill in enumerate((fills[turn % 6], fills[(turn + 3) % 6])):
            k = min((2048, 512, 1024, 64, 4096, 1, 2047)[(turn + stable) % 7], power - 1)
            width = power + (1, 33, 255)[turn % 3]
            yield (
                f"topk-n{turn % 4 + 1}-ctx{power - 1},{power},{power + 1},{k}"
                f"-k{k}-stable{stable}-l{max(width, power + 1, k)}-f{fill}-s{100 + 2 * turn + stable}"
            )
    for turn, fill in enumerate(fills):
        for stable in (0, 1):
            k = (16, 256, 2048)[turn % 3]
            yield (
                f"topk-w0@0:{k - 1}+3,0@{k // 2}:{3 * k},1@17:{2 * k + 17}+2,1@5:5,2@{k}:{k + 1}"
                f"-k{k}-stable{stable}-l{3 * k + 37 * turn + 5}-f{fill}-s{200 + 2 * turn + stable}"
            )
            yield f"topk-n1-ctx5x8-k4-stable{stable}-l0-f{fill}-s{300 + 2 * turn + stable}"


MOST = 1 << 24
"""Cells of a score matrix: 16 rows of 2^20. Each is sorted, looked at in both forms, and digested."""


def check(case: Case) -> None:
    """At least one key, and no more cells than take some seconds. Raises `CaseError`."""
    cells = case.rows * case.width
    if cells > MOST:
        raise CaseError(f"rows * max_seq_len is {cells}, allowed in suite topk are at most {MOST} cells")
    if not case.longest:
        name = "w" if case.kind == "prefill" else "ctx"
        raise CaseError(f"field {name} has no key, allowed in suite topk is at least one length from 1")


SUITE = Suite(
    name="topk",
    about="the k largest visible scores, as sets, ties and all",
    kinds={
        "decode": ("n", "ctx", "k", "stable", "l", "f", "s"),
        "prefill": ("w", "k", "stable", "l", "f", "s"),
    },
    smoke=SMOKE,
    full=full,
    fills=FILLS,
    check=check,
)
