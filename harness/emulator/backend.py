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

import ctypes
import os
import sys
from collections.abc import Callable
from importlib import metadata
from typing import Any

import torch

from harness.emulator.program import UnsupportedOperation
from harness.emulator.sessions import filled, session

__all__ = ["ARCH", "NAME", "install", "prepare_environment", "session"]

NAME = "emulator"
ARCH = "gfx950"
WAVE_SIZE = 64


_installed = False


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
                filled()[ctypes.addressof(slot)] = getattr(argument, "torch_tensor", argument)

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
