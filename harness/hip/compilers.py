"""The compiler of HIP kernels: the clang of a ROCm installation, else the one in the package `ziglang`.

Contract: `find` names one compiler that can be called, with what it needs to see the C++ headers, or raises
`CannotCompile` with one sentence. Nothing of a machine is assumed but what is checked here. A compiler that
lowers differently would change what is executed without a sign of it, so its version is part of every cache
key and of the facts of a compiled kernel.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

INSTALL = "pip install 'fp4-indexer-harness[hip]'"

_ROOTS = ("ROCM_PATH", "HIP_PATH")
DEFAULT_ROOT = Path("/opt/rocm")
_PLACES = ("llvm/bin/clang++", "lib/llvm/bin/clang++")

# What zig tells its own libc++ when it compiles for Linux with glibc.
_LIBCXX = (
    "-D_LIBCPP_ABI_VERSION=1",
    "-D_LIBCPP_ABI_NAMESPACE=__1",
    "-D_LIBCPP_HAS_THREADS=1",
    "-D_LIBCPP_HAS_MONOTONIC_CLOCK",
    "-D_LIBCPP_HAS_TERMINAL",
    "-D_LIBCPP_HAS_MUSL_LIBC=0",
    "-D_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS=0",
    "-D_LIBCPP_HAS_FILESYSTEM=1",
    "-D_LIBCPP_HAS_RANDOM_DEVICE",
    "-D_LIBCPP_HAS_LOCALIZATION",
    "-D_LIBCPP_HAS_UNICODE",
    "-D_LIBCPP_HAS_WIDE_CHARACTERS",
    "-D_LIBCPP_HAS_NO_STD_MODULES",
    "-D_LIBCPP_HAS_TIME_ZONE_DATABASE",
    "-D_LIBCPP_PSTL_BACKEND_SERIAL",
    "-D_LIBCPP_HARDENING_MODE=_LIBCPP_HARDENING_MODE_NONE",
    "-D_LIBCPP_ASSERTION_SEMANTIC_DEFAULT=_LIBCPP_ASSERTION_SEMANTIC_IGNORE",
    "-D__GLIBC_MINOR__=31",
)
_ZIG_HEADERS = (
    "libcxx/include",
    "include",
    "libc/include/x86-linux-gnu",
    "libc/include/generic-glibc",
    "libc/include/x86-linux-any",
    "libc/include/any-linux-any",
)


class CannotCompile(Exception):
    """A kernel cannot be compiled here; the message is one sentence: what is missing and what helps."""


@dataclass(frozen=True)
class Compiler:
    """How clang is called: ``command``, then ``headers`` (where the C and C++ headers are), then the rest."""

    version: str
    command: tuple[str, ...]
    headers: tuple[str, ...]


@functools.cache
def find() -> Compiler:
    """The compiler of this machine. Raises `CannotCompile` where there is none."""
    rocm = next((found for root in _roots() for place in _PLACES if (found := root / place).is_file()), None)
    if rocm is not None:
        return Compiler(_version([str(rocm)]), (str(rocm),), ())
    spec = importlib.util.find_spec("ziglang")
    if spec is None or spec.origin is None:
        raise CannotCompile(
            f"no compiler for HIP kernels: there is no ROCm installation and no package ziglang ({INSTALL})"
        )
    library = Path(spec.origin).parent / "lib"
    command = (sys.executable, "-m", "ziglang", "clang")
    headers = [word for place in _ZIG_HEADERS for word in ("-isystem", str(library / place))]
    target = ("--target=x86_64-linux-gnu", "-nostdinc")
    return Compiler(f"{_version(command)} (ziglang)", command, (*target, *_LIBCXX, *headers))


def _roots() -> list[Path]:
    named = [Path(os.environ[name]) for name in _ROOTS if os.environ.get(name)]
    return [*named, *(root.parent for root in named), DEFAULT_ROOT]


def _version(command: list[str] | tuple[str, ...]) -> str:
    try:
        text = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as failure:
        raise CannotCompile(f"compiler {command[0]} does not answer --version: {failure}") from None
    line = text.strip().splitlines()[0] if text.strip() else "nothing"
    if "clang version" not in line:
        raise CannotCompile(f"compiler {command[0]} is no clang, it says: {line}")
    return line
