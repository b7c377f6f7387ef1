"""Faults of the quantiser: the rule by which a code or a scale byte is chosen, wrong in all writers alike.

What differs between two such rules is a byte here and there, so each is invisible to a comparison of
dequantised values or of scores with a tolerance, and to data that never meets the rule.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.faults.fault import Fault
from harness.faults.written import How
from oracles.formats import PRODUCTION

EDGES = "quantise-r1-d128-fboundary-s2"
ZEROS = "quantise-r1-d128-fboundary-s7"
"""With a group of zeros."""
OFF_MIDPOINTS = "quantise-r1-d128-fwide-s1"
OTHER_MAXIMA = "quantise-r1-d128-fboundary-s5"
SOURCE = "aiter: csrc/kernels/cache_kernels.cu indexer_qk_rope_quant_and_cache; op_tests' quantisers"


def ruled(**wrong: Any) -> How:
    return How(rule=replace(PRODUCTION, **wrong))


def fault(name: str, wrong: str, seen: str, weak: str, how: How, case: str = EDGES) -> Fault:
    return Fault(name, "quantise", wrong, seen, weak, case, SOURCE, how.plant)


FAULTS: tuple[Fault, ...] = (
    fault(
        "nibble-swap",
        "the even column of a pair goes into the high nibble",
        "triton-lang/triton #5197, ROCm/composable_kernel #1889 (B07)",
        "dot products of two operands that are swapped alike, and pairs of equal codes",
        How(order="high-first"),
    ),
    fault(
        "tie-away",
        "a value half way between two codes goes to the larger magnitude, not to the even code",
        "ROCm/aiter #3992, #4030, #2247 (B02)",
        f"values off the midpoints ({OFF_MIDPOINTS})",
        ruled(ties="away"),
    ),
    fault(
        "tie-zero",
        "a value half way between two codes goes to the smaller magnitude, not to the even code",
        "DeepGEMM utils/math.py; fault catalogue",
        "midpoints that the even code lies below of (quantise-r1-d128-fboundary-s1)",
        ruled(ties="zero"),
    ),
    fault(
        "tie-down",
        "a value half way between two codes goes toward minus infinity, not to the even code",
        "ROCm/aiter op_tests/test_flydsl_pa_mqa_logits_fp4.py; fault catalogue",
        f"values off the midpoints ({OFF_MIDPOINTS})",
        ruled(ties="down"),
    ),
    fault(
        "scale-floor",
        "the scale is rounded down to a power of two, so that a group's maximum saturates",
        "ROCm/aiter #3212, ROCm/FlyDSL #590, pytorch/ao #1643 (B01)",
        "dequantised values within a tolerance; groups whose maximum is 4 to 6 times a power of two"
        " (quantise-r1-d128-fboundary-s6)",
        ruled(scale="floor"),
    ),
    fault(
        "scale-even",
        "the scale is rounded down to a power of two below a significand of 1.75, and up from there",
        "ROCm/aiter #3212, jax-ml/ml_dtypes #298 (B01)",
        f"groups with a maximum of 7 times a power of two and above ({OTHER_MAXIMA})",
        ruled(scale="even"),
    ),
    fault(
        "scale-amax-over-7",
        "a group's maximum is divided by 7 instead of 6",
        "fault catalogue",
        f"groups whose maximum is no more than 6 times a power of two ({OTHER_MAXIMA})",
        ruled(divisor="seventh"),
    ),
    fault(
        "scale-eps",
        "a group's maximum is raised to 1e-4 instead of 6 * 2^-126",
        "vllm #41015 (B03)",
        "groups that are not quiet (quantise-r48-d128-fnatural-s4)",
        ruled(amax_floor=1e-4),
    ),
    fault(
        "scale-no-floor",
        "a group's maximum is not raised at all, so that a group of zeros has scale byte 0 instead of 1",
        "vllm #41015 (B03)",
        f"any score, since 0 * 2^-127 is 0 as well; groups that are not zero ({EDGES})",
        ruled(amax_floor=0.0),
        ZEROS,
    ),
    fault(
        "neg-zero-drop",
        "the sign of a negative value that rounds to zero is lost",
        "DeepGEMM utils/math.py; fault catalogue",
        "any score: -0 times anything adds nothing; only codes show it",
        ruled(keep_negative_zero=False),
    ),
)
