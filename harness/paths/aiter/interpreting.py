"""Two things that Triton's interpreter lacks for aiter's FP8 kernels, lent to it for one call.

- It knows E4M3FNUZ everywhere but in one table of names, and so refuses pointers to it.
- A reduction by a function of the kernel's own goes cell by cell in Python; here whole slices are
  combined, in the same order along the axis, by the same function: the same additions, a hundred times
  faster (a test holds the two together bit for bit).
Both are put back afterwards. An interpreter without these names gives `Unsupported`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from harness.paths.base import Unsupported


@contextmanager
def lent() -> Iterator[None]:
    """The interpreter with both, until the block ends. Raises `Unsupported`."""
    from triton.runtime import interpreter

    reductions: Any = getattr(interpreter, "ReduceOps", None)
    if not hasattr(interpreter, "_patch_lang_core") or not hasattr(reductions, "generic_reduce"):
        raise Unsupported("the interpreter of this Triton is not known: it has no ReduceOps.generic_reduce")
    plain_language, plain_reduce = interpreter._patch_lang_core, reductions.generic_reduce

    def with_fnuz(lang: Any, scope: Any) -> None:
        plain_language(lang, scope)
        known = lang.dtype.to_ir

        def to_ir(self: Any, builder: Any) -> Any:
            return builder.get_fp8e4b8_ty() if self.name == "fp8e4b8" else known(self, builder)

        scope.set_attr(lang.dtype, "to_ir", to_ir)

    def by_slices(self: Any, operands: Any) -> Any:
        if len(operands) != 1 or self.axis is None or self.keep_dims or len(operands[0].shape) < 2:
            return plain_reduce(self, operands)
        kind, slices = operands[0].dtype, iter(_along(operands[0].handle.data, self.axis))
        total = self.to_tensor(next(slices), kind)
        for part in slices:
            total = self.combine_fn.fn(total, self.to_tensor(part, kind))
        return [total]

    interpreter._patch_lang_core, reductions.generic_reduce = with_fnuz, by_slices
    try:
        yield
    finally:
        interpreter._patch_lang_core, reductions.generic_reduce = plain_language, plain_reduce


def _along(data: Any, axis: int) -> Iterator[Any]:
    """The slices of a numpy array along ``axis``, in order."""
    for index in range(data.shape[axis]):
        yield data.take(index, axis=axis)
