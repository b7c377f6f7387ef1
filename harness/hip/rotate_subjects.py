"""DeepSeek-V4's rotate-and-quantise kernels, launched as aiter's `dsv4_rotate_quant.cu` launches them.

Each function takes what aiter's op of that name takes. One wave a block; a thread holds 16 values
of a row (32 where the row has 1024), so a block holds vector * 64 / dim rows, and the grid is rows over that.
"""

from __future__ import annotations

from torch import Tensor

from harness.hip.launching import Launch, Value, blocks, element

SOURCE = "csrc/kernels/dsv4_rotate_quant.cu"
WAVE = 64


def rotate_activation_fp4quant(
    out: Tensor, scale: Tensor, input: Tensor, group_size: int = 32, shuffle_scale: bool = True
) -> Launch:
    """Hadamard rotation of the last axis of ``input`` [..., heads, dim], then FP4 with E8M0 ``scale``."""
    template = f"hadamard_rotate_activation_fp4quant_kernel<{element(input, 'input')}, opus::fp4_t"
    given: dict[str, Value] = {
        "out": out,
        "scale": scale,
        "out_stride": out.stride(-2),
        **_groups(group_size, shuffle_scale),
    }
    return _launch(template, input, given)


def rope_rotate_activation_fp4quant(
    out: Tensor,
    scale: Tensor,
    input: Tensor,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor,
    rope_dim: int,
    group_size: int = 32,
    shuffle_scale: bool = True,
    do_rotate_act: bool = True,
) -> Launch:
    """RoPE on a row's last ``rope_dim`` values, rotation when asked for, then FP4 (V4's queries)."""
    chosen = f"{element(input, 'input')}, opus::fp4_t, {_word(do_rotate_act)}"
    template = f"rope_hadamard_rotate_activation_fp4quant_kernel<{chosen}"
    given: dict[str, Value] = {
        "out": out,
        "scale": scale,
        "out_stride": out.stride(-2),
        **_groups(group_size, shuffle_scale),
    }
    return _launch(template, input, {**given, **_rope(cos, sin, positions, rope_dim)})


def rope_rotate_activation_fp8quant(
    out: Tensor,
    scale: Tensor,
    input: Tensor,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor,
    rope_dim: int,
    group_size: int = 128,
    do_rotate_act: bool = True,
) -> Launch:
    """The same with FP8 (E4M3FN) and one fp32 ``scale`` a group."""
    chosen = f"{element(input, 'input')}, {_word(do_rotate_act)}"
    template = f"rope_hadamard_rotate_activation_fp8quant_kernel<{chosen}"
    given: dict[str, Value] = {
        "out": out,
        "out_scale": scale,
        "out_stride": out.stride(-2),
        "group_size": group_size,
    }
    return _launch(template, input, {**given, **_rope(cos, sin, positions, rope_dim)})


def rmsnorm_rope_rotate_activation_fp4quant_kvcache(
    kvcache: Tensor,
    scale: Tensor,
    input: Tensor,
    norm_weight: Tensor,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor,
    slot_mapping: Tensor,
    epsilon: float,
    rope_dim: int,
    kv_block_size: int = 16,
    group_size: int = 32,
    shuffle_scale: bool = True,
    do_rotate_act: bool = False,
) -> Launch:
    """RMSNorm, RoPE, rotation when asked for, FP4, scattered by slot into both planes (V4's keys)."""
    chosen = f"{element(input, 'input')}, opus::fp4_t, {_word(do_rotate_act)}"
    template = f"norm_rope_hadamard_rotate_activation_fp4quant_kvcache_kernel<{chosen}"
    given: dict[str, Value] = {
        "kvcache": kvcache,
        "scale": scale,
        "norm_weight": norm_weight,
        "slot_mapping": slot_mapping,
        "epsilon": epsilon,
        "kv_block_size": kv_block_size,
        **_groups(group_size, shuffle_scale),
    }
    return _launch(template, input, {**given, **_rope(cos, sin, positions, rope_dim)})


def _launch(template: str, input: Tensor, given: dict[str, Value]) -> Launch:
    """The launch of the instance for the row length of ``input``: one wave for vector * 64 / dim rows."""
    dim = input.shape[-1]
    vector = 32 if dim == 1024 else 16
    rows = input.numel() // dim
    arguments = {"input": input, "m": rows, "head_num": input.shape[-2], "stride": input.stride(-2), **given}
    grid = blocks(rows, vector * WAVE // dim)
    return Launch(SOURCE, f"aiter::{template}, {dim}, {vector}>", (grid, 1, 1), (WAVE, 1, 1), arguments)


def _rope(cos: Tensor, sin: Tensor, positions: Tensor, rope_dim: int) -> dict[str, Value]:
    return {"cos": cos, "sin": sin, "positions": positions, "rope_dim": rope_dim}


def _groups(group_size: int, shuffle_scale: bool) -> dict[str, Value]:
    return {"group_size": group_size, "shuffle_scale": shuffle_scale}


def _word(flag: bool) -> str:
    return "true" if flag else "false"
