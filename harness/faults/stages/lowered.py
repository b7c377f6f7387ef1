"""Faults planted in a kernel's lowered program: what it loads and never uses, which lane it hears from."""

from __future__ import annotations

from harness.faults.fault import Fault
from harness.faults.lowered import by_rule, launching, with_prefetch
from harness.faults.scored import in_scorers
from harness.faults.stages.scoring import KERNELS

DECODE = "decode-n1-h16-d128-ctx20-tshuffled-u0-l0-fbytes-s1"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="table-overread",
        stage="score",
        wrong="the page id after the one in use is loaded ahead, in the last row past the end of the table",
        seen="fault catalogue; ROCm/aiter pa_mqa_logits_fp4.py (its ledger entry here)",
        weak=f"every comparison of scores, for none changes; tables with room behind ({DECODE})",
        case="decode-n1-h16-d128-ctx20-ttight-u0-l0-fbytes-s1",
        source=KERNELS,
        plant=lambda: in_scorers(launching(with_prefetch, "a page id loaded in a loop"))(),
        lowered=True,
    ),
    Fault(
        name="permute-lane-off",
        stage="score",
        wrong="exchanges between lane groups take the value of the lane beside the right one",
        seen="mechanical faults of a decode kernel (fault catalogue, last paragraph)",
        weak="keys with equal scores",
        case=DECODE,
        source=KERNELS,
        plant=lambda: in_scorers(
            launching(by_rule("permute_lanes", "off by one", "operand 0 +4"), "a lane exchange")
        )(),
        lowered=True,
    ),
)
