"""One launch of a kernel: the instance, how many blocks of how many threads, a value for each parameter.

Contract: values go by the parameter's name in the source, so that another order or a parameter less in
another version of a tree does not shift them. A parameter that no launcher here knows is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.hip.compilers import CannotCompile
from harness.hip.reading import Parameter

Value = Tensor | int | float | bool | None
"""A tensor stands for the address of its first element, nothing for a null pointer."""

ELEMENT = {torch.bfloat16: "opus::bf16_t", torch.float16: "opus::fp16_t", torch.float32: "float"}
"""C++ types of the elements that aiter's launchers choose an instance by."""


@dataclass(frozen=True)
class Launch:
    """``source``: path in the tree; ``instance``: C++ text; ``grid`` in blocks, ``block`` in threads."""

    source: str
    instance: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: Mapping[str, Value]

    def in_order(self, parameters: tuple[Parameter, ...]) -> list[Value]:
        """The values for ``parameters`` of the compiled kernel; raises `CannotCompile` for one without."""
        for parameter in parameters:
            if parameter.name not in self.arguments:
                raise CannotCompile(f"{self.instance}: no value is known for parameter {parameter.name}")
        return [self.arguments[parameter.name] for parameter in parameters]


def element(tensor: Tensor, name: str) -> str:
    """C++ type of the elements of ``tensor``. Raises `CannotCompile` for one that the launchers refuse."""
    if tensor.dtype not in ELEMENT:
        known = ", ".join(str(dtype).removeprefix("torch.") for dtype in ELEMENT)
        raise CannotCompile(f"{name}: type {str(tensor.dtype).removeprefix('torch.')}, known are {known}")
    return ELEMENT[tensor.dtype]


def blocks(items: int, of: int) -> int:
    """Blocks of ``of`` items each that hold ``items``."""
    return -(-items // of)
