"""Compiles one instance of a kernel template out of a source tree to LLVM IR for gfx950, device code only.

Contract: the tree is read where it is, never written and never copied; its device code is compiled as it
stands, with the flags of its own build that change results (fp32 denormals flush to zero, operations may
contract). Headers of HIP, hipCUB and rocPRIM are the shims of this package. Nothing is vectorised and
everything is inlined, so that the IR stays close to the source; locations name files relative to the tree.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.hip import caching, compilers, complaints, reading
from harness.hip.compilers import CannotCompile
from harness.hip.host_code import without_host_code

TARGET = "gfx950"
SHIMS = Path(__file__).parent / "shims"
INCLUDES = ("csrc/include",)

OPTIONS = (
    *("-x", "hip", f"--offload-arch={TARGET}", "--offload-device-only", "-nogpuinc", "-nogpulib"),
    *("-S", "-emit-llvm", "-std=c++20", "-O2", "-fno-vectorize", "-fno-slp-vectorize"),
    *("-mllvm", "-amdgpu-early-inline-all=true", "-mllvm", "-amdgpu-function-calls=false"),
    *("-fgpu-flush-denormals-to-zero", "-fuse-cuid=none", "-fno-discard-value-names"),
    *("-gline-tables-only", "-fdebug-compilation-dir=.", "-w", "-fno-color-diagnostics"),
    *("-D__HIPCC__", "-D__HIP_PLATFORM_AMD__=1", "-DUSE_ROCM=1", "-DENABLE_FP8", "-DENABLE_CK=0"),
)


@dataclass(frozen=True)
class Compiled:
    """A compiled kernel: ``ir`` (textual, one module), the name of its function in it, what a launch needs.

    ``lds`` is in bytes. ``facts`` say what made it: compiler, target, source, instance, key of the cache.
    """

    ir: str = field(repr=False)
    symbol: str
    parameters: tuple[reading.Parameter, ...]
    lds: int
    facts: Mapping[str, str]


def compile_kernel(
    tree: Path, source: str, instance: str, *, includes: Sequence[str] = INCLUDES, defines: Sequence[str] = ()
) -> Compiled:
    """Compiles ``instance`` (C++ text: ``space::kernel<arguments>``) of ``source``, a path in ``tree``.

    ``includes``: folders of the tree with its headers. ``defines``: macros as ``NAME`` or ``NAME=value``.
    Raises `CannotCompile` with one sentence: no compiler, no such source or kernel, or what is missing.
    """
    path = tree.resolve() / source
    if not path.is_file():
        raise CannotCompile(f"{source}: no such file in this tree")
    kernel = re.split(r"<", instance, maxsplit=1)[0].rsplit("::", 1)[-1].strip()
    seen = without_host_code(path.read_text())
    entry = f"\nvoid __harness_instance() {{ (void)&{instance}; }}\n"
    compiler = compilers.find()
    options = (*OPTIONS, *(f"-D{macro}" for macro in defines))
    folders = [tree.resolve() / place for place in includes]
    key = caching.key(
        [compiler.version, *options, *includes, source, seen, entry],
        [*(f for f in folders if f.is_dir()), SHIMS],
    )
    ir = caching.load(key)
    if ir is None:
        ir = _run(compiler, options, tree.resolve(), source, seen + entry, folders, kernel)
        caching.store(key, ir)
    symbol = reading.kernel_symbol(ir, kernel)
    if bodiless := reading.called(ir, symbol):
        raise CannotCompile(
            f"{source}: kernel {kernel} calls {bodiless[0]}, which has no body in device code"
        )
    parameters = reading.parameters(ir, symbol, reading.declarations(seen, kernel))
    facts = {
        "compiler": compiler.version,
        "target": TARGET,
        "source": source,
        "instance": instance,
        "key": key,
    }
    return Compiled(ir, symbol, parameters, reading.shared_bytes(ir, symbol), facts)


def _run(
    compiler: compilers.Compiler,
    options: Sequence[str],
    tree: Path,
    source: str,
    seen: str,
    folders: Sequence[Path],
    kernel: str,
) -> str:
    """One call of the compiler, which sees ``seen`` in the place of the source."""
    with tempfile.TemporaryDirectory(prefix="fp4-hip-") as place:
        view, overlay, out = (Path(place) / name for name in ("view.hip", "overlay.yaml", "kernel.ll"))
        view.write_text(seen)
        file = {"type": "file", "name": str(tree / source), "external-contents": str(view)}
        overlay.write_text(json.dumps({"version": 0, "use-external-names": False, "roots": [file]}))
        command = [
            *compiler.command,
            *options,
            *("-ivfsoverlay", str(overlay)),
            *(f"-ffile-prefix-map={tree}/=", f"-ffile-prefix-map={SHIMS}=shims"),
            *(word for folder in folders for word in ("-I", str(folder))),
            *("-isystem", str(SHIMS)),
            *compiler.headers,
            *("-o", str(out), str(tree / source)),
        ]
        ran = subprocess.run(command, capture_output=True, text=True)
        if ran.returncode or not out.is_file():
            said = (ran.stderr + ran.stdout).replace(f"{tree}/", "").replace(str(SHIMS), "shims")
            raise CannotCompile(complaints.sentence(source, seen.count("\n"), kernel, said))
        return out.read_text().replace(f"{tree}/", "").replace(f"{SHIMS}", "shims")
