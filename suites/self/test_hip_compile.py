"""A named instance of a HIP kernel is compiled for gfx950 out of a tree, and what cannot be is named."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from harness.hip import caching, compilers, compiling, reading
from harness.hip.compilers import CannotCompile
from harness.hip.compiling import Compiled, compile_kernel
from suites.self import hip_tree

OTHER = "own::turn_kernel<float, own::Mode::kOther, 128>"


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """One cache for the tests of this run, none of the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "hip-cache"))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return hip_tree.plant(tmp_path)


@pytest.fixture
def turned(tree: Path) -> Compiled:
    return compile_kernel(tree, hip_tree.SOURCE, OTHER)


def _calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources that the compiler is called for from now on; each gives the IR of nothing."""
    called: list[str] = []

    def run(compiler: object, options: object, tree: Path, source: str, seen: str, *rest: object) -> str:
        called.append(seen)
        return "define protected amdgpu_kernel void @_Z11turn_kernelv() #0 {\n}\n"

    monkeypatch.setattr(compiling, "_run", run)
    return called


def test_parameters_are_named_placed_and_typed(turned: Compiled) -> None:
    """Each parameter lies at its natural alignment and carries the type that the source writes."""
    found = [(one.name, one.type, one.offset, one.bytes, one.declared) for one in turned.parameters]
    assert found == [
        ("in", "ptr addrspace(1)", 0, 8, "const T*"),
        ("out", "ptr addrspace(1)", 8, 8, "T*"),
        ("rows", "i32", 16, 4, "const int"),
        ("stride", "i64", 24, 8, "const long"),
        ("twice", "i1", 32, 1, "const bool"),
    ]
    assert turned.lds == 128 * 4 + 1
    assert turned.facts["instance"] == OTHER and turned.facts["target"] == "gfx950"
    assert turned.facts["compiler"] == compilers.find().version


def test_only_the_named_instance_is_compiled(turned: Compiled) -> None:
    """Instances that host code launches, and host code itself, are not in the module."""
    kernels = re.findall(r"^define [^\n]*amdgpu_kernel void @([^(]*)\(", turned.ir, re.M)
    assert [name for name in kernels if "turn_kernel" in name] == [turned.symbol]
    assert "start" not in turned.ir.split("attributes")[0]


def test_the_build_flags_that_change_results_are_in_force(turned: Compiled) -> None:
    """fp32 denormals flush, and operations may contract."""
    assert '"denormal-fp-math-f32"="preserve-sign,preserve-sign"' in turned.ir
    assert "fmul contract float" in turned.ir and "fadd contract float" in turned.ir


def test_locations_name_files_of_the_tree_and_no_place_of_this_machine(turned: Compiled) -> None:
    """The line of the store is the source's own line, although host code before and after it was left out."""
    files = re.findall(r'(?:source_|\b)filename(?: =|:) "([^"]*)"', turned.ir)
    assert hip_tree.SOURCE in files and not [name for name in files if name.startswith("/")]
    assert "shims/hip/device_sync.h" in files
    assert f"; ModuleID = '{hip_tree.SOURCE}'" in turned.ir
    line = 1 + next(at for at, text in enumerate(hip_tree.KERNELS.splitlines()) if "flag ? 2.0f" in text)
    store = re.search(
        r"store float [^\n]*addrspace\(1\)[^\n]*!dbg (!\d+)", reading.body(turned.ir, turned.symbol)
    )
    assert store is not None
    assert f"{store[1]} = !DILocation(line: {line}," in turned.ir


def test_a_kernel_without_template_reads_the_sizes_of_the_launch_from_the_hidden_arguments(
    tree: Path,
) -> None:
    compiled = compile_kernel(tree, hip_tree.SOURCE, "own::plain_kernel")
    assert [one.name for one in compiled.parameters] == ["out", "count"]
    assert compiled.lds == 0
    text = reading.body(compiled.ir, compiled.symbol)
    assert "llvm.amdgcn.implicitarg.ptr" in text
    assert text.count("fmul contract float") == 2, "two neighbours are multiplied one by one, as written"


def test_the_same_content_is_compiled_once(
    tree: Path, turned: Compiled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere and with other host code, the kept IR serves."""
    called = _calls(monkeypatch)
    assert compile_kernel(tree, hip_tree.SOURCE, OTHER) == turned
    host = hip_tree.KERNELS.replace("torch::empty({1, 2}, options)", "torch::zeros({2, 1}, options)")
    assert compile_kernel(hip_tree.plant(tmp_path / "copy", host), hip_tree.SOURCE, OTHER) == turned
    assert called == []


@pytest.mark.parametrize("changed", ["source", "header", "shim", "macro", "instance", "compiler"])
def test_another_byte_of_what_a_kernel_is_made_from_is_compiled_anew(
    tree: Path, turned: Compiled, changed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = _calls(monkeypatch)
    instance = OTHER
    defines: tuple[str, ...] = ()
    if changed == "source":
        hip_tree.plant(tree, hip_tree.KERNELS.replace("+ 1.0f", "+ 1.5f"))
    elif changed == "header":
        hip_tree.plant(tree, header=hip_tree.OWN.replace("3.0f", "4.0f"))
    elif changed == "shim":
        (tmp_path / "shims").mkdir()
        monkeypatch.setattr(compiling, "SHIMS", tmp_path / "shims")
    elif changed == "macro":
        defines = ("NEW=1",)
    elif changed == "instance":
        instance = OTHER.replace("128", "64")
    else:
        found = compilers.find()
        newer = compilers.Compiler(f"{found.version} newer", found.command, found.headers)
        monkeypatch.setattr(compilers, "find", lambda: newer)
    compile_kernel(tree, hip_tree.SOURCE, instance, defines=defines)
    assert len(called) == 1


def test_a_cache_that_cannot_be_written_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    caching.store("name", "text")
    assert caching.load("name") is None


REFUSED = {
    "no such source": ("csrc/kernels/none.cu", OTHER, "", r"csrc/kernels/none.cu: no such file in this tree"),
    "no such kernel": (
        hip_tree.SOURCE,
        "own::none_kernel<float>",
        "",
        r"csrc/kernels/own.cu of this tree has no kernel none_kernel: no member named 'none_kernel' in .*",
    ),
    "other template arguments": (
        hip_tree.SOURCE,
        "own::turn_kernel<float, 128>",
        "",
        r"csrc/kernels/own.cu: kernel turn_kernel of this tree takes other template arguments: .*",
    ),
    "a header": (
        hip_tree.SOURCE,
        OTHER,
        "#include <ck_tile/core.hpp>\n",
        r"csrc/kernels/own.cu:1: header ck_tile/core.hpp is missing: git submodule update --init .*",
    ),
    "a symbol": (
        hip_tree.SOURCE,
        OTHER,
        "#include <hip/keywords.h>\n__device__ int lane() { return __not_there(); }\n",
        r"csrc/kernels/own.cu:2: symbol __not_there is missing .*: harness/hip/shims has none of that name",
    ),
    "a body": (
        hip_tree.SOURCE,
        "own::calling_kernel",
        "",
        r"csrc/kernels/own.cu: kernel calling_kernel calls .*promised.*, which has no body in device code",
    ),
}


@pytest.mark.parametrize("lacking", REFUSED)
def test_what_is_missing_is_named_in_one_sentence(tmp_path: Path, lacking: str) -> None:
    source, instance, before, sentence = REFUSED[lacking]
    tree = hip_tree.plant(tmp_path, before + hip_tree.KERNELS)
    with pytest.raises(CannotCompile) as refusal:
        compile_kernel(tree, source, instance)
    assert re.fullmatch(sentence, str(refusal.value))


def _without_compilers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ROCM_PATH", "HIP_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(compilers, "DEFAULT_ROOT", Path("nowhere"))


def test_a_machine_without_compiler_gets_one_sentence(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _without_compilers(monkeypatch)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(compilers, "find", compilers.find.__wrapped__)
    with pytest.raises(CannotCompile) as refusal:
        compile_kernel(tree, hip_tree.SOURCE, OTHER)
    assert str(refusal.value) == (
        "no compiler for HIP kernels: there is no ROCm installation and no package ziglang "
        "(pip install 'fp4-indexer-harness[hip]')"
    )


@pytest.mark.parametrize("variable", ["ROCM_PATH", "HIP_PATH"])
def test_the_clang_of_a_rocm_installation_goes_first(
    tmp_path: Path, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _without_compilers(monkeypatch)
    clang = tmp_path / "llvm/bin/clang++"
    clang.parent.mkdir(parents=True)
    clang.write_text("#!/bin/sh\necho 'AMD clang version 20.0.0git (roc-7.0.0)'\n")
    clang.chmod(0o755)
    monkeypatch.setenv(variable, str(tmp_path))
    found = compilers.find.__wrapped__()
    assert found == compilers.Compiler("AMD clang version 20.0.0git (roc-7.0.0)", (str(clang),), ())


def test_a_compiler_that_is_no_clang_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _without_compilers(monkeypatch)
    clang = tmp_path / "llvm/bin/clang++"
    clang.parent.mkdir(parents=True)
    clang.write_text("#!/bin/sh\necho 'g++ 12'\n")
    clang.chmod(0o755)
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    with pytest.raises(CannotCompile, match="is no clang, it says: g"):
        compilers.find.__wrapped__()
