"""The radix top-k of one block a row, launched as aiter's `topk_per_row_kernels.cu` launches it on a gfx950.

Each function takes what aiter's op of that name takes. On a gfx950 (256 compute units) the digit
has 12 bits, so the instance does not depend on the machine that runs this. The scratch buffer that the op
takes is not touched by this kernel: null stands for it. Names of arguments are aiter's.
"""

from __future__ import annotations

from torch import Tensor

from harness.hip.compilers import CannotCompile
from harness.hip.launching import Launch, Value

SOURCE = "csrc/kernels/topk_per_row_kernels.cu"
THREADS = 1024
DIGIT_BITS = 12


def top_k_per_row_decode(
    logits: Tensor,
    next_n: int,
    seqLens: Tensor,
    indices: Tensor,
    numRows: int,
    stride0: int,
    stride1: int,
    k: int = 2048,
    stable: bool = False,
) -> Launch:
    """Row r of ``logits`` is seen up to seqLens[r // next_n] - next_n + r % next_n + 1.

    Grid (rows), block (1024). ``stride0`` is the row length in elements; ``indices`` int32 [rows, k].
    """
    own: dict[str, Value] = {"rowStarts": None, "rowEnds": seqLens, "next_n": next_n, "out": None}
    return _launch("Decode", stable, logits, indices, numRows, stride0, k, own)


def top_k_per_row_prefill(
    logits: Tensor,
    rowStarts: Tensor,
    rowEnds: Tensor,
    indices: Tensor,
    values: Tensor | None,
    numRows: int,
    stride0: int,
    stride1: int,
    k: int = 2048,
    stable: bool = False,
) -> Launch:
    """Row r of ``logits`` is seen from rowStarts[r] to rowEnds[r]; grid (rows), block (1024).

    Raises `CannotCompile` for few long rows that are not ``stable``: those take the kernel of many blocks a
    row, which wait for each other.
    """
    if not stable and takes_many_blocks(numRows, stride0):
        raise CannotCompile(
            f"top_k_per_row_prefill: {numRows} rows of {stride0} take the kernel of many blocks a row, "
            "which is not a subject (stable=True is)"
        )
    own: dict[str, Value] = {"rowStarts": rowStarts, "rowEnds": rowEnds, "next_n": 0, "out": values}
    return _launch("Prefill", stable, logits, indices, numRows, stride0, k, own)


def takes_many_blocks(rows: int, length: int) -> bool:
    """aiter's choice between its two kernels on a gfx950 (`should_use_mulblocks`)."""
    for most, least in ((2, 65536), (32, 98304), (64, 131072), (128, rows * 2048)):
        if rows <= most:
            return length >= least
    return False


def _launch(
    phase: str,
    stable: bool,
    logits: Tensor,
    indices: Tensor,
    rows: int,
    length: int,
    k: int,
    own: dict[str, Value],
) -> Launch:
    values = "false" if own["out"] is None else "true"
    order = ", true" if stable else ""  # the parameter came to aiter with 39a3291b78
    instance = (
        f"aiter::ob::radix_topk_one_block_kernel<float, int, {DIGIT_BITS}, {THREADS}, {values}, false, "
        f"aiter::ob::Phase::{phase}{order}>"
    )
    arguments = {
        "in": logits,
        "in_idx": None,
        "len": length,
        "k": k,
        "out_idx": indices,
        "select_min": False,
        "bufs": None,
        **own,
    }
    return Launch(SOURCE, instance, (rows, 1, 1), (THREADS, 1, 1), arguments)
