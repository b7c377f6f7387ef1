"""The cases of suite schedule."""

from __future__ import annotations

from collections.abc import Iterator

from harness.case.lists.common import EDGES, LONG, MIXED, ROUND_LENGTHS, SHORT, SPEC, WINDOWS
from harness.case.suite import Suite

SMOKE = (
    "schedule-n1-ctx1,255,256,257-u4,8,64,512-l0",
    f"schedule-n2-ctx{SPEC}-u16,8,10,512-l768",
    f"schedule-n3-ctx{SHORT}-u33,36,513-l257",
    f"schedule-n4-ctx{LONG}-u16,20,36,112,512-l4096",
    "schedule-n5-ctx0x3-u15,20-l0",
    f"schedule-n6-ctx{MIXED}-u36,66,600-l0",
    "schedule-n7-ctx131072,1-u14,700,1400-l0",
    f"schedule-n8-ctx{LONG}-u32,224,512-l2049",
    "schedule-n1-ctx1x513-u513,1024-l0",
    "schedule-n3-ctx5,0,17,258-u0,12-l0",
    "schedule-n1-ctx4096-u1,2,3,5,15,16,17-l0",
    f"schedule-w{WINDOWS}-u17,18,40,4096-l0",
    f"schedule-w{EDGES}-u10,11,20,64,4096-l4096",
    "schedule-w0@0:0+1-u1,2-l0",
    "schedule-w0@65000:65536+1,1@0:1+300-u301,512,4096-l131072",
)


def full() -> Iterator[str]:
    for next_n in range(1, 9):
        for lengths in ROUND_LENGTHS:
            batch = lengths.count(",") + 1
            units = [next_n * batch, next_n * (batch + 1), next_n * 3 * batch, next_n * 40]
            yield f"schedule-n{next_n}-ctx{lengths}-u{','.join(map(str, units))}-l0"
            yield f"schedule-n{next_n}-ctx{lengths}-u{next_n * 64}-l5000"
    for counts in ("3,4,5,6,7,8", "4096"):
        yield f"schedule-w0@0:2047,0@1:2048,1@2048:2049-u{counts}-l0"
        yield f"schedule-w0@0:2047,0@256:256,1@255:256-u{counts}-l9999"


SUITE = Suite(
    name="schedule",
    about="decode and prefill schedule builders, entry for entry, and what they refuse",
    kinds={"decode": ("n", "ctx", "u", "l"), "prefill": ("w", "u", "l")},
    smoke=SMOKE,
    full=full,
    many=("u",),
)
