"""The one door to cosmic-ray: every fault that its operators make of a source text.

Contract: a fault is named by line, operator and number, and depends on the text alone. By rule, not one by
one, faults are left out that touch nothing but what people read (annotations, the texts of errors and of
assertions, calls of a logger, of ``warnings.warn`` and of ``print``), and those whose text is no program.
Of the operators that replace one sign by each of a dozen others only near ones are taken: the far ones
break so much that they say little about a suite.
"""

from __future__ import annotations

import ast
import difflib
import textwrap
from dataclasses import dataclass

from harness.exits import CannotRun

NEAR = {
    "Binary": {
        "Add": ("Sub",), "Sub": ("Add",), "Mul": ("Add",), "Div": ("Mul",), "FloorDiv": ("Mul", "Mod"),
        "Mod": ("FloorDiv",), "LShift": ("RShift",), "RShift": ("LShift",), "BitAnd": ("BitOr",),
        "BitOr": ("BitAnd",), "BitXor": ("BitOr",),
    },
    "Comparison": {
        "Eq": ("NotEq",), "NotEq": ("Eq",), "Lt": ("LtE", "GtE"), "LtE": ("Lt", "Gt"), "Gt": ("GtE", "LtE"),
        "GtE": ("Gt", "Lt"), "Is": ("IsNot",), "IsNot": ("Is",),
    },
    "Unary": {"Delete": ("USub", "Not", "Invert"), "USub": ("UAdd",)},
}  # fmt: skip
OTHERS = (
    "AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd",
    "ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "NumberReplacer", "ZeroIterationForLoop",
)  # fmt: skip
OPERATORS = (
    *(f"Replace{kind}Operator_{a}_{b}" for kind, near in NEAR.items() for a, to in near.items() for b in to),
    *OTHERS,
)


@dataclass(frozen=True)
class SourceFault:
    """``text`` of the whole file with ``after`` in the place of the lines ``before``, from line ``line``."""

    line: int
    operator: str
    number: int
    before: str
    after: str
    text: str

    @property
    def name(self) -> str:
        """``57 NumberReplacer 3``."""
        return f"{self.line} {self.operator} {self.number}"

    def diff(self) -> str:
        """The fault as a diff without context."""
        lines = [f"@@ line {self.line} @@", *(f"-{one}" for one in self.before.splitlines())]
        return "\n".join([*lines, *(f"+{one}" for one in self.after.splitlines())])


def faults(text: str, functions: tuple[str, ...] = ()) -> list[SourceFault]:
    """Every fault of ``text``, or of the definitions ``functions``. Raises `CannotRun` without cosmic-ray."""
    try:
        from cosmic_ray.mutating import mutate_code
        from cosmic_ray.plugins import get_operator
    except ImportError as error:
        raise CannotRun(
            "--source needs the package cosmic-ray: pip install 'fp4-indexer-harness[power]'"
        ) from error
    whole = text.splitlines(keepends=True)
    found = []
    for first, last in _parts(text, functions):
        part = "".join(whole[first:last])
        flat = textwrap.dedent(part)
        margin = " " * (len(part.split("\n", 1)[0]) - len(flat.split("\n", 1)[0]))
        meaning = _meaning(flat)
        for operator in OPERATORS:
            made, number = get_operator(f"core/{operator}")(), 0
            while (wrong := mutate_code(flat, made, number)) is not None:
                if _meaning(wrong) not in (meaning, ""):
                    before, after = "".join(whole[:first]), "".join(whole[last:])
                    found.append(
                        _fault(text, before + textwrap.indent(wrong, margin) + after, operator, number)
                    )
                number += 1
    return sorted(found, key=lambda fault: (fault.line, fault.operator, fault.number))


def _fault(text: str, wrong: str, operator: str, number: int) -> SourceFault:
    old, new = text.splitlines(), wrong.splitlines()
    changed = [
        op for op in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if op[0] != "equal"
    ]
    if not changed:
        return SourceFault(1, operator, number, "", "", wrong)
    first, last = changed[0], changed[-1]
    before, after = old[first[1] : last[2]], new[first[3] : last[4]]
    return SourceFault(first[1] + 1, operator, number, "\n".join(before), "\n".join(after), wrong)


def _parts(text: str, functions: tuple[str, ...]) -> list[tuple[int, int]]:
    """(first line, line after the last), from 0, of the whole text or of each definition that is named.

    A name is that of a function, or ``Class.method``. Raises `CannotRun` for one that is not there.
    """
    if not functions:
        return [(0, len(text.splitlines()))]
    defined = {}
    for node in ast.parse(text).body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        owner = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        defined.update({f"{owner}{one.name}": one for one in inner if isinstance(one, ast.FunctionDef)})
    missing = [name for name in functions if name not in defined]
    if missing:
        raise CannotRun(f"the file has no definition of {', '.join(missing)}")
    return [
        (min([node.lineno, *(one.lineno for one in node.decorator_list)]) - 1, node.end_lineno or node.lineno)
        for node in (defined[name] for name in functions)
    ]


TELLING = {"debug", "info", "warning", "warn", "error", "exception", "critical", "log", "print"}
"""Names of what is called for its text alone."""


class _Bare(ast.NodeTransformer):
    """Takes away what is never evaluated, and what is only read by people."""

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        if isinstance(node.exc, ast.Call):
            node.exc = node.exc.func
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        node.msg = None
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        if isinstance(node.value, ast.Call):
            called = node.value.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in TELLING:
                return ast.Pass()
        return self.generic_visit(node)


def _meaning(text: str) -> str:
    """The program without what changes nothing in it; empty for a text that is none."""
    try:
        return ast.dump(_Bare().visit(ast.parse(text)))
    except SyntaxError:
        return ""
