"""The order that probing reveals is the order in which a path adds, whatever it declares."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from harness import cli
from harness.diagnose import probes, revealing
from harness.diagnose.revealing import Node, NoTree
from harness.paths import base
from harness.paths.oracle import OraclePath
from oracles.trees import TREES, Tree, lane_groups, one_chain

HEADS, DIM = 16, 128


class Summing(OraclePath):
    """The oracle under another tree than it declares."""

    def __init__(self, tree: Tree) -> None:
        self.own = tree

    def tree(self, request: object) -> str | None:
        return "decode"

    def how(self, request: object) -> str | Tree:
        return self.own


def columns(heads: int) -> tuple[tuple[int, ...], ...]:
    """Every second head: two chains of the kind a 2-way unrolled loop has."""
    return tuple(range(0, heads, 2)), tuple(range(1, heads, 2))


def single(heads: int) -> tuple[tuple[int, ...], ...]:
    return tuple((head,) for head in range(heads))


def halves(low: int, high: int) -> int | tuple[object, object]:
    """A balanced reduction over single heads."""
    middle = (low + high) // 2
    return low if high - low == 1 else (halves(low, middle), halves(middle, high))


OTHERS = (
    Tree("loop", one_chain, 0, scale="after", step="rounded"),
    Tree("fused loop", one_chain, 0, scale="after", step="fused"),
    Tree("unrolled", columns, (0, 1), scale="before", step="rounded"),
    Tree("pairwise", single, halves(0, HEADS), scale="before", step="fused"),  # type: ignore[arg-type]
    Tree("crossed", lane_groups, ((0, 2), (1, 3)), scale="after", step="rounded"),
    Tree("in turn", lane_groups, (((0, 1), 2), 3), scale="after", step="fused"),
    *TREES.values(),
)


@pytest.mark.parametrize("tree", OTHERS, ids=[tree.name for tree in OTHERS])
def test_the_tree_of_any_path_is_revealed(tree: Tree) -> None:
    """Shape, step and place of the weight scale are those of the path, not those it declares."""
    found = revealing.reveal(Summing(tree), "decode", HEADS, DIM)
    assert found.why == ""
    assert found.node == revealing.declared(tree, HEADS)
    assert found.step == tree.step or tree.name == "pairwise"
    assert found.scale == tree.scale


@pytest.mark.parametrize("kernel", probes.KERNELS)
def test_every_kernel_of_the_oracle_adds_as_declared(kernel: str) -> None:
    """Each request has one key and a row a probe, whatever its form."""
    path = OraclePath()
    request = probes.requests(kernel, probes.empty(1, HEADS, DIM))[0]
    found = revealing.reveal(path, kernel, HEADS, DIM)
    tree = TREES[str(path.tree(request))]
    assert found.node == revealing.declared(tree, HEADS)
    assert (found.step, found.scale) == (tree.step, tree.scale)


def test_k_tiles_are_added_in_turn() -> None:
    """Units of the first tile are lost before the second comes; inside a tile none is."""
    found = revealing.reveal(OraclePath(), "decode", HEADS, 256)
    assert [said.partition(": ")[2] for said in found.groups] == [
        "summed as if exactly, all 6 units are left",
        "summed as if exactly, all 6 units are left",
        "3 of 6 units are left",
    ]


def drawn(leaves: list[int], dice: random.Random) -> Node:
    """A random tree over ``leaves``; some sums have three parts."""
    if len(leaves) == 1:
        return leaves[0]
    parts = min(len(leaves), 3 if dice.random() < 0.2 else 2)
    cuts = sorted(dice.sample(range(1, len(leaves)), parts - 1))
    pieces = [leaves[low:high] for low, high in itertools.pairwise([0, *cuts, len(leaves)])]
    return tuple(drawn(piece, dice) for piece in pieces)


def leaves_of(node: Node) -> list[int]:
    return [node] if isinstance(node, int) else [leaf for part in node for leaf in leaves_of(part)]


def sizes(node: Node, count: int) -> Tensor:
    """By enumeration: the number of leaves of the smallest subtree over two leaves."""
    found = torch.zeros(count, count, dtype=torch.int64)

    def visit(one: Node) -> None:
        if isinstance(one, int):
            return
        inside = leaves_of(one)
        for first, second in itertools.permutations(inside, 2):
            found[first, second] = len(inside)
        for part in one:
            visit(part)

    visit(node)
    return found


def test_sizes_of_subtrees_are_the_tree() -> None:
    """Any tree comes back from the sizes of its smallest subtrees."""
    dice = random.Random(1)
    for count in (2, 3, 7, 16, 33):
        for _ in range(20):
            order = list(range(count))
            dice.shuffle(order)
            node = revealing.canonical(drawn(order, dice))
            assert revealing.tree_of(sizes(node, count)) == node


def test_sizes_that_no_tree_has_are_refused() -> None:
    """A changed size is named as a contradiction, not forced into a tree."""
    found = sizes(revealing.declared("decode", HEADS), HEADS)
    for first, second, size in ((0, 1, 5), (0, 4, 16), (3, 12, 3)):
        wrong = found.clone()
        wrong[first, second] = wrong[second, first] = size
        with pytest.raises(NoTree, match="meet in a sum of"):
            revealing.tree_of(wrong)


class Restless(OraclePath):
    """Adds half a unit to every second answer."""

    def _scores(self, request: object, rows: object, entries: object) -> base.Outcome:
        outcome = super()._scores(request, rows, entries)  # type: ignore[arg-type]
        outcome.value[::2] += 0.5
        return replace(outcome)


def test_a_path_without_a_tree_is_told() -> None:
    """What is left is no number of units."""
    found = revealing.reveal(Restless(), "decode", HEADS, DIM)
    assert found.node is None
    assert "no number of units" in found.why


def test_chains_are_written_as_chains() -> None:
    """Square brackets hold a chain in its order; a sum of three parts says so."""
    assert revealing.text(revealing.declared("decode", 16)) == (
        "([0 1 2 3] + [4 5 6 7]) + ([8 9 10 11] + [12 13 14 15])"
    )
    assert revealing.text((0, 1, 2)) == "0 + 1 + 2 at once"


def test_the_command_compares_and_exits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """0 where the declared tree is the revealed one, and the document says what was found."""
    file = tmp_path / "order.json"
    arguments = ["--path", "oracle", "--kernel", "prefill", "--heads", "16", "--json", str(file)]
    assert cli.main(["reveal-order", *arguments]) == 0
    assert "declared  the same: tree prefill" in capsys.readouterr().out
    (record,) = json.loads(file.read_text())["records"]
    assert (record["step"], record["scale"], record["declared"]) == ("fused", "before", "same")


def test_another_tree_than_declared_ends_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that adds otherwise than its path says differs."""
    monkeypatch.setattr("harness.paths.registry.create", lambda choice: Summing(OTHERS[0]))
    assert cli.main(["reveal-order", "--path", "oracle", "--kernel", "decode", "--heads", "16"]) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--kernel", "encode"], "--kernel is 'encode', allowed are decode, prefill, varqlen"),
        (["--heads", "20"], "--heads is 20, allowed are multiples of 16 from 16 to 128"),
        (["--dim", "64"], "--dim is 64, allowed are 128 and 256"),
    ],
)
def test_bad_arguments_are_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The field and what is allowed."""
    assert cli.main(["reveal-order", "--path", "oracle", *arguments]) == 2
    assert sentence in capsys.readouterr().err
