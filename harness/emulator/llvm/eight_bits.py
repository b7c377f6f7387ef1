"""Which eight-bit formats a target's conversions mean: the same instruction, two encodings.

gfx942 reads and writes the FNUZ formats (one NaN, 0x80, no negative zero, E4M3 up to 240), gfx950 those of
OCP (E4M3FN up to 448). The kernel's ``"target-cpu"`` decides. How this would fail silently: code for code FN
is worth twice FNUZ, so a wrong choice leaves the order of all values as it was; a target that is not listed
is therefore refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.emulator.llvm.translate import Builder

SUFFIX: Mapping[str, str] = {"gfx942": "_fnuz", "gfx950": ""}
"""Target to what its formats' names end in (`harness.emulator.conversions.EIGHT`)."""


def format_of(builder: Builder, name: str) -> str:
    """The format that ``name`` (fp8 or bf8) is on the kernel's target. Raises `UnsupportedOperation`."""
    target = builder.function.target
    if target not in SUFFIX:
        known = " and ".join(SUFFIX)
        raise builder.refuse(f"{name} conversion for target-cpu {target or '(none)'}, known are {known}")
    return name + SUFFIX[target]
