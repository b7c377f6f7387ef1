"""Small FlyDSL kernels for the tests of the emulator's backend; import after ``backend.install()``.

Each does one thing that a test names. Line numbers are part of what is tested, and are looked
up in the source by a comment (see `line_of`), never written down.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx


def line_of(mark: str) -> int:
    """Line of this file that ends in the comment ``mark``."""
    lines = inspect.getsource(sys.modules[__name__]).splitlines()
    (number,) = [n for n, line in enumerate(lines, 1) if line.endswith(f"# {mark}")]
    return number


def load(tensor: Any, offset: Any, dtype: Any) -> Any:
    return fx.generic_load(fx.add_offset(fx.get_iter(tensor), fx.Int64(offset)), dtype=dtype, count=1)


def store(tensor: Any, offset: Any, value: Any) -> None:
    fx.generic_store(fx.add_offset(fx.get_iter(tensor), fx.Int64(offset)), value)  # store


@flyc.kernel
def scale_kernel(out: fx.Tensor, x: fx.Tensor, factor: fx.Float32, count: fx.Int32) -> None:
    place = fx.block_idx.x * 64 + fx.thread_idx.x
    if place < count:
        store(out, place, load(x, place, fx.Float32) * factor + fx.Float32(1.0))  # scale


@flyc.jit
def scale(
    out: fx.Tensor, x: fx.Tensor, factor: fx.Float32, count: fx.Int32, blocks: fx.Int32, stream: fx.Stream
) -> None:
    scale_kernel(out, x, factor, count).launch(grid=(blocks,), block=(64, 1, 1), stream=stream)


@flyc.jit
def scale_twice(
    out: fx.Tensor, x: fx.Tensor, factor: fx.Float32, count: fx.Int32, blocks: fx.Int32, stream: fx.Stream
) -> None:
    scale_kernel(out, x, factor, count).launch(grid=(blocks,), block=(64, 1, 1), stream=stream)
    scale_kernel(out, out, factor, count).launch(grid=(blocks,), block=(64, 1, 1), stream=stream)


@flyc.kernel
def halves_kernel(out: fx.Tensor, first: fx.Int32) -> None:
    store(out, first + fx.thread_idx.x, fx.Float32(2.0))


@flyc.jit
def two_halves(out: fx.Tensor, stream: fx.Stream) -> None:
    halves_kernel(out, fx.Int32(0)).launch(grid=(1,), block=(64, 1, 1), stream=stream)
    halves_kernel(out, fx.Int32(64)).launch(grid=(1,), block=(64, 1, 1), stream=stream)


@flyc.jit
def shifted(out: fx.Tensor, stream: fx.Stream) -> None:
    halves_kernel(out, fx.Int32(0)).launch(grid=(1,), block=(64, 1, 1), stream=stream)
    halves_kernel(out, fx.Int32(1)).launch(grid=(1,), block=(64, 1, 1), stream=stream)


@flyc.kernel
def sums_kernel(out: fx.Tensor, counts: fx.Tensor) -> None:
    lane = fx.thread_idx.x
    total, odd = fx.Int32(0), fx.Int32(0)
    for step in range(0, load(counts, lane, fx.Int32), 1):
        if step % 2 == 0:
            total = total + step * lane
        else:
            total = total - 1
            odd = odd + 1
    store(out, lane, total * 100 + odd)


@flyc.jit
def sums(out: fx.Tensor, counts: fx.Tensor, stream: fx.Stream) -> None:
    sums_kernel(out, counts).launch(grid=(1,), block=(64, 1, 1), stream=stream)


@flyc.kernel
def mirror_kernel(out: fx.Tensor, x: fx.Tensor, fenced: fx.Constexpr[bool]) -> None:
    lane = fx.thread_idx.x
    tile = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 128]).peek()
    tile[lane] = load(x, fx.block_idx.x * 128 + lane, fx.Float32)
    if fx.const_expr(fenced):
        fx.barrier()
    store(out, fx.block_idx.x * 128 + lane, tile[127 - lane])


@flyc.jit
def mirror(
    out: fx.Tensor, x: fx.Tensor, blocks: fx.Int32, fenced: fx.Constexpr[bool], stream: fx.Stream
) -> None:
    mirror_kernel(out, x, fenced).launch(grid=(blocks,), block=(128, 1, 1), stream=stream)


@flyc.kernel
def next_kernel(out: fx.Tensor, x: fx.Tensor) -> None:
    lane = fx.thread_idx.x
    following = load(x, lane + 1, fx.Float32)  # next
    store(out, lane, following)
    store(out, lane // 2, following)  # race


@flyc.jit
def following(out: fx.Tensor, x: fx.Tensor, stream: fx.Stream) -> None:
    next_kernel(out, x).launch(grid=(1,), block=(64, 1, 1), stream=stream)


@flyc.jit
def loosely(out: fx.Tensor, x: fx.Tensor, stream: fx.Stream) -> None:
    next_kernel(out, x).launch(grid=(1,), block=(64, 1, 1), stream=stream)


@flyc.kernel
def strides_kernel(out: fx.Tensor, x: fx.Tensor) -> None:
    rows, columns = x.shape.unpack()
    down, across = x.stride.unpack()
    lane = fx.thread_idx.x
    if lane < rows * columns:
        store(out, lane, load(x, lane // columns * down + lane % columns * across, fx.Float32))


@flyc.jit
def flattened(out: fx.Tensor, x: fx.Tensor, stream: fx.Stream) -> None:
    strides_kernel(out, x).launch(grid=(1,), block=(64, 1, 1), stream=stream)


@flyc.kernel
def nothing_kernel(count: fx.Int32) -> None:
    pass


@flyc.jit
def nothing(count: fx.Int32, stream: fx.Stream) -> None:
    nothing_kernel(count).launch(grid=(1,), block=(64, 1, 1), stream=stream)


@flyc.kernel
def exponential_kernel(out: fx.Tensor, x: fx.Tensor) -> None:
    lane = fx.thread_idx.x
    store(out, lane, fx.math.exp2(load(x, lane, fx.Float32)))  # exponential


@flyc.jit
def exponential(out: fx.Tensor, x: fx.Tensor, stream: fx.Stream) -> None:
    exponential_kernel(out, x).launch(grid=(1,), block=(64, 1, 1), stream=stream)


@flyc.kernel
def fast_kernel(out: fx.Tensor, x: fx.Tensor, flags: fx.Constexpr[str]) -> None:
    lane = fx.thread_idx.x
    value = load(x, lane, fx.Float32)
    with fx.arith.fastmath(getattr(fx.arith.FastMathFlags, flags)):
        value = value * value + value  # fast
    store(out, lane, value)


@flyc.jit
def fast(out: fx.Tensor, x: fx.Tensor, flags: fx.Constexpr[str], stream: fx.Stream) -> None:
    fast_kernel(out, x, flags).launch(grid=(1,), block=(64, 1, 1), stream=stream)
