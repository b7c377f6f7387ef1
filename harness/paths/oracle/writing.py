"""The oracle's answer to the fused writer."""

from __future__ import annotations

from harness.paths import base
from harness.paths.requests.writing import WriteTokens
from oracles import formats, prepare


def answers(path: base.Path) -> base.Answers:
    return {WriteTokens: write_tokens}


def write_tokens(request: WriteTokens) -> base.Outcome:
    """`oracles.prepare.write_tokens` into the request's buffers; rows that it skips stay as they were.

    Raises ValueError as that does, with nothing written.
    """
    if (
        len(request.slots) == len(request.q)
        and not request.compute_all_q_rope
        and bool((request.slots < 0).all())
    ):
        return base.Outcome(request.outputs)
    writer = prepare.Writer(
        request.norm_weight,
        request.norm_bias,
        request.cos,
        request.sin,
        request.pairing,
        formats.PRODUCTION,
        request.epsilon,
    )
    made = prepare.write_tokens(
        writer,
        request.q,
        request.k,
        request.weights,
        request.positions,
        request.slots,
        request.k_codes,
        request.k_scales,
        compute_all_q_rope=request.compute_all_q_rope,
    )
    request.q_codes[made.defined] = made.q_codes[made.defined]
    request.q_scales[made.defined] = made.q_scales[made.defined]
    request.weights_out[made.defined] = made.weights[made.defined]
    return base.Outcome(request.outputs)
