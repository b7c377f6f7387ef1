"""Scalar twin of `oracles.pool`: bytes counted one by one, from the words of the specification."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def page_bytes(form: str, page_rows: int, dim: int) -> int:
    """fp4: half a byte a column and a scale byte a group of 32; fp8: a byte, and four a group of 128."""
    total = 0
    for _ in range(page_rows):
        if form == "fp4":
            total += sum(1 for column in range(dim) if column % 2 == 0)
            total += sum(1 for column in range(dim) if column % 32 == 0)
        else:
            row = dim + 4 * sum(1 for column in range(dim) if column % 128 == 0)
            while row % 16:
                row += 1
            total += row
    return total


def addresses(offset: int, shape: Sequence[int], strides: Sequence[int]) -> Iterator[int]:
    """Byte offset of every element, last axis fastest."""
    if not shape:
        yield offset
        return
    for index in range(shape[0]):
        yield from addresses(offset + index * strides[0], shape[1:], strides[1:])
