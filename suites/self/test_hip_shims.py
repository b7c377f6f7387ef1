"""The shims of HIP, hipCUB and rocPRIM do what the originals do: run in the emulator, held to definitions."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from harness.emulator import calls
from harness.emulator.llvm.module import read
from harness.emulator.llvm.translate import translate
from harness.emulator.sessions import Session, session
from harness.hip.compiling import compile_kernel
from harness.hip.reading import body
from suites.self import hip_tree

THREADS = 256
KERNELS = """#include <hipcub/hipcub.hpp>
#include <rocprim/rocprim.hpp>

template <int Items> __global__ void scan(const int* in, int* out)
{
    using Load  = hipcub::BlockLoad<int, 256, Items, hipcub::BLOCK_LOAD_TRANSPOSE>;
    using Store = hipcub::BlockStore<int, 256, Items, hipcub::BLOCK_STORE_TRANSPOSE>;
    using Scan  = hipcub::BlockScan<int, 256>;
    __shared__ union { typename Load::TempStorage load; typename Scan::TempStorage scan;
                       typename Store::TempStorage store; } shared;
    int held[Items];
    Load(shared.load).Load(in, held);
    __syncthreads();
    Scan(shared.scan).InclusiveSum(held, held);
    __syncthreads();
    Store(shared.store).Store(out, held);
}

template <bool Apart> __global__ void twice(const int* in, int* before, int* total)
{
    using Scan = hipcub::BlockScan<int, 256>;
    __shared__ typename Scan::TempStorage shared;
    int sum, all;
    Scan(shared).ExclusiveSum(in[threadIdx.x], sum, all);
    if(Apart)
        __syncthreads();
    Scan(shared).ExclusiveSum(sum, before[threadIdx.x], total[threadIdx.x]);
}

template <int Items> __global__ void sort(const int* in, int* out)
{
    using Sort = hipcub::BlockRadixSort<int, 256, Items>;
    __shared__ typename Sort::TempStorage shared;
    int keys[Items];
    for(int i = 0; i < Items; ++i)
        keys[i] = in[threadIdx.x * Items + i];
    Sort(shared).Sort(keys);
    for(int i = 0; i < Items; ++i)
        out[threadIdx.x * Items + i] = keys[i];
}

struct Pair { int first; short second; };

template <int Width> __global__ void lanes(const int* in, int* out)
{
    const int value = in[threadIdx.x];
    const Pair pair = rocprim::warp_shuffle(Pair{value, short(value + 1)}, 3, Width);
    out[threadIdx.x]           = __shfl(value, 5, Width);
    out[threadIdx.x + 1 * 256] = __shfl_xor(value, 3, Width);
    out[threadIdx.x + 2 * 256] = __shfl_up(value, 2, Width);
    out[threadIdx.x + 3 * 256] = __shfl_down(value, 2, Width);
    out[threadIdx.x + 4 * 256] = pair.first + 1000 * pair.second;
    out[threadIdx.x + 5 * 256] = rocprim::detail::warp_move_dpp<int, 0xb1>(value);
    const int odd              = __popcll(__ballot(value & 1));
    out[threadIdx.x + 6 * 256] = odd + 100 * __any(value < 0) + 1000 * __all(value >= 0);
}

__global__ void any_of(const int* in, int* out)
{
    out[threadIdx.x] = __syncthreads_or(in[threadIdx.x]) != 0;
}
"""


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "hip-cache"))


def _run(root: Path, instance: str, *tensors: Tensor) -> Session:
    compiled = compile_kernel(hip_tree.plant(root, KERNELS), hip_tree.SOURCE, instance)
    with session() as seen:
        calls.call(translate(read(compiled.ir), compiled.symbol), (1, 1, 1), (THREADS, 1, 1), list(tensors))
    return seen


def _numbers(count: int, seed: int) -> Tensor:
    return torch.randint(-50, 50, (count,), generator=torch.Generator().manual_seed(seed), dtype=torch.int32)


def test_a_scan_sums_the_items_of_the_threads_in_order(tmp_path: Path) -> None:
    given = _numbers(THREADS * 4, 1)
    out = torch.zeros_like(given)
    assert not _run(tmp_path, "scan<4>", given, out).findings
    assert out.tolist() == given.cumsum(0).tolist()


def test_an_exclusive_scan_leaves_the_own_value_out_and_gives_the_total(tmp_path: Path) -> None:
    given = _numbers(THREADS, 2)
    before, total = torch.zeros_like(given), torch.zeros_like(given)
    assert not _run(tmp_path, "twice<true>", given, before, total).findings
    first = given.cumsum(0) - given
    assert before.tolist() == (first.cumsum(0) - first).tolist()
    assert total.tolist() == [int(first.sum())] * THREADS


@pytest.mark.parametrize(("instance", "barriers"), [("twice<false>", 2), ("twice<true>", 3)])
def test_a_scan_has_the_one_barrier_that_it_cannot_do_without(
    tmp_path: Path, instance: str, barriers: int
) -> None:
    """Between storing and reading, as in the original: another would hide one that the caller forgot."""
    compiled = compile_kernel(hip_tree.plant(tmp_path, KERNELS), hip_tree.SOURCE, instance)
    assert body(compiled.ir, compiled.symbol).count("@llvm.amdgcn.s.barrier()") == barriers


@pytest.mark.parametrize("items", [1, 2])
def test_a_sort_puts_the_keys_of_the_block_in_ascending_order(tmp_path: Path, items: int) -> None:
    """With negative keys, with equal ones, and with the largest, which unused places hold."""
    given = _numbers(THREADS * items, 3)
    given[::7] = torch.iinfo(torch.int32).max
    out = torch.zeros_like(given)
    assert not _run(tmp_path, f"sort<{items}>", given, out).findings
    assert out.tolist() == sorted(given.tolist())


@pytest.mark.parametrize("width", [64, 16])
def test_values_move_between_lanes_within_groups_of_the_width(tmp_path: Path, width: int) -> None:
    given = _numbers(THREADS, 4)
    out = torch.zeros(7 * THREADS, dtype=torch.int32)
    assert not _run(tmp_path, f"lanes<{width}>", given, out).findings
    values = given.tolist()
    want: list[list[int]] = [[] for _ in range(7)]
    for at in range(THREADS):
        base, lane = at - at % width, at % width
        wave = values[at - at % 64 : at - at % 64 + 64]
        want[0].append(values[base + 5])
        want[1].append(values[at ^ 3])
        want[2].append(values[at - 2] if lane >= 2 else values[at])
        want[3].append(values[at + 2] if lane + 2 < width else values[at])
        want[4].append(values[base + 3] + 1000 * (values[base + 3] + 1))
        want[5].append(values[at ^ 1])
        odd, low = sum(value & 1 for value in wave), any(value < 0 for value in wave)
        want[6].append(odd + 100 * low + 1000 * (not low))
    assert out.view(7, THREADS).tolist() == want


@pytest.mark.parametrize("set_by", [None, 77])
def test_or_over_the_block_is_seen_by_every_thread(tmp_path: Path, set_by: int | None) -> None:
    given = torch.zeros(THREADS, dtype=torch.int32)
    if set_by is not None:
        given[set_by] = 8
    out = torch.full((THREADS,), 7, dtype=torch.int32)
    assert not _run(tmp_path, "any_of", given, out).findings
    assert out.tolist() == [int(set_by is not None)] * THREADS
