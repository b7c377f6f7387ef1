"""What is asked of the memory of index caches: the planes of all layers, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from oracles.pool import Extent, Pool


@dataclass(frozen=True)
class PoolGeometry:
    """The index cache of ``layers`` layers in ``blocks`` pages of ``page_rows`` keys of ``dim`` columns.

    ``form`` is fp4 or fp8. The value is an ``oracles.pool.Pool``: where every plane of every layer lies,
    with planes ``codes`` and ``scales`` (fp4) or ``rows`` (fp8).
    """

    written: ClassVar[tuple[str, ...]] = ()

    form: str
    layers: int
    page_rows: int
    blocks: int
    dim: int


def pool_of(planes: Mapping[str, Sequence[Tensor]], entry_bytes: int) -> Pool:
    """The `Pool` of tensors, a list of layers [blocks, ...] a plane; they may be views of one another.

    Tensors of the same storage share an arena, of which the whole storage counts. Nothing is read, so
    that tensors on the meta device do.
    """
    arenas: dict[int, tuple[int, int]] = {}  # storage to its number and bytes
    extents = []
    for plane, layers in planes.items():
        for layer, tensor in enumerate(layers):
            storage, item = tensor.untyped_storage(), tensor.element_size()
            arena, _ = arenas.setdefault(storage._cdata, (len(arenas), storage.nbytes()))
            shape, strides = list(tensor.shape), [stride * item for stride in tensor.stride()]
            if item > 1:
                shape, strides = [*shape, item], [*strides, 1]
            extents.append(
                Extent(plane, layer, arena, int(tensor.storage_offset()) * item, tuple(shape), tuple(strides))
            )
    return Pool(tuple(extents), tuple(size for _, size in arenas.values()), entry_bytes)
