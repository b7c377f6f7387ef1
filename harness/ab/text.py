"""Code of a tree that no CPU runs: whether its text changed, comments and layout aside.

It proves less than bytes: the same text can be compiled otherwise and another text can do the same. So
it is a note beside the comparison and never a part of it, and a function that is not found is said to be
absent instead of being taken for the same.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path

ABSENT = "absent"
HIP = "csrc/kernels/cache_kernels.cu"
GLUON = "aiter/ops/triton/gluon/pa_mqa_logits.py"
READ: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "aiter": {
        "fp8": (
            f"{HIP}:indexer_k_quant_and_cache_kernel",
            f"{HIP}:indexer_qk_rope_quant_and_cache_kernel",
            f"{HIP}:cp_gather_indexer_k_quant_cache_kernel",
            f"{GLUON}:_gluon_deepgemm_fp8_paged_mqa_logits",
            f"{GLUON}:_gluon_deepgemm_fp8_paged_mqa_logits_preshuffle",
            f"{GLUON}:_gluon_deepgemm_fp8_paged_mqa_logits_preshuffle_varctx",
            "aiter/ops/triton/_gluon_kernels/gfx950/attention/fp8_mqa_logits.py:_gluon_fp8_mqa_logits_kernel",
        ),
    },
}
"""File and function, by path and suite: the FP8 default on a chip."""

_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def digests(root: Path, path: str, suites: Iterable[str]) -> dict[str, str]:
    """Digest of each function of `READ` that belongs to ``suites``, `ABSENT` where there is none."""
    found = {}
    for suite in suites:
        for place in READ.get(path, {}).get(suite, ()):
            file, name = place.split(":")
            text = _text(root / file, name)
            found[name] = ABSENT if text is None else blake2b(text.encode(), digest_size=8).hexdigest()
    return found


def notes(base: Mapping[str, str], head: Mapping[str, str]) -> list[str]:
    """A sentence for each function whose text is another, one for all that are the same."""
    said, same = [], []
    for name in base:
        one, other = base[name], head.get(name, ABSENT)
        if one == other:
            same += [name] if one != ABSENT else []
        elif ABSENT in (one, other):
            said.append(f"{name} is not run here and is only in {'head' if one == ABSENT else 'base'}")
        else:
            said.append(f"{name} is not run here and its source changed")
    return said + ([f"not run here, but the same source: {', '.join(same)}"] if same else [])


def _text(file: Path, name: str) -> str | None:
    if not file.is_file():
        return None
    source = file.read_text(encoding="utf-8", errors="replace")
    return _python(source, name) if file.suffix == ".py" else _cpp(source, name)


def _python(source: str, name: str) -> str | None:
    """The function's syntax tree, without positions."""
    try:
        module = ast.parse(source)
    except SyntaxError:
        return None
    nodes = (node for node in ast.walk(module) if isinstance(node, ast.FunctionDef) and node.name == name)
    node = next(nodes, None)
    return None if node is None else ast.dump(node)


def _cpp(source: str, name: str) -> str | None:
    """From the name to the brace that closes its body, without comments, each space one."""
    bare = _COMMENTS.sub(" ", source)
    match = re.search(rf"\bvoid\s+{name}\s*\(", bare)
    opened = bare.find("{", match.end()) if match else -1
    if match is None or opened < 0:
        return None
    depth = 0
    for place in range(opened, len(bare)):
        depth += {"{": 1, "}": -1}.get(bare[place], 0)
        if depth == 0:
            return " ".join(bare[match.start() : place + 1].split())
    return None
