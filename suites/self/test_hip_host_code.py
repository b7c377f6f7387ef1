"""Host functions lose their bodies before a device compilation, and nothing else changes."""

from __future__ import annotations

import pytest

from harness.hip.host_code import without_host_code
from suites.self import hip_tree

KEPT = {
    "a kernel": "template <int N> __global__ void k(float* p)\n{\n    if(N > 1) { p[0] = N; }\n}\n",
    "a device function": '__device__ inline float f(float x) { asm("{}" : "=v"(x)); return x; }\n',
    "a constexpr function": "constexpr int g(int n = 3) { return n; }\n",
    "a function behind a macro": "#define DEV static \\\n    __device__\nDEV int h() { return 1; }\n",
    "a function of opus": "OPUS_D int i() { return 1; }\n",
    "a class": "struct S : Base<(1 > 0)> { int a() { return 1; } };\n",
    "an enumeration": "enum class E : int { kOne = (1), kTwo };\n",
    "a variable": "static const Table table = make(1, {2, 3});\n",
    "a list": "int list[] = {f(1), 2};\n",
    "a macro with a launch": "#define RUN(x) \\\n    { k<x><<<1, 1>>>(p); }\n",
    "a using": "using F = decltype([](int) { return 1; });\n",
    "a brace in a literal": "__device__ char c() { return '{'; }\nconst char* s = R\"x(void f() {)x\";\n",
    "a brace in a comment": "// void f() {\n/* } */ __device__ int d() { return 1'000; } // {\n",
    "branches that each open": "#if A\n__device__ void e(int) {\n#else\n__device__ void e() {\n#endif\n}\n",
}
LOST = {
    "a function": ("void f(int n = 2)\n{\n    run({n});\n}\n", "void f(int n = 2)\n;\n\n\n"),
    "a function template": (
        "template <typename T, int N = (3 > 2)> inline T f(T t) { return t; }\n",
        "template <typename T, int N = (3 > 2)> inline T f(T t) ;\n",
    ),
    "a trailing return": (
        "auto f() -> std::map<int, int> { return {}; }\n",
        "auto f() -> std::map<int, int> ;\n",
    ),
    "a member out of its class": (
        "int S::operator==(int o) const { return 1; }\n",
        "int S::operator==(int o) const ;\n",
    ),
    "an instantiation": ("template int f<float>(\n    int);\nint x;\n", "\n\nint x;\n"),
    "what C++ is not named by": ('extern "C" {\nvoid f() { g(); }\n}\n', 'extern "C" {\nvoid f() ;\n}\n'),
    "nested namespaces": (
        "namespace a { namespace {\nint f() { return 1; }\n} }\n",
        "namespace a { namespace {\nint f() ;\n} }\n",
    ),
}


@pytest.mark.parametrize("what", KEPT)
@pytest.mark.parametrize(
    "around", ["{}", "namespace n {{\n{}}} // n\n", "void host() {{ k<<<1, 1>>>(); }}\n{}void other() {{}}\n"]
)
def test_device_code_and_declarations_stay_as_they_are(what: str, around: str) -> None:
    """Byte for byte, on their own, in a namespace, and between host functions."""
    seen = without_host_code(around.format(KEPT[what]))
    assert KEPT[what] in seen
    assert "void host() {" not in seen and "void other() {" not in seen


@pytest.mark.parametrize("what", LOST)
def test_host_bodies_go_and_lines_stay(what: str) -> None:
    text, expected = LOST[what]
    assert without_host_code(text) == expected
    assert text.count("\n") == expected.count("\n")


def test_a_whole_source_keeps_its_line_numbers_and_its_kernels() -> None:
    seen = without_host_code(hip_tree.KERNELS)
    before, after = hip_tree.KERNELS.splitlines(), seen.splitlines()
    changed = [line for line, other in zip(before, after, strict=True) if line != other]
    assert changed[0] == "{" and "own::plain_kernel<<<1, 64>>>" in changed[-2]
    assert all("__global__" not in line and "held" not in line for line in changed)
    assert "options" not in seen and "template void start_any" not in seen
