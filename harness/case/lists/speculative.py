"""The cases of suite speculative."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from harness.case.case_limits import CaseError, allowed
from harness.case.suite import NEAR, Suite, only

if TYPE_CHECKING:
    from harness.case.cases import Case

SMOKE = (
    "speculative-n4-h32-d128-ctx100,52-steps3-ub1-tshuffled-fbytes-s1",
    "speculative-n4-h16-d128-ctx5,2047,4096,255-steps3-ub2-tshuffled-fnatural-s2",
    "speculative-n3-h16-d256-ctx254,510,10,511,1-steps2-ub2-tstrided-faddress-s3",
    "speculative-n2-h16-d128-ctx256-steps1-ub1-ttight-fties-s4",
    "speculative-n4-h16-d128-ctx5x150-steps1-ub1-tshuffled-fbytes-s5",
    "speculative-n8-h16-d128-ctx300,9-steps1-ub1-tshuffled-fbytes-s6",
)


def full() -> Iterator[str]:
    lengths = ("255,256,257,3", "4096x2,10x2", "2046,2047,2048,1,0,64", "700,437,0,64,511")
    for turn, next_n in enumerate((2, 3, 4, 5, 8)):
        fill, heads = ("bytes", "natural", "address", "boundary", "ties")[turn], (64, 32, 128, 16, 48)[turn]
        for parts in (1, 2):
            where = f"ctx{lengths[(turn + parts) % 4]}-steps{next_n - 1}-ub{parts}-t{NEAR[turn % 4]}"
            yield f"speculative-n{next_n}-h{heads}-d128-{where}-f{fill}-s{600 + turn}"
    yield "speculative-n4-h16-d128-ctx253x140,509x8-steps3-ub4-tshuffled-fbytes-s610"
    yield "speculative-n2-h32-d128-ctx255,256-steps3-ub2-tshuffled-fbytes-s611"


def check(case: Case) -> None:
    """A micro-batch must have a sequence, and a length must have room to grow."""
    if case.ub > case.batch:
        parts = allowed(range(1, case.batch + 1))
        raise CaseError(f"field ub is {case.ub}, {parts} (one sequence each at least)")
    most = (1 << 20) - case.steps - 1
    if case.longest > most:
        raise CaseError(f"field ctx is {case.longest}, allowed are 0 to {most} (lengths grow by steps)")


SUITE = Suite(
    name="speculative",
    about="a draft loop over verify metadata: schedule and lengths as a pair",
    kinds={"decode": ("n", "h", "d", "ctx", "steps", "ub", "t", "f", "s")},
    smoke=SMOKE,
    full=full,
    tables=NEAR,
    fills=only("bytes", "natural", "address", "ties", "boundary"),
    check=check,
)
