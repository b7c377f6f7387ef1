"""The cases of suite replay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from harness.case.case_limits import MAX_CELLS, MAX_KEYS, CaseError
from harness.case.suite import NEAR, Suite, only

if TYPE_CHECKING:
    from harness.case.cases import Case

SUNK = "as ties, but a third of the keys score minus infinity, so that cuts lie among those"

BORDERS = "255,3,256_256,257,1_257,255,0,513_1"
"""Over and under chunk borders one at a time, a dead sequence in the middle, a batch of one."""
LONGER = "2047,64_2049,5,600_16_1025,2048,17"

SMOKE = (
    f"replay-n1-h16-d128-bucket4-v{BORDERS}-k64-tshuffled-fbytes-s1",
    "replay-n4-h32-d128-bucket3-v255,257_256,258,2_1,6-k200-tstrided-fnatural-s2",
    "replay-n3-h16-d256-bucket2-v257_253,511-k16-ttight-fties-s3",
    "replay-n1-h16-d128-bucket2-v255,230_257,30-k200-tshuffled-fsunk-s4",
)


def full() -> Iterator[str]:
    for turn, next_n in enumerate((1, 2, 3, 4, 8)):
        fill, table = ("address", "bytes", "natural", "boundary", "ties")[turn], NEAR[turn % 4]
        heads, dim, vectors = (
            (64, 32, 128, 16, 48)[turn],
            (128, 128, 256)[turn % 3],
            (BORDERS, LONGER)[turn % 2],
        )
        k = (64, 512, 200, 16, 300)[turn]
        where = f"bucket{4 + turn}-v{vectors}-k{k}-t{table}"
        yield f"replay-n{next_n}-h{heads}-d{dim}-{where}-f{fill}-s{500 + turn}"
    yield "replay-n2-h32-d128-bucket5-v1025,700_513,1300,2_17,900-k700-twide-fsunk-s513"
    # The first sequence dead, with no page that there is: idle entries name its row.
    yield "replay-n1-h16-d128-bucket2-v0,300_300,0_3-k16-tshuffled-fbytes-s512"
    yield "replay-n1-h64-d128-bucket8-v5,0,17,258,300_255x8_256x5_257_1x7-k128-tshuffled-fnatural-s510"
    yield "replay-n4-h16-d128-bucket200-v1x200_257x2_600-k32-tshuffled-fbytes-s511"


def check(case: Case) -> None:
    """Two replays at least, none larger than the bucket, and what memory holds."""
    if len(case.v) < 2:
        raise CaseError(
            "field v has one vector, allowed in suite replay are 2 to 64 (there must be a change)"
        )
    largest = max(map(len, case.v))
    if largest > case.bucket:
        raise CaseError(f"field v has a vector of {largest} lengths, allowed are 1 to bucket = {case.bucket}")
    lengths = [length for vector in case.v for length in vector]
    if not any(lengths):
        raise CaseError("field v has no key, allowed in suite replay is at least one length from 1")
    cells = case.rows * (1 + max(lengths))
    if cells > MAX_CELLS // 8:
        raise CaseError(f"rows * the largest length is {cells}, allowed are at most {MAX_CELLS // 8} cells")
    keys = max(map(sum, case.v))
    if keys > MAX_KEYS:
        raise CaseError(f"field v has a vector of {keys} keys, allowed are at most {MAX_KEYS}")


SUITE = Suite(
    name="replay",
    about="a captured decode step replayed over changing contents",
    kinds={"replay": ("n", "h", "d", "bucket", "v", "k", "t", "f", "s")},
    smoke=SMOKE,
    full=full,
    tables=NEAR,
    fills=only("bytes", "natural", "address", "ties", "boundary") | {"sunk": SUNK},
    check=check,
)
