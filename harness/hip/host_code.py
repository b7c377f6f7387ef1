"""A source file as its device compilation needs it: host functions keep their signature and lose their body.

Contract: lines keep their numbers, nothing of a device function, class, variable or macro changes, and no
function is instantiated that the caller did not name. Host launchers instantiate every variant of every
kernel, and drag in torch; neither is wanted to compile one kernel. What would fail silently is a device
function taken for a host one, so it cannot: the kernel then calls a function without a body, which
`compiling.compile_kernel` refuses by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"""(?P<skip>//[^\n]*|/\*.*?\*/)
      | (?P<string>R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
      | (?P<directive>^[ \t]*\#(?:\\\r?\n|/\*.*?\*/|[^\n])*)
      | (?P<word>\w[\w']*)
      | (?P<mark_of_scope>[{};])""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_DEVICE = re.compile(r"\b(?:__device__|__global__|constexpr|consteval)\b")
_NO_FUNCTION = re.compile(
    r"\s*(?:typedef\b|using\b|(?:(?:class|struct|union|enum)\b(?!.*\)\s*(?:const|noexcept|\s)*$)))", re.S
)
_TRANSPARENT = re.compile(r"\s*(?:inline\s+)?namespace\b|\s*extern\s*\"\"\s*$")
_INSTANTIATION = re.compile(r"\s*(?:extern\s+)?template\b\s*(?!\s*<)")


def _tokens(text: str) -> Iterator[tuple[str, int, int]]:
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        if kind == "mark":
            kind = "string"
        yield match.group() if kind == "mark_of_scope" else kind, match.start(), match.end()


def _blank(text: str) -> str:
    """Only the line ends of ``text``."""
    return re.sub(r"[^\n]", "", text)


def _without_template_heads(text: str) -> str:
    """A declaration without its ``template <...>`` heads."""
    while match := re.match(r"\s*template\s*<", text):
        depth, round_, at = 1, 0, match.end()
        while at < len(text) and depth:
            character = text[at]
            round_ += (character == "(") - (character == ")")
            if not round_:
                depth += (character == "<") - (character == ">" and text[at - 1] != "-")
            at += 1
        text = text[at:]
    return text


def _without_parentheses(text: str) -> str:
    while (shorter := re.sub(r"\([^()]*\)", " ", text)) != text:
        text = shorter
    return text


def _is_host_function(declaration: str, device_words: re.Pattern[str]) -> bool:
    """Whether what stands before a brace is the head of a function that no device code can call."""
    head = _without_template_heads(declaration)
    if device_words.search(declaration) or "(" not in head or _NO_FUNCTION.match(head):
        return False
    return "=" not in re.sub(r"operator\s*\W+", "operator", _without_parentheses(head))


class _Scopes:
    """Braces that are open, and where the declaration began that is being read."""

    def __init__(self) -> None:
        self.open: list[tuple[str, int]] = []
        self.branches: list[int] = []
        self.start = 0

    @property
    def outside(self) -> bool:
        return all(kind == "namespace" for kind, _ in self.open)

    def directive(self, text: str) -> None:
        """The branches of a conditional are alternatives: each begins with the braces open at its ``#if``."""
        word = text.strip().lstrip("#").split(None, 1)[:1]
        if word and word[0].startswith("if"):
            self.branches.append(len(self.open))
        elif word and word[0].startswith("el") and self.branches:
            del self.open[self.branches[-1] :]
        elif word and word[0].startswith("endif") and self.branches:
            self.branches.pop()


def _device_words(text: str) -> re.Pattern[str]:
    """The words that mark device code: HIP's own, and the file's macros that end in one of them."""
    lines = text.replace("\\\n", " ")
    macros = re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[^\n]*__device__", lines, re.M)
    return re.compile(
        "|".join([_DEVICE.pattern, r"\bOPUS_(?:H_)?D(?:_EXTERN)?\b", *(rf"\b{m}\b" for m in macros)])
    )


def without_host_code(text: str) -> str:
    """``text`` without the bodies of its host functions and without explicit instantiations."""
    words = _device_words(text)
    scopes, code, edits = _Scopes(), list[str](), list[tuple[int, int, str]]()
    at = 0
    for kind, start, end in _tokens(text):
        code.append(text[at:start])
        at = end
        if kind == "word":
            code.append(text[start:end])
        elif kind == "string":
            code.append('""')
        elif kind == "directive":
            scopes.directive(text[start:end])
            code.append("\n")
        elif kind == "{":
            if scopes.outside:
                head = "".join(code)
                what = (
                    "namespace"
                    if _TRANSPARENT.match(head)
                    else "host"
                    if _is_host_function(head, words)
                    else "other"
                )
                scopes.open.append((what, start))
                code.clear()
                scopes.start = end
            else:
                scopes.open.append(("inner", start))
        elif kind == "}" and scopes.open:
            what, opened = scopes.open.pop()
            if what == "host":
                edits.append((opened, end, ";"))
            if scopes.outside:
                code.clear()
                scopes.start = end
        elif kind == ";" and scopes.outside:
            if _INSTANTIATION.match("".join(code)):
                edits.append((scopes.start, end, ""))
            code.clear()
            scopes.start = end
    return _apply(text, edits)


def _apply(text: str, edits: list[tuple[int, int, str]]) -> str:
    kept, at = [], 0
    for start, end, instead in sorted(edits):
        kept += [text[at:start], instead, _blank(text[start:end])]
        at = end
    return "".join([*kept, text[at:]])
