"""The production writer: aiter's `indexer_qk_rope_quant_and_cache` in FP4 mode.

A HIP kernel: on a gfx950 its function is called as a server calls it (written, not yet run on a chip),
elsewhere it is compiled from the tree's source and run in the emulator. Its FP4 mode is chosen by the two
scale tensors, and came to aiter after its FP8 mode: a version without those parameters would take the call
without them and write FP8, so they are looked for in the source before anything is called.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from harness.hip import cache_subjects
from harness.paths import base
from harness.paths.aiter import hip
from harness.paths.aiter import tree as aiter_tree
from harness.paths.requests.writing import WRITTEN_TOKENS, WriteTokens

if TYPE_CHECKING:
    from harness.paths.aiter.path import AiterPath

MODULE = "aiter.ops.cache"
FILE = "aiter/ops/cache.py"
NAME = "indexer_qk_rope_quant_and_cache"
MODE = ("q_scale_out", "kv_cache_scale")
"""Parameters that choose the FP4 mode, both together."""
GROUP = 32
TENSORS = {
    "q": "q",
    "q_out": "q_codes",
    "weights": "weights",
    "weights_out": "weights_out",
    "k": "k",
    "kv_cache": "k_codes",
    "slot_mapping": "slots",
    "norm_weight": "norm_weight",
    "norm_bias": "norm_bias",
    "positions": "positions",
    "cos_cache": "cos",
    "sin_cache": "sin",
    "q_scale_out": "q_scales",
    "kv_cache_scale": "k_scales",
}
"""aiter's name of each tensor, and the request's."""


def answers(path: AiterPath) -> base.Answers:
    return {WriteTokens: lambda request: write_tokens(path, request)}


def write_tokens(path: AiterPath, request: WriteTokens) -> base.Outcome:
    """On a gfx950 or in the emulator.

    Raises `base.Unsupported` for an aiter without the FP4 mode (off a chip: `base.OutOfScope`), and what
    `hip.answered` raises.
    """
    root = path.source()
    live = path.executor.startswith("device")
    if lacking := lacks(root):
        raise (base.Unsupported if live else base.OutOfScope)(lacking)
    if not live:
        return _emulated(path, request)
    held = {ours: on_device(getattr(request, ours)) for ours in TENSORS.values()}
    arguments = named(request, held)
    write = aiter_tree.function(aiter_tree.load(root, MODULE), NAME, tuple(arguments))
    write(**arguments)
    for field in WRITTEN_TOKENS:
        getattr(request, field).copy_(held[field])
    return base.Outcome(request.outputs, facts={"executor": path.executor})


def _emulated(path: AiterPath, request: WriteTokens) -> base.Outcome:
    """The kernel of the tree as its host function launches it."""
    template = hip.writer_template(path)
    if template == cache_subjects.BLOCK_A_HEAD:
        raise base.Unsupported(f"{cache_subjects.WRITER} of this aiter has no FP4 mode, though {FILE} has")
    held = {ours: getattr(request, ours) for ours in TENSORS.values()}
    launch = cache_subjects.indexer_qk_rope_quant_and_cache(**named(request, held), template=template)
    return hip.answered(path, launch, request.outputs, request.outputs, f"{NAME} in FP4 mode")


def named(request: WriteTokens, held: dict[str, Tensor]) -> dict[str, Any]:
    """Every argument by aiter's name; ``held``: the request's tensors on the device."""
    return {
        **{theirs: held[ours] for theirs, ours in TENSORS.items()},
        "epsilon": request.epsilon,
        "quant_block_size": GROUP,
        "scale_fmt": "ue8m0",
        "weights_scale": request.weights_scale,
        "preshuffle": False,  # the FP4 planes have one order; the flag is the FP8 page's
        "is_neox": request.pairing == "neox",
        "compute_all_q_rope": request.compute_all_q_rope,
    }


def on_device(tensor: Tensor) -> Tensor:
    """With its strides: they are part of what is tested."""
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    moved = tensor.as_strided((reach + 1,), (1,)).to(torch.device("cuda"))
    return moved.as_strided(tensor.shape, tensor.stride())


def lacks(root: Path) -> str:
    """One sentence on what the aiter at ``root`` has not, empty when it has the FP4 writer.

    Read from the source: its module builds a HIP extension when it is imported.
    """
    file = root / FILE
    if not file.is_file():
        return f"this aiter has no {FILE}"
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.name == NAME:
            return _lacks_parameters({argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)})
    return f"{FILE} of this aiter has no function {NAME}"


def _lacks_parameters(known: set[str]) -> str:
    for name in MODE:
        if name not in known:
            return f"{NAME} of this aiter has no FP4 mode (no parameter {name})"
    if "compute_all_q_rope" not in known:
        return f"{NAME} of this aiter has no parameter compute_all_q_rope"
    return ""
