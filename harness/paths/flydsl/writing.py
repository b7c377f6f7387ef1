"""In-tree fused writer: the host function around the Triton kernel of `writer_kernel`.

Interpreted without a GPU, native with one (any: nothing in the kernel belongs to a chip). How it would
fail silently: a shape or stride that the kernel takes for granted makes it write in bounds and wrong,
so what does not fit is refused here, in one sentence and before anything is written.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType

import numpy
import torch
from torch import Tensor

from harness.paths import base
from harness.paths.requests.writing import WRITTEN_TOKENS, WriteTokens

DIM, ROPE_DIMS, PAGE_ROWS, TILE_HEADS = 128, 64, 64, 16
PAIRINGS = ("neox", "interleaved")
READ = ("q", "k", "weights", "norm_weight", "norm_bias", "cos", "sin", "positions", "slots")


def answers(path: base.Path) -> base.Answers:
    return {WriteTokens: write_tokens}


@cache
def kernels() -> ModuleType:
    """The kernel, interpreted where nothing else can be."""
    from harness.paths import registry

    if not torch.cuda.is_available():
        registry.prepare_environment("flydsl")
    from harness.paths.flydsl import writer_kernel

    return writer_kernel


def write_tokens(request: WriteTokens) -> base.Outcome:
    """Write in place. Raises ValueError when something does not fit; nothing is written then."""
    check_shapes(request)
    read = {name: put(getattr(request, name)) for name in READ}
    written = {name: put(getattr(request, name)) for name in WRITTEN_TOKENS}
    launch(read, written, request.epsilon, request.pairing, request.compute_all_q_rope)
    for name, tensor in written.items():
        own = getattr(request, name)
        if tensor is not own:
            own.copy_(tensor)
    ran = "device" if torch.cuda.is_available() else "interpreted"
    return base.Outcome(request.outputs, facts={"executor": ran})


def launch(
    read: dict[str, Tensor], written: dict[str, Tensor], epsilon: float, pairing: str, every: bool
) -> None:
    """One program a token. Tensors by the names of `WriteTokens`, all on one device."""
    bits = {name: as_bits(tensor) for name, tensor in (read | written).items()}
    rows, heads, _ = read["q"].shape
    if not rows:
        return
    with numpy.errstate(all="ignore"):  # the interpreter's: NaN and infinity are data here
        kernels().write_tokens_kernel[(rows,)](
            *(bits[name] for name in (*READ, *WRITTEN_TOKENS)),
            heads, read["q"].stride(0), read["q"].stride(1), read["k"].stride(0), read["weights"].stride(0),
            read["cos"].stride(0), read["sin"].stride(0), read["cos"].shape[0], epsilon,
            TILES=written["q_scales"].shape[4], NEOX=pairing == "neox", ALL=every,
        )  # fmt: skip


def check_shapes(request: WriteTokens) -> None:
    """Raises ValueError naming what does not fit."""
    rows, heads, dim = request.q.shape
    blocks = request.k_codes.shape[0]
    tiles = -(-heads // TILE_HEADS // 4) * 4
    sizes = {
        "k": (rows, DIM), "weights": (rows, heads), "norm_weight": (DIM,), "norm_bias": (DIM,),
        "sin": tuple(request.cos.shape), "positions": (rows,), "slots": (rows,),
        "q_codes": (rows, heads, DIM // 2), "q_scales": (rows, 1, 4, TILE_HEADS, tiles),
        "weights_out": (rows, heads), "k_codes": (blocks, 1, 4, PAGE_ROWS, 16),
        "k_scales": (blocks, 1, 4, PAGE_ROWS),
    }  # fmt: skip
    if dim != DIM or heads % TILE_HEADS or not 0 < heads <= 128:
        raise ValueError(
            f"q is {[rows, heads, dim]}, allowed are multiples of 16 heads to 128 and 128 columns"
        )
    if request.cos.shape[1] != ROPE_DIMS // 2 or not request.cos.shape[0]:
        raise ValueError(f"cos is {list(request.cos.shape)}, allowed is [positions, {ROPE_DIMS // 2}]")
    for name, size in sizes.items():
        if tuple(getattr(request, name).shape) != size:
            raise ValueError(f"{name} is {list(getattr(request, name).shape)}, allowed is {list(size)}")
    for name in ("positions", "slots"):
        if getattr(request, name).dtype is not torch.int64:
            raise ValueError(f"{name} is {getattr(request, name).dtype}, allowed is torch.int64")
    for name in ("norm_weight", "norm_bias", "positions", "slots", *WRITTEN_TOKENS):
        if not getattr(request, name).is_contiguous():
            raise ValueError(f"{name} has gaps, allowed is contiguous memory")
    for name in ("q", "k", "weights", "cos", "sin"):
        if getattr(request, name).stride(-1) != 1:
            raise ValueError(f"{name} has gaps along its last axis, allowed are gaps between rows")
    if request.pairing not in PAIRINGS:
        raise ValueError(f"pairing is {request.pairing!r}, allowed are {', '.join(PAIRINGS)}")
    check_places(request)


def check_places(request: WriteTokens) -> None:
    """Raises ValueError for a row that has a slot and a position or page that is not there."""
    kept = request.slots >= 0
    last = request.k_codes.shape[0] * PAGE_ROWS
    if bool((request.slots >= last).any()):
        raise ValueError(f"slots reaches {int(request.slots.max())}, allowed are slots below {last}")
    held = request.positions[kept]
    if bool(((held < 0) | (held >= request.cos.shape[0])).any()):
        raise ValueError(
            f"positions has a value outside 0 to {request.cos.shape[0] - 1} in a row that has a slot"
        )


def as_bits(tensor: Tensor) -> Tensor:
    """bfloat16 as int16, with its strides; anything else as it is."""
    return tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor


def put(tensor: Tensor) -> Tensor:
    """On the device when there is one, with its strides: they are part of what is tested."""
    if not torch.cuda.is_available() or not tensor.numel():
        return tensor
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.as_strided((reach + 1,), (1,)).to("cuda").as_strided(tensor.shape, tensor.stride())
