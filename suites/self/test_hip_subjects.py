"""Launches of the production kernels follow aiter's host functions: instance, grid, block and arguments."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from harness.hip import cache_subjects, rotate_subjects, topk_subjects
from harness.hip.compilers import CannotCompile
from harness.hip.launching import Launch
from harness.hip.reading import Parameter

BF16 = torch.bfloat16


def _pages(blocks: int = 4) -> Tensor:
    return torch.zeros(blocks, 64, 144, dtype=torch.uint8)


def _writer(**changed: object) -> Launch:
    q = torch.zeros(5, 40, 256, dtype=BF16)[:, :32, :128]
    weights = torch.zeros(5, 32, dtype=BF16)
    norm = torch.zeros(128)
    given = {
        "q": q,
        "q_out": torch.zeros(5, 32, 128, dtype=torch.uint8),
        "weights": weights,
        "weights_out": torch.zeros(5, 64)[:, :32],
        "k": torch.zeros(5, 128, dtype=BF16),
        "kv_cache": _pages(),
        "slot_mapping": torch.arange(4),
        "norm_weight": norm,
        "norm_bias": norm,
        "positions": torch.arange(5),
        "cos_cache": torch.zeros(9, 32, dtype=BF16),
        "sin_cache": torch.zeros(9, 48, dtype=BF16)[:, :32],
        "epsilon": 1e-6,
        "quant_block_size": 128,
        "scale_fmt": "ue8m0",
        "weights_scale": 0.5,
        **changed,
    }
    make: Callable[..., Launch] = cache_subjects.indexer_qk_rope_quant_and_cache
    return make(**given)


def test_the_writer_has_a_block_for_each_token_and_head() -> None:
    """Tokens are those that have a slot; strides are those of the tensors, in elements."""
    launch = _writer(preshuffle=True, is_neox=False)
    assert (launch.grid, launch.block) == ((4, 32, 1), (128, 1, 1))
    assert launch.instance == (
        "aiter::indexer_qk_rope_quant_and_cache_kernel<opus::bf16_t, opus::fp8_t, "
        "vllm::Fp8KVCacheDataType::kFp8E4M3, 128, 64>"
    )
    expected = {
        "num_tokens": 4,
        "n_heads": 32,
        "cache_block_size": 64,
        "cache_stride": 144,
        "use_ue8m0": True,
        "q_stride_t": 40 * 256,
        "q_stride_h": 256,
        "q_stride_d": 1,
        "q_out_stride_t": 32 * 128,
        "weights_stride_t": 32,
        "weights_out_stride_t": 64,
        "weights_out_stride_h": 1,
        "k_stride_t": 128,
        "cos_stride0": 32,
        "sin_stride0": 48,
        "preshuffle": True,
        "is_neox": False,
    }
    assert {name: launch.arguments[name] for name in expected} == expected
    assert _writer(scale_fmt="").arguments["use_ue8m0"] is False


def test_an_element_that_the_host_function_refuses_is_refused() -> None:
    with pytest.raises(CannotCompile, match=r"^k: type float64, known are bfloat16, float16, float32$"):
        _writer(k=torch.zeros(5, 128, dtype=torch.float64))


def test_the_key_writer_shares_a_block_between_eight_groups() -> None:
    keys, slots = torch.zeros(9, 128, dtype=torch.float16), torch.arange(9)
    launch = cache_subjects.indexer_k_quant_and_cache(keys, _pages(), slots, 64, "ue8m0")
    assert (launch.grid, launch.block) == ((3, 1, 1), (8, 8, 1))
    assert launch.instance.endswith(
        "<opus::fp16_t, opus::fp8_t, vllm::Fp8KVCacheDataType::kFp8E4M3, 8, 8, 16>"
    )


@pytest.mark.parametrize(
    ("tokens", "rows"),
    [(1, 1), (31, 1), (32, 2), (63, 2), (64, 4), (128, 8), (256, 16), (511, 16), (512, 32), (9999, 32)],
)
def test_the_gather_takes_more_rows_a_block_the_more_tokens_there_are(tokens: int, rows: int) -> None:
    table, ends = torch.zeros(2, 200, dtype=torch.int32), torch.zeros(3, dtype=torch.int32)
    keys, scales = torch.zeros(tokens, 128, dtype=torch.uint8), torch.zeros(tokens, 4, dtype=torch.uint8)
    launch = cache_subjects.cp_gather_indexer_k_quant_cache(_pages(), keys, scales, table, ends)
    assert launch.instance == f"aiter::cp_gather_indexer_k_quant_cache_kernel<8, {rows}>"
    assert (launch.grid, launch.block) == ((-(-tokens // rows), 1, 1), (8, rows, 1))
    assert (launch.arguments["quant_block_size"], launch.arguments["batch_size"]) == (128, 2)


@pytest.mark.parametrize(("dim", "vector", "blocks"), [(128, 16, 12), (256, 16, 24), (1024, 32, 48)])
def test_a_wave_rotates_as_many_rows_as_it_has_values_for(dim: int, vector: int, blocks: int) -> None:
    rows = torch.zeros(3, 32, dim, dtype=BF16)
    codes, scales = torch.zeros(3, 32, dim // 2, dtype=torch.uint8), torch.zeros(999, dtype=torch.uint8)
    launch = rotate_subjects.rotate_activation_fp4quant(codes, scales, rows, shuffle_scale=False)
    assert launch.instance == (
        f"aiter::hadamard_rotate_activation_fp4quant_kernel<opus::bf16_t, opus::fp4_t, {dim}, {vector}>"
    )
    assert (launch.grid, launch.block) == ((blocks, 1, 1), (64, 1, 1))
    expected = {"m": 96, "head_num": 32, "stride": dim, "out_stride": dim // 2, "shuffle_scale": False}
    assert {name: launch.arguments[name] for name in expected} == expected


def test_the_rotation_after_rope_is_a_choice_of_the_instance() -> None:
    rows, table = torch.zeros(3, 32, 128, dtype=BF16), torch.zeros(9, 32, dtype=BF16)
    codes = torch.zeros(3, 32, 64, dtype=torch.uint8)
    places = torch.arange(3)
    make = rotate_subjects.rope_rotate_activation_fp4quant
    with_, without = (
        make(codes, codes, rows, table, table, places, 64, do_rotate_act=on).instance for on in (True, False)
    )
    assert "opus::fp4_t, true, 128, 16>" in with_ and "opus::fp4_t, false, 128, 16>" in without
    eight = rotate_subjects.rope_rotate_activation_fp8quant(rows, table, rows, table, table, places, 64)
    assert eight.arguments["out_scale"] is table and "<opus::bf16_t, true, 128, 16>" in eight.instance
    keys = rotate_subjects.rmsnorm_rope_rotate_activation_fp4quant_kvcache(
        codes, codes, rows, table[0], table, table, places, places, 1e-6, 64, 64
    )
    assert keys.arguments["kv_block_size"] == 64 and "opus::fp4_t, false, 128, 16>" in keys.instance


def _prefill(rows: int, width: int, stable: bool = False, values: Tensor | None = None) -> Launch:
    bounds = torch.zeros(rows, dtype=torch.int32)
    scores, ids = torch.zeros(1).expand(rows, width), torch.zeros(1).expand(rows, 2048)
    return topk_subjects.top_k_per_row_prefill(
        scores, bounds, bounds, ids, values, rows, width, 1, stable=stable
    )


def test_top_k_has_a_block_for_each_row_and_an_instance_for_each_phase() -> None:
    lens = torch.zeros(2, dtype=torch.int32)
    scores, ids = torch.zeros(4, 300), torch.zeros(4, 64, dtype=torch.int32)
    decode = topk_subjects.top_k_per_row_decode(scores, 2, lens, ids, 4, 300, 1, 64, stable=True)
    assert (decode.grid, decode.block) == ((4, 1, 1), (1024, 1, 1))
    head = "aiter::ob::radix_topk_one_block_kernel<float, int, 12, 1024"
    assert decode.instance == f"{head}, false, false, aiter::ob::Phase::Decode, true>"
    expected = {"len": 300, "k": 64, "next_n": 2, "rowStarts": None, "out": None, "select_min": False}
    assert {name: decode.arguments[name] for name in expected} == expected
    values = torch.zeros(4, 2048)
    assert _prefill(4, 300).instance == f"{head}, false, false, aiter::ob::Phase::Prefill>"
    assert _prefill(4, 300, values=values).instance == f"{head}, true, false, aiter::ob::Phase::Prefill>"


@pytest.mark.parametrize(
    ("rows", "least"),
    [(1, 65536), (2, 65536), (3, 98304), (32, 98304), (33, 131072), (64, 131072), (65, 133120)],
)
def test_few_long_rows_would_take_the_other_kernel_unless_stable(rows: int, least: int) -> None:
    assert _prefill(rows, least - 1).grid == (rows, 1, 1)
    assert _prefill(rows, least, stable=True).grid == (rows, 1, 1)
    with pytest.raises(
        CannotCompile, match=f"^top_k_per_row_prefill: {rows} rows of {least} take the kernel of"
    ):
        _prefill(rows, least)
    assert not topk_subjects.takes_many_blocks(129, 1 << 30)


def test_values_go_by_the_names_of_the_compiled_parameters() -> None:
    """In their order; one more than is known is refused by name, one less is left out."""
    launch = Launch("own.cu", "own::kernel<1>", (1, 1, 1), (64, 1, 1), {"a": 1, "b": None, "c": 2.5})
    parameters = tuple(Parameter(name, "i32", 0, 4, "int") for name in "cba")
    assert launch.in_order(parameters) == [2.5, None, 1]
    assert launch.in_order(parameters[:1]) == [2.5]
    with pytest.raises(CannotCompile, match=r"^own::kernel<1>: no value is known for parameter d$"):
        launch.in_order((*parameters, Parameter("d", "i32", 0, 4, "int")))
