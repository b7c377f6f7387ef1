"""aiter's V4 rotate-and-quantise kernels: HIP, compiled from the tree's source and run in the emulator.

Contract: what its host functions refuse is refused here with their condition; all else is launched as they
launch it (`harness.hip.rotate_subjects`). A tree without the source is out of scope.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.hip import rotate_subjects
from harness.hip.launching import Launch
from harness.paths.aiter import hip
from harness.paths.base import Answers, Outcome, Unsupported
from harness.paths.requests.rotating import RotateKeys, RotateQueries

if TYPE_CHECKING:
    from harness.paths.aiter.path import AiterPath


def answers(path: AiterPath) -> Answers:
    return {
        RotateQueries: lambda request: queries(path, request),
        RotateKeys: lambda request: keys(path, request),
    }


def queries(path: AiterPath, request: RotateQueries) -> Outcome:
    """`rotate_activation`, or with RoPE `rope_rotate_activation`, as the format chooses.

    Raises what `hip.run` raises, and `Unsupported` for what no kernel is for.
    """
    launch, name = _queries(request)
    return hip.answered(path, launch, request.outputs, request.outputs, name)


def keys(path: AiterPath, request: RotateKeys) -> Outcome:
    """`rmsnorm_rope_rotate_activation_fp4quant_kvcache`. Raises what `hip.run` raises."""
    launch = rotate_subjects.rmsnorm_rope_rotate_activation_fp4quant_kvcache(
        request.codes, request.scales, request.x, request.norm_weight, request.cos, request.sin,
        request.positions, request.slots, request.epsilon, 2 * request.cos.shape[1], request.page,
        request.group, request.shuffled, request.hadamard,
    )  # fmt: skip
    name = "rmsnorm_rope_rotate_activation_fp4quant_kvcache"
    return hip.answered(path, launch, request.outputs, request.outputs, name)


def _queries(request: RotateQueries) -> tuple[Launch, str]:
    if request.cos is None or request.sin is None:
        if request.to != "fp4" or not request.hadamard:
            raise Unsupported("aiter has no kernel that quantises without RoPE but the transform to FP4")
        launch = rotate_subjects.rotate_activation_fp4quant(
            request.codes, request.scales, request.x, request.group, request.shuffled
        )
        return launch, "rotate_activation_fp4quant"
    tables = request.cos, request.sin, request.positions, 2 * request.cos.shape[1], request.group
    if request.to == "fp8":
        launch = rotate_subjects.rope_rotate_activation_fp8quant(
            request.codes, request.scales, request.x, *tables, request.hadamard
        )
        return launch, "rope_rotate_activation_fp8quant"
    launch = rotate_subjects.rope_rotate_activation_fp4quant(
        request.codes, request.scales, request.x, *tables, request.shuffled, request.hadamard
    )
    return launch, "rope_rotate_activation_fp4quant"
