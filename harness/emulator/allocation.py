"""Allocations, pointers into them, buffer descriptors: what an address is.

An address is (allocation, byte offset), never a bare number, so that an access outside its
own tensor is seen whatever happens to lie there.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from harness.emulator.program import UnsupportedOperation

POISON_BYTE = -1
"""0xFF as int8: what a byte outside every tensor reads as."""

PAGE = 4096
"""Bytes by which storages are taken to be aligned."""

WORD_TYPES = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(slots=True, eq=False)
class Allocation:
    """One tensor as bytes, from its first to its last element, with what is known about them.

    ``defined`` (bool, one a byte) marks bytes somebody wrote before the launch; None: all.
    ``expected`` (int64, byte offsets in order) lists the cells of ``item`` bytes the launch must store:
    a list, because rows of an output may lie gigabytes apart.
    """

    label: str
    data: Tensor
    item: int
    defined: Tensor | None = None
    expected: Tensor | None = None
    writer: Tensor | None = None
    reader: Tensor | None = None
    grain: int = 0
    per_cta: int | None = None
    lanes: tuple[int, int, int] | None = None
    _views: dict[Any, Tensor] = field(default_factory=dict)
    _number: int = field(default_factory=itertools.count(1).__next__)

    @classmethod
    def of(
        cls, tensor: Tensor, label: str, defined: Tensor | None = None, expected: Tensor | None = None
    ) -> Allocation:
        """The bytes ``tensor`` spans in its storage; the masks have its shape, or a reshape of it."""
        item, span = tensor.element_size(), span_of(tensor)
        start = tensor.storage_offset() * item
        data = torch.empty(0, dtype=torch.int8, device=tensor.device)
        data.set_(tensor.untyped_storage(), start, (span,), (1,))
        allocation = cls(label, data, item)
        if defined is not None:
            allocation.defined = _scatter_mask(tensor, defined, span // item).repeat_interleave(item)
        if expected is not None:
            allocation.expected = _offsets(tensor, expected) * item
        return allocation

    @classmethod
    def shared(cls, label: str, size: int, ctas: int, device: torch.device) -> Allocation:
        """Shared memory of ``size`` bytes for each of ``ctas`` workgroups, nothing in it defined yet."""
        data = torch.full((ctas * size,), POISON_BYTE, dtype=torch.int8, device=device)
        defined = torch.zeros(ctas * size, dtype=torch.bool, device=device)
        return cls(label, data, 1, defined, per_cta=size)

    @property
    def size(self) -> int:
        """Bytes an access may touch: of the tensor, or of one workgroup's shared memory."""
        return int(self.data.numel()) if self.per_cta is None else self.per_cta

    @property
    def address(self) -> int:
        """A number for the first byte: aligned as the tensor lies in its storage, far from others."""
        return self._number << 40 | int(self.data.storage_offset()) % PAGE

    def place(self, offset: Tensor) -> Tensor:
        """Offsets into ``data``: shared memory of workgroup c of the slab starts at c times its size.

        A lane's own (``lanes``: workgroups, waves and lanes of the slab) starts at its number times its size.
        """
        if not self.per_cta:
            return offset
        if self.lanes is not None:
            count = self.lanes[0] * self.lanes[1] * self.lanes[2]
            mine = torch.arange(count, device=self.data.device).view(self.lanes)
            return offset.long() + mine * self.per_cta
        ctas = self.data.numel() // self.per_cta
        start = torch.arange(ctas, device=self.data.device).view(-1, 1, 1) * self.per_cta
        return offset.long() + start

    def words(self, width: int) -> Tensor:
        """The bytes as whole words of ``width``, one row a word (int32 columns from 4 bytes up)."""
        if width not in self._views:
            whole = self.data[: self.data.numel() // width * width]
            if self.data.storage_offset() % min(width, 4):
                whole = whole.clone()  # never stored through: stores go byte by byte then
            unit = min(width, 4)
            self._views[width] = whole.view(WORD_TYPES[unit]).view(-1, width // unit)
        return self._views[width]

    def defined_words(self, width: int) -> Tensor:
        """True for each whole word of ``width`` bytes that was written throughout."""
        assert self.defined is not None
        key = ("defined", width)
        if key not in self._views:
            whole = self.defined[: self.data.numel() // width * width]
            self._views[key] = whole.view(-1, width).all(dim=1)
        return self._views[key]

    def define(self, offsets: Tensor, width: int) -> None:
        """Mark stored bytes as written."""
        if self.defined is not None:
            for byte in range(width):
                self.defined[offsets + byte] = True
            for key in [key for key in self._views if isinstance(key, tuple)]:
                del self._views[key]

    def store_bytes(self, offsets: Tensor, values: Tensor) -> None:
        """Store ``values`` ``(n, width)`` byte by byte, for offsets or a storage that are not whole words."""
        for byte in range(values.shape[1]):
            self.data[offsets + byte] = values[:, byte]
        self.changed()

    def changed(self) -> None:
        """``data`` was written to directly."""
        for key in [key for key in self._views if not isinstance(key, tuple)]:
            del self._views[key]  # some are copies


def span_of(tensor: Tensor) -> int:
    """Bytes from the first to the last element of ``tensor`` in its storage."""
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (reach + 1) * tensor.element_size() if tensor.numel() else 0


def next_launch(allocation: Allocation) -> None:
    """Stores of an earlier launch are done: their cells are written (-1), and race with nothing any more."""
    if allocation.writer is not None:
        allocation.writer.copy_(-(allocation.writer != 0).int())


def _scatter_mask(tensor: Tensor, mask: Tensor, elements: int) -> Tensor:
    """``mask`` of ``tensor``'s shape, laid out at the tensor's own strides over ``elements`` cells."""
    if mask.numel() != tensor.numel():
        raise ValueError(f"mask has shape {tuple(mask.shape)}, the tensor {tuple(tensor.shape)}")
    flat = torch.zeros(elements, dtype=torch.bool, device=tensor.device)
    flat.as_strided(tensor.shape, tensor.stride()).copy_(mask.reshape(tensor.shape).to(tensor.device))
    return flat


def _offsets(tensor: Tensor, mask: Tensor) -> Tensor:
    """Element offsets, ascending, of the true cells of ``mask`` at the tensor's own strides."""
    if mask.numel() != tensor.numel():
        raise ValueError(f"mask has shape {tuple(mask.shape)}, the tensor {tuple(tensor.shape)}")
    cells = mask.reshape(tensor.shape).nonzero()
    strides = torch.tensor(tensor.stride(), dtype=torch.int64, device=cells.device)
    return (cells * strides).sum(dim=1).to(tensor.device).sort().values


@dataclass(frozen=True, slots=True)
class Pointer:
    """A byte offset (Python int or int64 lanes) into an allocation."""

    allocation: Allocation
    offset: Any = 0

    def advance(self, amount: Any) -> Pointer:
        return Pointer(self.allocation, self.offset + amount)


@dataclass(frozen=True, slots=True)
class Resource:
    """A buffer descriptor: base pointer and number of records in bytes (an int, or int64 lanes).

    Offsets are unsigned 32-bit.
    """

    base: Pointer
    records: Any


def null(label: str) -> Pointer:
    """A pointer to nothing: every access through it is out of bounds."""
    return Pointer(Allocation(label, torch.empty(0, dtype=torch.int8), 1))


FLAGS = (7 << 12) | (4 << 15)
"""Last word of a raw buffer's descriptor on gfx9 (32-bit float format, nothing else), as FlyDSL writes it."""
PLAIN = 4 << 15
"""The same without a kind of number, as aiter's opus writes it: only formatted accesses would ask for one."""


def resource(pointer: Any, stride: Any, records: Any, flags: Any) -> Resource:
    """A descriptor from its operands. Swizzled or structured buffers (stride not 0) are not supported.

    Nor are other flags: some bits change every address (swizzle, thread id), others what comes back.
    """
    if isinstance(flags, Tensor) or flags not in (FLAGS, PLAIN):
        raise UnsupportedOperation(f"buffer descriptor with flags {flags}, known are {FLAGS} and {PLAIN}")
    if isinstance(stride, Tensor) or stride != 0:
        raise UnsupportedOperation("buffer descriptor with a stride")
    if not isinstance(pointer, Pointer):
        raise UnsupportedOperation("buffer descriptor from something that is no pointer")
    if isinstance(records, Tensor):
        return Resource(pointer, records.long() & 0xFFFFFFFF)
    return Resource(pointer, int(records) & 0xFFFFFFFF)
