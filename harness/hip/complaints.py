"""What a compiler's error messages mean for the user: which header or symbol is missing, and what helps.

Contract: one sentence from clang's output, with the place in the source tree. The first error decides: those
after it often follow from it. A message that nobody foresaw is handed on as clang words it.
"""

from __future__ import annotations

import re

from harness.hip.compilers import INSTALL

_ERROR = re.compile(r"^(?P<place>[^\n]*?:\d+):\d+: (?:fatal )?error: (?P<what>[^\n]*)", re.M)
_HEADER = re.compile(r"'([^']+)' file not found")
_SYMBOL = re.compile(
    r"(?:use of undeclared identifier|unknown type name|no type named|no template named|no member named|"
    r"no matching function for call to) "
    r"'([^']+)'"
)
_PROVIDERS = (
    (re.compile(r"^ck(?:_tile)?/"), "git submodule update --init 3rdparty/composable_kernel in that tree"),
    (re.compile(r"^(?:torch|ATen|c10|pybind11)/"), "a tree whose kernels do without torch is needed"),
    (re.compile(r"^[a-z_]+(?:\.h)?$"), f"the C++ standard headers: install g++, or {INSTALL}"),
)
_NO_SHIM = "harness/hip/shims has none of that name"


def sentence(source: str, entry_line: int, kernel: str, output: str) -> str:
    """What ``output`` of compiling ``source`` says; ``entry_line`` is the line that names ``kernel``."""
    if "unknown target CPU" in output or "unsupported HIP gpu architecture" in output:
        return f"the compiler is too old for this GPU: install ROCm 7 or newer, or remove it and {INSTALL}"
    match = _ERROR.search(output)
    if match is None:
        lines = [line for line in output.splitlines() if line.strip()]
        return f"{source}: the compiler failed: {lines[-1] if lines else 'it said nothing'}"
    place, what = match["place"], match["what"]
    if header := _HEADER.search(what):
        return f"{place}: header {header[1]} is missing: {_provider(header[1])}"
    if place == f"{source}:{entry_line}":
        if "no member named" in what or "undeclared" in what:
            return f"{source} of this tree has no kernel {kernel}: {what}"
        return f"{source}: kernel {kernel} of this tree takes other template arguments: {what}"
    if symbol := _SYMBOL.search(what):
        return f"{place}: symbol {symbol[1]} is missing ({what}): {_NO_SHIM}"
    return f"{place}: {what}"


def _provider(header: str) -> str:
    return next((text for pattern, text in _PROVIDERS if pattern.match(header)), _NO_SHIM)
