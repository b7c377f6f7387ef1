"""What stands for a thing that cannot be had here: any use of it says what is missing.

Loading one function of a serving engine meets names that need a GPU, a server or a package that is
not installed. A stand-in that quietly returned something would make up what the function under
test computes, so this one raises on every use, and names itself.
"""

from __future__ import annotations

from typing import Any, NoReturn

from harness.paths.base import Unsupported


class Absent:
    """Raises `Unsupported` with ``reason`` (one sentence) when it is called, read or compared."""

    reason: str

    def __init__(self, reason: str) -> None:
        object.__setattr__(self, "reason", reason)

    def __repr__(self) -> str:
        return f"<absent: {self.reason}>"


def _refuse(self: Absent, *_arguments: Any, **_keywords: Any) -> NoReturn:
    raise Unsupported(self.reason)


_USES = (
    "call getattr setattr delattr getitem setitem delitem contains iter next len bool int float index str "
    "format eq ne lt le gt ge hash add radd sub rsub mul rmul matmul rmatmul truediv rtruediv floordiv "
    "rfloordiv mod rmod pow rpow and rand or ror xor rxor lshift rlshift rshift rrshift neg pos abs invert "
    "enter exit mro_entries instancecheck subclasscheck"
)
for _use in _USES.split():
    setattr(Absent, f"__{_use}__", _refuse)


def reason_of(value: Any) -> str | None:
    """Why ``value`` is absent; None for everything that is there."""
    return object.__getattribute__(value, "reason") if type(value) is Absent else None
