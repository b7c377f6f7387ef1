"""One instruction of LLVM IR text as its parts.

Flags are kept by name; a flag that is not known is refused, since it may change a result. What only promises
something of a value (nuw, inbounds, alignment) is read and dropped: the emulator wraps and checks anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harness.emulator.llvm.kinds import VOID, Kind
from harness.emulator.llvm.tokens import Cursor, unquoted
from harness.emulator.llvm.values import Named, Ref, Typed, read_kind, read_space, read_typed, read_value

PROMISES = frozenset({"nuw", "nsw", "exact", "disjoint", "samesign", "inbounds", "nusw", "nneg"})
FAST = frozenset({"fast", "nnan", "ninf", "nsz", "arcp", "contract", "afn", "reassoc"})
FREE = FAST - {"contract", "nnan", "ninf", "nsz"}
"""Flags under which the compiler may give another value than the one that is written."""

BINARY = frozenset(
    {"add", "sub", "mul", "udiv", "sdiv", "urem", "srem", "shl", "lshr", "ashr", "and", "or", "xor"}
    | {"fadd", "fsub", "fmul", "fdiv", "frem"}
)
CASTS = frozenset(
    {"trunc", "zext", "sext", "fptrunc", "fpext", "fptoui", "fptosi", "uitofp", "sitofp", "ptrtoint"}
    | {"inttoptr", "bitcast", "addrspacecast"}
)


@dataclass
class Instruction:
    """``code`` as LLVM spells it; ``kind`` of the result; ``attrs`` by opcode.

    attrs: ``predicate`` (icmp, fcmp), ``source`` (getelementptr, alloca: the type that is indexed),
    ``indices`` (extractvalue, insertvalue), ``callee`` and ``assembly`` (call), ``labels`` (br, switch, phi),
    ``cases`` (switch), ``operation`` (atomicrmw).
    """

    code: str
    result: str
    kind: Kind
    operands: tuple[Typed, ...]
    flags: frozenset[str] = frozenset()
    attrs: dict[str, Any] = field(default_factory=dict)
    debug: str = ""
    location: str = ""


def read(cursor: Cursor, named: Named) -> Instruction:
    """The instruction of one line. Raises `UnsupportedOperation`."""
    result = ""
    if cursor.peek(1) == "=":
        result = unquoted(cursor.next())
        cursor.next()
    cursor.take("tail", "musttail", "notail")
    code = cursor.next()
    reader = READERS.get(code)
    if reader is None:
        raise cursor.refusal(f"instruction {code}")
    found = reader(cursor, named, code)
    found.result = result
    _rest(cursor, found)
    return found


def _rest(cursor: Cursor, found: Instruction) -> None:
    """What follows the operands: attributes, and where in the source it stands."""
    while cursor.peek():
        word = cursor.next()
        if word == "!dbg":
            found.debug = cursor.next()


def _binary(cursor: Cursor, named: Named, code: str) -> Instruction:
    flags = cursor.flags(PROMISES | FAST)
    left = read_typed(cursor, named)
    cursor.expect(",")
    right = Typed(left.kind, read_value(cursor, left.kind, named))
    return Instruction(code, "", left.kind, (left, right), flags & FAST)


def _unary(cursor: Cursor, named: Named, code: str) -> Instruction:
    flags = cursor.flags(FAST)
    one = read_typed(cursor, named)
    return Instruction(code, "", one.kind, (one,), flags)


def _compare(cursor: Cursor, named: Named, code: str) -> Instruction:
    flags = cursor.flags(PROMISES | FAST)
    predicate = cursor.next()
    found = _binary(cursor, named, code)
    kind = found.operands[0].kind
    bit = Kind("int", 1)
    found.kind = Kind("vector", length=kind.length, parts=(bit,)) if kind.name == "vector" else bit
    found.flags, found.attrs = flags & FAST, {"predicate": predicate}
    return found


def _cast(cursor: Cursor, named: Named, code: str) -> Instruction:
    flags = cursor.flags(PROMISES | FAST)
    one = read_typed(cursor, named)
    cursor.expect("to")
    return Instruction(code, "", read_kind(cursor, named), (one,), flags & FAST)


def _load(cursor: Cursor, named: Named, code: str) -> Instruction:
    flags = cursor.flags(frozenset({"volatile", "atomic"}))
    kind = read_kind(cursor, named)
    cursor.expect(",")
    return Instruction(code, "", kind, (read_typed(cursor, named),), flags)


def _store(cursor: Cursor, named: Named, code: str) -> Instruction:
    flags = cursor.flags(frozenset({"volatile", "atomic"}))
    return Instruction(code, "", VOID, _list(cursor, named, 2), flags)


def _list(cursor: Cursor, named: Named, count: int) -> tuple[Typed, ...]:
    found = []
    for number in range(count):
        if number:
            cursor.expect(",")
        found.append(read_typed(cursor, named))
    return tuple(found)


def _element_pointer(cursor: Cursor, named: Named, code: str) -> Instruction:
    cursor.flags(PROMISES)
    source = read_kind(cursor, named)
    operands = []
    while cursor.take(","):
        if cursor.peek().startswith("!"):
            break
        operands.append(read_typed(cursor, named))
    return Instruction(code, "", operands[0].kind, tuple(operands), attrs={"source": source})


def _phi(cursor: Cursor, named: Named, code: str) -> Instruction:
    flags = cursor.flags(FAST)
    kind = read_kind(cursor, named)
    values, labels = [], []
    while cursor.peek() == "[":
        inner = Cursor(cursor.group(), cursor.location)
        values.append(Typed(kind, read_value(inner, kind, named)))
        inner.expect(",")
        labels.append(unquoted(inner.next()))
        if not cursor.take(","):
            break
    return Instruction(code, "", kind, tuple(values), flags, {"labels": tuple(labels)})


def _select(cursor: Cursor, named: Named, code: str) -> Instruction:
    flags = cursor.flags(FAST)
    operands = _list(cursor, named, 3)
    return Instruction(code, "", operands[1].kind, operands, flags)


def _element(cursor: Cursor, named: Named, code: str) -> Instruction:
    operands = _list(cursor, named, {"extractelement": 2, "insertelement": 3, "shufflevector": 3}[code])
    kind = operands[0].kind
    if code == "extractelement":
        kind = kind.element
    if code == "shufflevector":
        kind = Kind("vector", length=operands[2].kind.length, parts=kind.parts)
    return Instruction(code, "", kind, operands)


def _member(cursor: Cursor, named: Named, code: str) -> Instruction:
    operands = _list(cursor, named, 1 if code == "extractvalue" else 2)
    indices = []
    while cursor.peek() == "," and cursor.peek(1).isdigit():
        cursor.next()
        indices.append(int(cursor.next()))
    kind = operands[0].kind
    if code == "extractvalue":
        for index in indices:
            kind = kind.field(index)[0]
    return Instruction(code, "", kind, operands, attrs={"indices": tuple(indices)})


def _branch(cursor: Cursor, named: Named, code: str) -> Instruction:
    first = read_typed(cursor, named)
    if first.kind.name == "label":
        return Instruction(code, "", VOID, (), attrs={"labels": (first.value.name,)})
    labels = []
    while cursor.take(","):
        if cursor.peek().startswith("!"):
            break
        labels.append(read_typed(cursor, named).value.name)
    return Instruction(code, "", VOID, (first,), attrs={"labels": tuple(labels)})


def _switch(cursor: Cursor, named: Named, code: str) -> Instruction:
    operands = _list(cursor, named, 2)
    inner = Cursor(cursor.group(), cursor.location)
    cases, labels = [], [operands[1].value.name]
    while inner.peek():
        cases.append(int(read_typed(inner, named).value))
        inner.expect(",")
        labels.append(read_typed(inner, named).value.name)
    attrs = {"labels": tuple(labels), "cases": tuple(cases)}
    return Instruction(code, "", VOID, operands[:1], attrs=attrs)


def _return(cursor: Cursor, named: Named, code: str) -> Instruction:
    if not cursor.take("void"):
        raise cursor.refusal("a kernel that returns something")
    return Instruction(code, "", VOID, ())


def _plain(cursor: Cursor, named: Named, code: str) -> Instruction:
    while cursor.peek() and cursor.peek() != "!dbg":
        cursor.next()
        cursor.take(",")
    return Instruction(code, "", VOID, ())


def _alloca(cursor: Cursor, named: Named, code: str) -> Instruction:
    source, space, count = read_kind(cursor, named), 0, 1
    while cursor.take(","):
        if cursor.peek() == "addrspace":
            space = read_space(cursor)
        elif cursor.peek() == "align":
            cursor.next(), cursor.next()
        elif cursor.peek().startswith("i"):
            count = int(read_typed(cursor, named).value)
    attrs = {"source": source, "count": count}
    return Instruction(code, "", Kind("pointer", space=space), (), attrs=attrs)


def _atomic(cursor: Cursor, named: Named, code: str) -> Instruction:
    cursor.take("volatile")
    if code == "cmpxchg":
        cursor.take("weak")
        operands = _list(cursor, named, 3)
        kind = Kind("struct", parts=(operands[1].kind, Kind("int", 1)))
        return Instruction(code, "", kind, operands)
    operation = cursor.next()
    operands = _list(cursor, named, 2)
    return Instruction(code, "", operands[1].kind, operands, attrs={"operation": operation})


PARAMETER = frozenset(
    {"noundef", "nonnull", "signext", "zeroext", "immarg", "inreg", "readonly", "writeonly", "nocapture"}
    | {"noalias", "returned", "nofree", "readnone", "noext"}
)


def attributes(cursor: Cursor) -> frozenset[str]:
    """Read the attributes of a parameter or result; those with an argument lose it."""
    found = set()
    while True:
        if cursor.peek() in PARAMETER:
            found.add(cursor.next())
        elif cursor.peek() == "align":
            cursor.next()
            cursor.next() if cursor.peek() != "(" else cursor.group()
        elif cursor.peek(1) == "(" and cursor.peek().isidentifier():
            found.add(cursor.next())
            cursor.group()
        else:
            return frozenset(found)


def _call(cursor: Cursor, named: Named, code: str) -> Instruction:
    flags = cursor.flags(FAST)
    cursor.flags(frozenset({"fastcc", "ccc", "coldcc", "amdgpu_device"}))
    attributes(cursor)
    kind = read_kind(cursor, named)
    if cursor.peek() == "(":
        cursor.group()
    attrs: dict[str, Any] = {}
    if cursor.take("asm"):
        cursor.flags(frozenset({"sideeffect", "alignstack", "inteldialect", "unwind"}))
        attrs["assembly"] = cursor.next()[1:-1]
        cursor.expect(",")
        attrs["constraints"] = cursor.next()[1:-1]
        attrs["callee"] = "asm"
    else:
        attrs["callee"] = unquoted(cursor.next())[1:]
    inner = Cursor(cursor.group(), cursor.location)
    operands = []
    while inner.peek():
        one = read_kind(inner, named)
        attributes(inner)
        if one.name == "metadata":
            operands.append(Typed(one, _metadata(inner)))
        else:
            operands.append(Typed(one, read_value(inner, one, named)))
        inner.take(",")
    return Instruction(code, "", kind, tuple(operands), flags, attrs)


def _metadata(cursor: Cursor) -> Any:
    word = cursor.next()
    while cursor.peek() not in (",", ""):
        if cursor.peek() == "(":
            cursor.group()
        else:
            cursor.next()
    return Ref(word)


Reader = Callable[[Cursor, Named, str], Instruction]
READERS: dict[str, Reader] = {
    **dict.fromkeys(BINARY, _binary),
    **dict.fromkeys(CASTS, _cast),
    **dict.fromkeys(("fneg", "freeze"), _unary),
    **dict.fromkeys(("icmp", "fcmp"), _compare),
    **dict.fromkeys(("extractelement", "insertelement", "shufflevector"), _element),
    **dict.fromkeys(("extractvalue", "insertvalue"), _member),
    **dict.fromkeys(("atomicrmw", "cmpxchg"), _atomic),
    **dict.fromkeys(("fence", "unreachable"), _plain),
    "load": _load,
    "store": _store,
    "getelementptr": _element_pointer,
    "phi": _phi,
    "select": _select,
    "br": _branch,
    "switch": _switch,
    "ret": _return,
    "alloca": _alloca,
    "call": _call,
}
