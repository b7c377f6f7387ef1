"""A little tree with an FP8 scorer of its own, in torch: what an adapter needs to find, and no more."""

from __future__ import annotations

from pathlib import Path

FLAT = "aiter/ops/triton/attention/fp8_mqa_logits.py"
PAGED = "aiter/ops/triton/attention/pa_mqa_logits.py"

FLAT_SOURCE = """
import torch

from aiter.ops.triton._triton_kernels.missing import kernel_that_is_not_used
from aiter.ops.triton.utils._triton import arch_info

arch = arch_info.get_arch()


def fp8_mqa_logits(Q, KV, kv_scales, weights, cu_starts, cu_ends, clean_logits=True):
    assert Q.dtype == (torch.float8_e4m3fnuz if arch == "gfx942" else torch.float8_e4m3fn)
    dots = torch.einsum("thd,ld->thl", Q.double(), KV.double()).clamp(min=0)
    scores = torch.einsum("thl,th->tl", dots, weights.double()) * kv_scales.double()
    logits = torch.empty(scores.shape)
    if clean_logits:
        logits.fill_(-torch.inf)
    column = torch.arange(scores.shape[1])
    seen = (column >= cu_starts[:, None]) & (column < cu_ends[:, None])
    logits[seen] = scores.float()[seen]
    return logits
"""

PAGED_SOURCE = """
import torch

from aiter import dtypes
from aiter.jit.utils.chip_info import get_gfx

enable_gluon_pa_mqa_logits = get_gfx() in ("gfx942", "gfx950")


def deepgemm_fp8_paged_mqa_logits(
    q_fp8, kv_cache, weights, out_logits, context_lens, kv_indices, max_model_len,
    Preshuffle=False, KVBlockSize=1, ChunkK=256, TotalCuCount=None, WavePerEU=2,
):
    assert not enable_gluon_pa_mqa_logits
    pages = kv_cache.view(len(kv_cache), -1)
    codes = pages[:, : 64 * 128].view(dtypes.fp8).view(-1, 64, 128).double()
    scales = pages[:, 64 * 128 :].view(torch.float32).view(-1, 64).double()
    batch, next_n = q_fp8.shape[:2]
    for row in range(batch * next_n):
        end = int(context_lens[row // next_n]) - (next_n - 1 - row % next_n)
        for token in range(end):
            page, slot = int(kv_indices[row // next_n, token // 64]), token % 64
            q = q_fp8[row // next_n, row % next_n].double()
            dots = (q @ codes[page, slot]).clamp(min=0)
            out_logits[row, token] = float((dots * weights[row].double()).sum() * scales[page, slot])
    return None.hash
"""


def plant(root: Path, *, flat: str = FLAT_SOURCE, paged: str | None = None) -> Path:
    """The tree at ``root``, with the host modules given; package files in it must never run."""
    for file, source in ((FLAT, flat), (PAGED, paged)):
        if source is None:
            continue
        home = root / file
        home.parent.mkdir(parents=True, exist_ok=True)
        home.write_text(source)
    (root / "aiter/ops/triton/__init__.py").write_text("raise ImportError('this package wants a GPU')\n")
    return root
