"""Suite fp8: the FP8 default, stage by stage: quantise, write a page, read it back, score; the fused writer.

Bytes of codes, scales, folded weights and pages are compared exactly, pages whole, with rows of 144
bytes and of 132; scores exactly in every cell that is proven to have one right value, within the
rounding bound elsewhere. Stages that a path has not are the oracle's (`Book.stage`), scores are what
the suite is about. A check that only scored pages of its own writing would pass with flat and
tiled exchanged on both sides.
"""

from __future__ import annotations

from harness.case.cases import Case
from harness.checks.fp8 import flat as fp8_flat
from harness.checks.fp8 import paged as fp8_paged
from harness.checks.fp8 import tokens as fp8_tokens
from harness.judge.verdict import Verdict
from harness.paths.base import Path


def check(case: Case, path: Path) -> Verdict:
    """Compare the path's FP8 stages with the oracle's."""
    forms = {"decode": fp8_paged.check, "prefill": fp8_flat.check, "writer": fp8_tokens.check}
    return forms[case.kind](case, path)
