"""The suites, in the order in which they are shown."""

from __future__ import annotations

from harness.case.lists import (
    dcp_decode,
    dcp_prefill,
    decode,
    fp8,
    gate,
    identity,
    layout,
    pipeline,
    pool,
    prefill,
    quantise,
    replay,
    rotate,
    schedule,
    speculative,
    topk,
    varqlen,
    write,
    writer,
)
from harness.case.suite import Suite

MODULES = (
    quantise,
    layout,
    write,
    writer,
    schedule,
    decode,
    prefill,
    varqlen,
    identity,
    topk,
    dcp_decode,
    dcp_prefill,
    replay,
    speculative,
    gate,
    pool,
    fp8,
    rotate,
    pipeline,
)
SUITES: dict[str, Suite] = {module.SUITE.name: module.SUITE for module in MODULES}
if len(SUITES) != len(MODULES):
    raise ValueError("two suites share a name")
