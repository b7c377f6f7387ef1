"""LLVM types and their layout in memory on amdgcn.

Sizes and alignments are those of the target's data layout (pointers of 64 bits, those to shared and private
memory of 32). How it would fail silently: a struct whose padding is counted wrongly moves every later
field, and the kernel reads the neighbour of what it means.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.emulator.program import Type, UnsupportedOperation

SHARED, PRIVATE = 3, 5
"""Address spaces of a workgroup's memory and of a lane's own."""

FLOATS = {"half": ("f16", 16), "bfloat": ("bf16", 16), "float": ("f32", 32), "double": ("f64", 64)}


@dataclass(frozen=True)
class Kind:
    """``name`` int, float, pointer, vector, array, struct, void, label, metadata or opaque.

    ``bits`` of an int or float; ``space`` of a pointer; ``length`` of a vector or array with its one
    ``parts`` entry; fields of a struct in ``parts``; ``format`` half, bfloat, float or double.
    """

    name: str
    bits: int = 0
    space: int = 0
    length: int = 0
    parts: tuple[Kind, ...] = ()
    packed: bool = False
    format: str = ""

    def __str__(self) -> str:
        if self.name in ("vector", "array"):
            left, right = "<>" if self.name == "vector" else "[]"
            return f"{left}{self.length} x {self.parts[0]}{right}"
        if self.name == "struct":
            return "{" + ", ".join(map(str, self.parts)) + "}"
        return self.format or (f"i{self.bits}" if self.name == "int" else self.name)

    @property
    def element(self) -> Kind:
        return self.parts[0]

    @property
    def size(self) -> int:
        """Bytes that a value takes in an array: its storage, rounded up to its alignment."""
        if self.name == "array":
            return self.length * self.element.size
        if self.name == "struct":
            return self.offsets[-1]
        stored = -(-self._stored_bits // 8)
        return -(-stored // self.align) * self.align

    @property
    def _stored_bits(self) -> int:
        if self.name == "vector":
            return self.length * self.element._stored_bits
        if self.name == "pointer":
            return 32 if self.space in (2, SHARED, PRIVATE, 6) else 64
        if self.name in ("int", "float"):
            return self.bits
        raise UnsupportedOperation(f"size of type {self}")

    @property
    def align(self) -> int:
        """ABI alignment in bytes."""
        if self.name == "array":
            return self.element.align
        if self.name == "struct":
            return 1 if self.packed else max((part.align for part in self.parts), default=1)
        stored = -(-self._stored_bits // 8)
        power = 1 << (stored - 1).bit_length()
        if self.name == "int":
            return min(power, 8)
        return {6: 8}.get(stored, power) if self.name == "vector" else power

    @property
    def offsets(self) -> tuple[int, ...]:
        """Byte offset of each field of a struct, and last the struct's size."""
        at, found = 0, []
        for part in self.parts:
            align = 1 if self.packed else part.align
            at = -(-at // align) * align
            found.append(at)
            at += part.size
        return (*found, -(-at // self.align) * self.align)

    def field(self, index: int) -> tuple[Kind, int]:
        """Kind and byte offset of member ``index`` of an array, vector or struct."""
        if self.name == "struct":
            return self.parts[index], self.offsets[index]
        if self.name in ("array", "vector"):
            return self.element, index * self.element.size
        raise UnsupportedOperation(f"member {index} of type {self}")

    @property
    def type(self) -> Type:
        """As the emulator's programs type a value. Raises `UnsupportedOperation`."""
        if self.name == "int":
            return Type("int", self.bits)
        if self.name == "float":
            name, bits = FLOATS[self.format]
            return Type("float", bits, None, name)
        if self.name == "pointer":
            return Type("resource" if self.space == 8 else "pointer", 64, None, str(self.space))
        if self.name == "vector" and self.element.name in ("int", "float"):
            inner = self.element.type
            return Type(inner.kind, inner.bits, self.length, inner.name)
        if self.name in ("struct", "array"):
            parts = self.parts if self.name == "struct" else self.parts * self.length
            return Type("struct", 0, None, "", tuple(part.type for part in parts))
        raise UnsupportedOperation(f"value of type {self}")


VOID, LABEL, METADATA = Kind("void"), Kind("label"), Kind("metadata")
BOOL, I8, I32, I64 = (Kind("int", bits) for bits in (1, 8, 32, 64))
