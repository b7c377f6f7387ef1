"""Plugs the emulator into FlyDSL: compile backend, device runtime and tensor arguments.

``install()`` registers backend and runtime under the name ``emulator`` and selects them, so
that unmodified host functions run end to end on CPU (or CUDA) tensors::

    from harness.emulator import backend
    backend.install()                        # before the first launch in this process
    with backend.session(labels={"kv": kv}, defined={"kv": mask}, expected={"out": cells}) as seen:
        host_function(out, q, kv, ..., stream=0)
    seen.findings, seen.facts

Lowering stops at structured IR. Seams used, all in FlyDSL 0.5.0: the backend and runtime
registries, the registered argument class of torch.Tensor (it tells us which tensor an
address belongs to), and ``CompiledArtifact._get_func_exe`` (what turns a compiled module
into a callable). A FlyDSL without them is refused by ``install``, not patched around.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

import torch
from torch import Tensor

from harness.emulator.found import Findings
from harness.emulator.program import UnsupportedOperation
from harness.findings import Finding

NAME = "emulator"
ARCH = "gfx950"
WAVE_SIZE = 64


@dataclass(slots=True)
class Session:
    """What one session declares about tensors, and what was seen.

    ``labels`` name -> tensor; ``order`` names of a host function's tensor arguments, for tensors
    it allocates itself; ``defined`` and ``expected`` name -> bool tensor of the tensor's shape.
    """

    labels: Mapping[str, Tensor] = field(default_factory=dict)
    order: Sequence[str] = ()
    defined: Mapping[str, Tensor] = field(default_factory=dict)
    expected: Mapping[str, Tensor] = field(default_factory=dict)
    roots: Sequence[str] = ()
    found: Findings = field(default_factory=Findings)
    launches: list[dict[str, Any]] = field(default_factory=list)

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.found.all()

    @property
    def facts(self) -> dict[str, Any]:
        """Totals: launches, matrix results and how many were beyond the exact budget."""
        totals = {
            key: sum(launch[key] for launch in self.launches) for key in ("matrix_results", "over_budget")
        }
        return {
            "launches": len(self.launches),
            "kernels": [launch["kernel"] for launch in self.launches],
            **totals,
        }


_state = threading.local()
_installed = False


def current() -> Session:
    """The innermost open session of this thread; a throw-away one outside of any."""
    stack = getattr(_state, "stack", None)
    return stack[-1] if stack else Session()


@contextlib.contextmanager
def session(
    labels: Mapping[str, Tensor] | None = None,
    order: Sequence[str] = (),
    defined: Mapping[str, Tensor] | None = None,
    expected: Mapping[str, Tensor] | None = None,
    roots: Sequence[str] = (),
) -> Iterator[Session]:
    """Collect what launches of this thread do. Names with a mask must be in ``labels`` or ``order``."""
    opened = Session(labels or {}, order, defined or {}, expected or {}, roots)
    for name in (*opened.defined, *opened.expected):
        if name not in opened.labels and name not in opened.order:
            raise ValueError(f"{name!r} has a mask but no tensor in labels or order")
    stack = _state.__dict__.setdefault("stack", [])
    stack.append(opened)
    try:
        yield opened
    finally:
        stack.pop()


def prepare_environment() -> None:
    """Environment FlyDSL reads when it is imported or first used; call before importing flydsl."""
    os.environ["FLYDSL_COMPILE_BACKEND"] = NAME
    os.environ["FLYDSL_RUNTIME_KIND"] = NAME
    os.environ["FLYDSL_GPU_ARCH"] = ARCH
    os.environ["FLYDSL_RUNTIME_ENABLE_CACHE"] = "0"


def install() -> None:
    """Register and select the emulator in this process (idempotent).

    Raises `UnsupportedOperation` when the installed FlyDSL lacks one of the seams.
    """
    global _installed
    if _installed:
        return
    prepare_environment()
    try:
        _register()
    except (ImportError, AttributeError) as problem:
        version = metadata.version("flydsl") if "flydsl" in sys.modules else "unknown"
        raise UnsupportedOperation(f"FlyDSL {version}: {problem}") from problem
    _installed = True


def _register() -> None:
    from flydsl.compiler import backends, jit_argument, jit_executor
    from flydsl.compiler.backends.rocm import RocmBackend
    from flydsl.runtime import device_runtime

    from harness.emulator.launching import executable

    class EmulatorBackend(RocmBackend):
        """ROCm's lowering for gfx950, stopped at structured IR."""

        @staticmethod
        def supports_target(target: backends.GPUTarget) -> bool:
            return bool(target.backend == NAME)

        @staticmethod
        def detect_target() -> backends.GPUTarget:
            return backends.GPUTarget(backend=NAME, arch=ARCH, warp_size=WAVE_SIZE)

        @classmethod
        def make_target(cls, arch: str) -> backends.GPUTarget:
            return backends.GPUTarget(backend=NAME, arch=arch, warp_size=WAVE_SIZE)

        def pipeline_fragments(self, *, compile_hints: dict[str, Any]) -> list[str]:
            if compile_hints.get("unsafe_fp_math"):
                # It reaches the compiler beside the program, so no operation would show it.
                raise UnsupportedOperation("compile hint unsafe_fp_math")
            fragments, _ = self._pipeline_parts(compile_hints=compile_hints)
            lowered = fragments.index("convert-fly-to-rocdl") + 1
            return [*fragments[:lowered], "canonicalize"]

        def toolkit_fingerprint(self) -> str:
            return "none"

    class EmulatorRuntime(device_runtime.DeviceRuntime):
        kind = NAME

        def device_count(self) -> int:
            return max(1, torch.cuda.device_count())

        def current_device_id(self) -> int:
            return 0

    class TensorArgument(jit_argument.TorchTensorJitArg):
        """A torch.Tensor argument that tells the emulator which tensor fills which slot."""

        def __c_abi_spec__(self) -> list[tuple[Any, Callable[[Any, Any], None]]]:
            (pointer_type, fill), *rest = super().__c_abi_spec__()

            def noting(argument: Any, slot: Any) -> None:
                fill(argument, slot)
                _filled()[ctypes.addressof(slot)] = getattr(argument, "torch_tensor", argument)

            return [(pointer_type, noting), *rest]

    def _get_func_exe(artifact: Any) -> Callable[[Any], None]:
        if artifact._func_exe is None:
            artifact._func_exe = executable(artifact)
        function: Callable[[Any], None] = artifact._func_exe
        return function

    for owner, name in ((jit_executor.CompiledArtifact, "_get_func_exe"), (RocmBackend, "_pipeline_parts")):
        getattr(owner, name)
    backends.register_backend(NAME, EmulatorBackend, force=True)
    device_runtime.register_device_runtime(EmulatorRuntime, kind=NAME, force=True)
    device_runtime.register_compile_runtime_mapping(NAME, NAME)
    registry = jit_argument.JitArgumentRegistry
    _, dsl_type = registry.registry.pop(torch.Tensor)
    registry.register(torch.Tensor, dsl_type=dsl_type)(TensorArgument)
    jit_executor.CompiledArtifact._get_func_exe = _get_func_exe


def _filled() -> dict[int, Tensor]:
    """Tensor last written to the argument slot at each address (this thread)."""
    slots: dict[int, Tensor] = _state.__dict__.setdefault("slots", {})
    return slots


def take_filled() -> dict[int, Tensor]:
    """The slots filled since the last launch; forgotten here so that no tensor is kept alive."""
    slots = dict(_filled())
    _filled().clear()
    return slots
