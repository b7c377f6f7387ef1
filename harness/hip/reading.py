"""What LLVM IR says about one kernel: its symbol, its parameters and where they lie, its shared memory.

Contract: parameters are laid out as the AMDGPU calling convention does, each at its natural alignment in the
order of the signature; a type whose layout is not certain is refused by name rather than guessed. A function
that is called is named by `called`: all with a body are inlined, so an executor would have to invent it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from harness.hip.compilers import CannotCompile

SHARED = 3
_SCALARS = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "half": 2, "bfloat": 2, "float": 4, "double": 8}
_NAME = r'"[^"]+"|[\w.$-]+'
_DEFINITION = re.compile(
    rf"^define [^\n]*?amdgpu_kernel void @(?P<symbol>{_NAME})\((?P<parameters>.*)\) ", re.M
)
_PARAMETER = re.compile(rf"(?P<type>ptr addrspace\(\d\)|ptr|\w+)(?P<attributes>.*?) %(?P<name>{_NAME})$")
_SHARED_GLOBAL = re.compile(
    rf"^@({_NAME}) = [^\n]*?addrspace\({SHARED}\) global (.*?), (?:comdat, )?align (\d+)$", re.M
)
_STRUCT = re.compile(rf"^(%(?:{_NAME})) = type (.*)$", re.M)


@dataclass(frozen=True)
class Parameter:
    """One kernel parameter: its name in the source, its LLVM type, its place in the argument buffer (bytes).

    ``declared``: its C++ type as the source writes it, since a pointer's LLVM type does not say to what.
    """

    name: str
    type: str
    offset: int
    bytes: int
    declared: str


def kernel_symbol(ir: str, kernel: str) -> str:
    """The mangled name of the one instance of function ``kernel`` in ``ir``."""
    name = re.compile(rf"(?<!\d){len(kernel)}{re.escape(kernel)}|^{re.escape(kernel)}$")
    found = [match["symbol"] for match in _DEFINITION.finditer(ir) if name.search(match["symbol"])]
    if len(found) != 1:
        raise CannotCompile(f"kernel {kernel}: {len(found)} instances in the compiled module, 1 is wanted")
    return found[0]


def parameters(ir: str, symbol: str, declared: Mapping[str, str]) -> tuple[Parameter, ...]:
    """The parameters of kernel ``symbol`` in order, each at its natural alignment.

    ``declared``: C++ types by name, as `declarations` reads them.
    """
    text = next(match["parameters"] for match in _DEFINITION.finditer(ir) if match["symbol"] == symbol)
    placed: list[Parameter] = []
    end = 0
    for one in _split(text):
        match = _PARAMETER.match(one)
        if (
            match is None
            or "byref" in one
            or not (match["type"] in _SCALARS or match["type"].startswith("ptr"))
        ):
            raise CannotCompile(f"kernel {symbol}: no layout is known for parameter {one}")
        size = _SCALARS.get(match["type"], 8)
        offset = -(-end // size) * size
        name = match["name"].strip('"').removesuffix(".coerce")
        placed.append(Parameter(name, match["type"], offset, size, declared.get(name, "")))
        end = offset + size
    return tuple(placed)


def declarations(source: str, kernel: str) -> dict[str, str]:
    """C++ types of the parameters of ``kernel`` by name, out of the text that defines it."""
    code = re.sub(r"//[^\n]*|/\*.*?\*/", " ", source, flags=re.S)
    match = re.search(rf"__global__[^;{{}}]*?\b{re.escape(kernel)}\s*\(([^;{{}}]*)\)\s*\{{", code)
    types: dict[str, str] = {}
    for one in _split(match[1]) if match else ():
        words = re.sub(r"\b__restrict__\b", " ", one.split("=")[0])
        if found := re.fullmatch(r"(.*?)(\w+)", words.strip(), re.S):
            types[found[2]] = " ".join(found[1].split())
    return types


def template(source: str, kernel: str) -> tuple[str, ...]:
    """Names of the template parameters of ``kernel``, out of the text that defines it.

    Raises `CannotCompile` where the text has no such template.
    """
    code = re.sub(r"//[^\n]*|/\*.*?\*/", " ", source, flags=re.S)
    match = re.search(rf"template\s*<([^;{{}}()]*)>\s*__global__[^;{{}}()]*\b{re.escape(kernel)}\s*\(", code)
    if match is None:
        raise CannotCompile(f"this tree has no kernel template {kernel}")
    return tuple(re.split(r"[\s&*]", one.split("=")[0].strip())[-1] for one in _split(match[1]))


def body(ir: str, symbol: str) -> str:
    """The text of function ``symbol`` in ``ir``, from its head to its closing brace."""
    start = next(match.start() for match in _DEFINITION.finditer(ir) if match["symbol"] == symbol)
    return ir[start : ir.index("\n}\n", start)]


def shared_bytes(ir: str, symbol: str) -> int:
    """Bytes of shared memory of the globals that kernel ``symbol`` names, each at its alignment."""
    structs, text = dict(_STRUCT.findall(ir)), body(ir, symbol)
    named = [
        found
        for found in _SHARED_GLOBAL.findall(ir)
        if re.search(rf"@{re.escape(found[0])}(?![\w.$-])", text)
    ]
    end = 0
    for _, declared, align in sorted(named, key=lambda found: -int(found[2])):
        type_ = re.sub(r" (?:undef|poison|zeroinitializer)$", "", declared)
        end = -(-end // int(align)) * int(align) + _layout(type_, structs)[0]
    return end


def called(ir: str, symbol: str) -> list[str]:
    """Functions that kernel ``symbol`` calls, apart from the compiler's own."""
    names = re.findall(rf"\bcall\b[^\n]*?@({_NAME})\(", body(ir, symbol))
    return [name for name in names if not name.startswith("llvm.")]


def _split(text: str) -> list[str]:
    """The parts of a list at its outer commas."""
    parts, depth, start = list[str](), 0, 0
    for at, character in enumerate(text):
        depth += (character in "([{<") - (character in ")]}>")
        if character == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def _layout(type_: str, structs: Mapping[str, str]) -> tuple[int, int]:
    """Size and alignment of a type in bytes."""
    type_ = type_.strip()
    if type_ in _SCALARS:
        return _SCALARS[type_], _SCALARS[type_]
    if match := re.fullmatch(r"ptr addrspace\((\d)\)", type_):
        return (4, 4) if int(match[1]) == SHARED else (8, 8)
    if match := re.fullmatch(r"([\[<])(\d+) x (.*)[\]>]", type_, re.S):
        size, align = _layout(match[3], structs)
        total = int(match[2]) * size
        return total, align if match[1] == "[" else total
    if type_ in structs:
        return _layout(structs[type_], structs)
    if match := re.fullmatch(r"(<?)\{(.*)\}>?", type_, re.S):
        end, widest = 0, 1
        for member in _split(match[2]):
            size, align = _layout(member, structs)
            align = 1 if match[1] else align
            end, widest = -(-end // align) * align + size, max(widest, align)
        return -(-end // widest) * widest, widest
    raise CannotCompile(f"shared memory of type {type_}: its size is not known")
