"""Which kernels are mutated, which cases they must be seen by, and what is enumerated for the rest.

All cases of a target launch one and the same program: FlyDSL writes N, H, D and the width of the block table
into a kernel, so these are the same in all of them. The first case is the smallest on which most mutants are
red, because they end there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LONGEST = 1000
"""The longest context of every case: it makes the block table's width, which is written into the kernel."""
EDGES = ",".join(map(str, (LONGEST, 0, 1, 15, 16, 17, 63, 64, 65, 255, 256, 257, 511, 512, 513)))
EVERY = ",".join(map(str, range(LONGEST + 1)))
PIECES = ",".join(
    [
        f"0@0:{LONGEST}",
        *(f"0@{start}:{start + size}" for start in range(0, 600, 37) for size in range(1, 60, 7)),
        "1@0:0",
    ]
)
ENDS = ",".join(f"0@{end // 3}:{end}" for end in range(LONGEST + 1))


@dataclass(frozen=True)
class Target:
    """One program: ids of ``cases`` in the order they are tried, ids of the ``enumerated`` launches."""

    name: str
    cases: tuple[str, ...]
    enumerated: tuple[str, ...]
    said: str


def decode(heads: int, dim: int) -> Target:
    head = f"decode-n2-h{heads}-d{dim}-ctx"
    return Target(
        f"decode-h{heads}-d{dim}",
        (
            f"{head}{LONGEST},5-tshuffled-u6-l0-fbytes-s1",
            f"{head}{LONGEST},300,17-tshuffled-u24-l0-fbytes-s2",
            f"{head}513,{LONGEST},1,0,64-tstrided-u10-l0-faddress-s3",
            f"{head}{LONGEST},256,257,2-tshuffled-u8-l0-fwide-s4",
            f"{head}{EDGES}-tshuffled-u60-l0-fboundary-s5",
        ),
        (
            f"{head}{EDGES}-tshuffled-u30-l0-fwide-s6",
            f"{head}{EDGES}-tshuffled-u300-l0-fwide-s7",
            f"{head}{EVERY}-tshuffled-u{2 * LONGEST + 2}-l0-fbytes-s8",
        ),
        f"every context of 0 to {LONGEST} tokens, 2 rows each, and the edges under 30 and 300 slots",
    )


def prefill(heads: int, dim: int) -> Target:
    head = f"prefill-h{heads}-d{dim}-ctx"
    return Target(
        f"prefill-h{heads}-d{dim}",
        (
            f"{head}{LONGEST},300-w0@0:697+3,0@37:41,0@255:600,1@5:300-c0-tshuffled-u9-l0-fbytes-s1",
            f"{head}{LONGEST},65-w0@640:700,0@17:33,0@256:512,1@0:65,1@64:64-c2-tstrided-u5-l0-faddress-s3",
            f"{head}{LONGEST},65-w0@100:698+2,0@1:2,1@0:64-c0-tshuffled-u4-l0-fwide-s4",
            f"{head}{LONGEST},7-w0@650:697+3,1@2:7-c0-tshuffled-u0-l0-fbytes-s2",
            f"{head}{LONGEST},65-w{PIECES}-c0-tshuffled-u0-l0-fboundary-s5",
        ),
        (
            f"{head}{LONGEST},65-w{PIECES}-c0-tshuffled-u0-l0-fwide-s6",
            f"{head}{LONGEST},65-w{ENDS}-c0-tshuffled-u0-l0-fbytes-s7",
        ),
        f"windows that end at 0 to {LONGEST}, and starts of every residue of 16 and 64",
    )


def varqlen(heads: int, dim: int) -> Target:
    head = f"varqlen-h{heads}-d{dim}-ctx"
    short = ",".join(str(1 + i % 4) for i in range(LONGEST + 1))
    return Target(
        f"varqlen-h{heads}-d{dim}",
        (
            f"{head}{LONGEST},300,17-q4,1,3-p2-tshuffled-u12-l0-fbytes-s1",
            f"{head}{LONGEST},7-q2,1-p1-tshuffled-u0-l0-fbytes-s2",
            f"{head}513,{LONGEST},64,1-q3,1,2,1-p0-tstrided-u9-l0-faddress-s3",
            f"{head}{LONGEST},256,257,2-q2,3,1,1-p1-tshuffled-u8-l0-fwide-s4",
        ),
        (f"{head}{EVERY}-q{short}-p3-tshuffled-u0-l0-fbytes-s5",),
        f"every context of 0 to {LONGEST} tokens with 1 to 4 rows",
    )


TARGETS: Mapping[str, Target] = {
    target.name: target
    for target in (
        decode(16, 128),
        prefill(16, 128),
        varqlen(16, 128),
        decode(64, 128),
        decode(32, 256),
        prefill(32, 256),
    )
}
