"""The order in which an unknown scorer adds, by probing it (the FPRev idea), and beside its declared tree.

Contract: with M in one term, -M in another and units elsewhere, the units that are lost are those added to
either before the two met, so n minus the units left is the size of the smallest subtree that holds both. The
sizes of all pairs are the tree. It would fail silently where a scorer adds in no fixed tree: then the sizes
belong to no tree, and that is what is said.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.diagnose import probes
from harness.diagnose.probes import Operands
from harness.paths.base import Path
from oracles import trees
from oracles.trees import Tree

Node = int | tuple["Node", ...]
"""A head, or the sum of nodes; of more than two, added at once."""


class NoTree(Exception):
    """The message is one sentence: why no tree gives what the probes gave."""


@dataclass(frozen=True)
class Order:
    """How one kernel adds ``heads`` heads of ``dim`` columns.

    ``node``: the tree, None where ``why`` says that there is none. ``step`` fused or rounded, ``scale``
    after or before, or what else came. ``groups``: sentences about sums inside a dot.
    """

    kernel: str
    heads: int
    dim: int
    node: Node | None
    why: str
    step: str
    scale: str
    groups: tuple[str, ...]


def reveal(path: Path, kernel: str, heads: int, dim: int) -> Order:
    """Probe ``path``. Raises `Unsupported` as the path does."""

    def ask(made: Operands) -> Tensor:
        answers = [path.run(request).value for request in probes.requests(kernel, made)]
        return torch.cat([answer[:, 0].cpu() for answer in answers])

    pairs = list(itertools.combinations(range(heads), 2))
    left = ask(probes.between_heads(pairs, heads, dim))
    node, why = None, ""
    try:
        node = tree_of(sizes_of(pairs, left, heads))
    except NoTree as reason:
        why = str(reason)
    step = "not probed" if node is None else _step(ask, node, heads, dim)
    return Order(kernel, heads, dim, node, why, step, _scale(ask, heads, dim), _groups(ask, heads, dim))


def declared(tree: str | Tree, heads: int) -> Node:
    """The node of a declared tree: chains from their first head on, then how they combine."""
    known = trees.find(tree)
    chains = known.chains(heads)

    def chain(number: int) -> Node:
        node: Node = chains[number][0]
        for head in chains[number][1:]:
            node = (node, head)
        return node

    def combined(node: trees.Node) -> Node:
        return chain(node) if isinstance(node, int) else (combined(node[0]), combined(node[1]))

    return canonical(combined(known.combine))


def sizes_of(pairs: Sequence[tuple[int, int]], left: Tensor, heads: int) -> Tensor:
    """Sizes int64 [n, n] of the smallest subtrees. Raises `NoTree`."""
    sizes = torch.zeros(heads, heads, dtype=torch.int64)
    for (first, second), units in zip(pairs, left.tolist(), strict=True):
        if not 0 <= units <= heads - 2 or units != int(units):
            raise NoTree(
                f"with M in head {first} and -M in head {second} the score is {units:g},"
                f" no number of units from 0 to {heads - 2}"
            )
        sizes[first, second] = sizes[second, first] = heads - int(units)
    return sizes


def tree_of(sizes: Tensor) -> Node:
    """The tree whose smallest subtrees have ``sizes``. Raises `NoTree`."""

    def node(leaves: list[int]) -> Node:
        if len(leaves) == 1:
            return leaves[0]
        whole, parts = len(leaves), list[list[int]]()
        for leaf in leaves:
            home = next((part for part in parts if int(sizes[part[0], leaf]) < whole), None)
            if home is None:
                parts.append([leaf])
            else:
                home.append(leaf)
        for one, other in itertools.combinations(range(len(parts)), 2):
            for pair in itertools.product(parts[one], parts[other]):
                if int(sizes[pair]) != whole:
                    raise _contradiction(*pair, int(sizes[pair]), whole)
        if len(parts) == 1:
            raise _contradiction(leaves[0], leaves[1], int(sizes[leaves[0], leaves[1]]), whole)
        return tuple(node(part) for part in parts)

    return canonical(node(list(range(len(sizes)))))


def _contradiction(first: int, second: int, size: int, whole: int) -> NoTree:
    return NoTree(
        f"heads {first} and {second} meet in a sum of {size} heads, in any tree that suits the others in one"
        f" of {whole}"
    )


def canonical(node: Node) -> Node:
    """``node`` with the parts of each sum by their smallest head: an addition has no first operand."""
    if isinstance(node, int):
        return node
    return tuple(sorted(map(canonical, node), key=smallest))


def smallest(node: Node) -> int:
    return node if isinstance(node, int) else min(map(smallest, node))


def text(node: Node) -> str:
    """``([0 1 2 3] + [4 5 6 7]) + 8``: square brackets are chains, added from left to right."""
    chain = _chain(node)
    if isinstance(node, int):
        return str(node)
    if chain is not None:
        return f"[{' '.join(map(str, chain))}]"
    parts = [text(part) if isinstance(part, int) or _chain(part) else f"({text(part)})" for part in node]
    return " + ".join(parts) + (" at once" if len(parts) > 2 else "")


def _chain(node: Node) -> list[int] | None:
    """Heads of a node that is one chain, in order; of its first two either may be the first."""
    if isinstance(node, int):
        return [node]
    if len(node) != 2:
        return None
    single = [part for part in node if isinstance(part, int)]
    rest = [part for part in node if not isinstance(part, int)]
    if not rest:
        return single
    before = _chain(rest[0]) if single else None
    return None if before is None else [*before, single[0]]


def _pair(node: Node) -> tuple[int, int] | None:
    """Two heads that are added to each other before any other is."""
    if isinstance(node, int):
        return None
    if len(node) == 2 and all(isinstance(part, int) for part in node):
        return smallest(node[0]), smallest(node[1])
    return next(filter(None, map(_pair, node)), None)


def _step(ask: object, node: Node, heads: int, dim: int) -> str:
    """``rounded`` or ``fused``, and which of the two heads is the first."""
    pair = _pair(node)
    if pair is None:
        return "not seen: no two heads are added by themselves"
    assert callable(ask)
    left = ask(probes.fused(*pair, heads, dim)).tolist()
    if left == [0.0, 0.0]:
        return "rounded"
    return "fused" if set(left) <= {0.0, probes.LEFT} else f"neither: {left[0]:g} and {left[1]:g} are left"


def _scale(ask: object, heads: int, dim: int) -> str:
    """Where the weight scale goes."""
    assert callable(ask)
    operands, after, before = probes.scaled(heads, dim)
    (got,) = ask(operands).tolist()
    words = {after: "after", before: "before"}
    return words.get(got, f"neither: {got!r}, where after gives {after!r} and before {before!r}")


def _groups(ask: object, heads: int, dim: int) -> tuple[str, ...]:
    """What becomes of units in other groups of 32 columns while M and -M are summed in a dot."""
    assert callable(ask)
    count = dim // probes.GROUP
    pairs = list(itertools.combinations(range(count), 2))
    left = dict(zip(pairs, ask(probes.between_groups(pairs, heads, dim)).tolist(), strict=True))
    said = []
    for tile in range(dim // 128):
        inside = [left[pair] for pair in pairs if {place // 4 for place in pair} == {tile}]
        name = f"groups of k-tile {tile}" if dim > 128 else "groups of a dot"
        said.append(f"{name}: {_survivors(inside, count - 2)}")
    for one, other in itertools.combinations(range(dim // 128), 2):
        across = [left[pair] for pair in pairs if (pair[0] // 4, pair[1] // 4) == (one, other)]
        said.append(f"from k-tile {one} to {other}: {_survivors(across, count - 2)}")
    return tuple(said)


def _survivors(units: Sequence[float], of: int) -> str:
    met = sorted(set(units))
    if met == [float(of)]:
        return f"summed as if exactly, all {of} units are left"
    return f"{', '.join(f'{one:g}' for one in met)} of {of} units are left"
