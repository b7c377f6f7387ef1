"""The kernels that fill and read the indexer's FP8 pages, launched as `cache_kernels.cu` of aiter does it.

Each function takes what aiter's op of that name takes. The checks of the host launcher are not
repeated; what chooses the instance, the grid and the arguments is, expression by expression. Strides count
elements; a tensor stands for the address of its first element.
"""

from __future__ import annotations

from torch import Tensor

from harness.hip import reading
from harness.hip.compilers import CannotCompile
from harness.hip.launching import Launch, blocks, element

SOURCE = "csrc/kernels/cache_kernels.cu"
FP8 = "opus::fp8_t, vllm::Fp8KVCacheDataType::kFp8E4M3"
VECTOR = 16
THREADS = 8
"""Threads that share one quantisation block of `indexer_k_quant_and_cache` or one row of the gather."""
WAVE = 64
WRITER = "indexer_qk_rope_quant_and_cache_kernel"
BLOCK_A_HEAD = ("scalar_t", "cache_t", "kv_dt", "HEAD_DIM", "ROPE_DIM")
WAVE_A_BLOCK = (*BLOCK_A_HEAD, "FP4_OUT", "NARROW")
TEMPLATES = (BLOCK_A_HEAD, WAVE_A_BLOCK)
"""Template parameters of the fused writers that are known; the newer one has the FP4 mode."""
NARROW_TOKENS = 256
"""Tokens up to which the newer host takes the narrow instance (INDEXER_NARROW_MAX_TOKENS)."""
VECTOR_BYTES = 16
"""Bytes that a lane of the wide instance loads at once (INDEXER_VEC_BYTES_WIDE)."""


def writer_template(source: str) -> tuple[str, ...]:
    """Which of `TEMPLATES` the fused writer of a tree is; ``source``: the text of its `SOURCE`.

    Raises `CannotCompile` for another one, by its parameters.
    """
    found = reading.template(source, WRITER)
    if found not in TEMPLATES:
        raise CannotCompile(
            f"{WRITER} has template parameters {', '.join(found)}, which no launcher here knows"
        )
    return found


def indexer_qk_rope_quant_and_cache(
    q: Tensor,
    q_out: Tensor,
    weights: Tensor,
    weights_out: Tensor,
    k: Tensor,
    kv_cache: Tensor,
    slot_mapping: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    positions: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    epsilon: float,
    quant_block_size: int,
    scale_fmt: str,
    weights_scale: float,
    preshuffle: bool = False,
    is_neox: bool = True,
    compute_all_q_rope: bool = False,
    q_scale_out: Tensor | None = None,
    kv_cache_scale: Tensor | None = None,
    *,
    template: tuple[str, ...] = BLOCK_A_HEAD,
) -> Launch:
    """The fused writer; head dim 128, RoPE 64. FP4 mode where both scale tensors are given, else FP8.

    ``template`` is one of `TEMPLATES`. `BLOCK_A_HEAD`: grid (tokens, heads), block (head dim), FP8 only.
    `WAVE_A_BLOCK`: grid (tokens, heads / heads of a wave), block (wave); a lane takes 2 values of up to 256
    tokens (narrow), else 16 bytes (wide). Tokens are min(rows of k, slots). ``q`` [tokens, heads, 128];
    ``kv_cache`` is [blocks, block size, stride] in FP8 (E4M3FN), [blocks, 1, 4, block size, 16] in FP4.
    ``norm_weight`` and ``norm_bias`` are of the type that the kernel declares: fp32 since aiter
    4a1cc773f3, before that the type of q. ``epsilon`` and ``weights_scale`` arrive as fp32. Raises
    `CannotCompile` for what ``template`` has not: FP4 mode, queries of rows without a slot.
    """
    tokens, heads = min(k.shape[0], slot_mapping.shape[0]), q.shape[1]
    fp4 = q_scale_out is not None and kv_cache_scale is not None
    chosen, grid, threads = f"{element(k, 'k')}, {FP8}, 128, 64", (tokens, heads, 1), k.shape[1]
    if template == WAVE_A_BLOCK:
        narrow = tokens <= NARROW_TOKENS
        values = k.shape[1] // WAVE if narrow else VECTOR_BYTES // k.element_size()
        chosen += f", {str(fp4).lower()}, {str(narrow).lower()}"
        grid, threads = (tokens, blocks(heads, WAVE * values // k.shape[1]), 1), WAVE
    elif fp4 or compute_all_q_rope:
        raise CannotCompile(f"{WRITER} of this tree has no FP4 mode and skips rows without a slot")
    strides = {
        **{f"q_stride_{axis}": stride for axis, stride in zip("thd", q.stride(), strict=True)},
        **{f"q_out_stride_{axis}": stride for axis, stride in zip("thd", q_out.stride(), strict=True)},
        **{f"weights_stride_{axis}": stride for axis, stride in zip("th", weights.stride(), strict=True)},
        **{
            f"weights_out_stride_{axis}": stride
            for axis, stride in zip("th", weights_out.stride(), strict=True)
        },
        **{f"k_stride_{axis}": stride for axis, stride in zip("td", k.stride(), strict=True)},
        "cos_stride0": cos_cache.stride(0),
        "sin_stride0": sin_cache.stride(0),
    }
    return Launch(
        SOURCE,
        f"aiter::{WRITER}<{chosen}>",
        grid,
        (threads, 1, 1),
        {
            "q": q,
            "q_out": q_out,
            "weights": weights,
            "weights_out": weights_out,
            "k": k,
            "kv_cache": kv_cache,
            "slot_mapping": slot_mapping,
            "norm_weight": norm_weight,
            "norm_bias": norm_bias,
            "positions": positions,
            "cos_cache": cos_cache,
            "sin_cache": sin_cache,
            "q_scale_out": q_scale_out,
            "kv_cache_scale": kv_cache_scale,
            "num_tokens": tokens,
            "n_heads": heads,
            "quant_block_size": quant_block_size,
            "cache_block_size": kv_cache.shape[3 if fp4 else 1],
            "cache_stride": kv_cache.shape[2],
            **strides,
            "epsilon": epsilon,
            "weights_scale": weights_scale,
            "use_ue8m0": scale_fmt == "ue8m0",
            "preshuffle": preshuffle,
            "is_neox": is_neox,
            "max_position": cos_cache.shape[0],
            "compute_all_q_rope": compute_all_q_rope,
        },
    )


def indexer_k_quant_and_cache(
    k: Tensor,
    kv_cache: Tensor,
    slot_mapping: Tensor,
    quant_block_size: int,
    scale_fmt: str,
    preshuffle: bool = False,
) -> Launch:
    """The unfused key writer: block (8, 8), 16 values a thread, grid of 8 quantisation blocks a block.

    Tokens are min(rows of k, slots); quantisation blocks are tokens * head dim // block size.
    """
    tokens = min(k.shape[0], slot_mapping.shape[0])
    rows = WAVE // THREADS
    return Launch(
        SOURCE,
        f"aiter::indexer_k_quant_and_cache_kernel<{element(k, 'k')}, {FP8}, {THREADS}, {rows}, {VECTOR}>",
        (blocks(tokens * k.shape[1] // quant_block_size, rows), 1, 1),
        (THREADS, rows, 1),
        {
            "k": k,
            "kv_cache": kv_cache,
            "slot_mapping": slot_mapping,
            "num_tokens": tokens,
            "head_dim": k.shape[1],
            "quant_block_size": quant_block_size,
            "cache_block_size": kv_cache.shape[1],
            "cache_stride": kv_cache.shape[2],
            "use_ue8m0": scale_fmt == "ue8m0",
            "preshuffle": preshuffle,
        },
    )


def cp_gather_indexer_k_quant_cache(
    kv_cache: Tensor,
    dst_k: Tensor,
    dst_scale: Tensor,
    block_table: Tensor,
    cu_seq_lens: Tensor,
    preshuffle: bool = False,
) -> Launch:
    """The gather of a prefill's keys: block (8, Y), grid (tokens / Y, head dim / 128), 16 bytes a thread.

    Y is 1 below 32 tokens and doubles with each doubling of them, up to 32 from 512 tokens on. The size of a
    quantisation block follows from the bytes of a row of ``dst_scale``.
    """
    tokens, head_dim = dst_k.shape
    rows = next((1 << step for step in range(5) if tokens < 32 << step), 32)
    return Launch(
        SOURCE,
        f"aiter::cp_gather_indexer_k_quant_cache_kernel<{THREADS}, {rows}>",
        (blocks(tokens, rows), blocks(head_dim, THREADS * VECTOR), 1),
        (THREADS, rows, 1),
        {
            "kv_cache": kv_cache,
            "dst_k": dst_k,
            "dst_scale": dst_scale,
            "block_table": block_table,
            "cu_seq_lens": cu_seq_lens,
            "batch_size": block_table.shape[0],
            "token_stride": dst_k.stride(0),
            "head_dim": head_dim,
            "block_stride": kv_cache.stride(0),
            "cache_token_stride": kv_cache.stride(1),
            "cache_block_size": kv_cache.shape[1],
            "num_blocks": block_table.shape[1],
            "num_tokens": tokens,
            "quant_block_size": head_dim // (dst_scale.shape[1] * dst_scale.element_size() // 4),
            "preshuffle": preshuffle,
        },
    )
