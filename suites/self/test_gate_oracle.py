"""The rule of the gate, by hand: what is taken, what blocks, how often is warned and probed."""

from __future__ import annotations

import pytest

from oracles import gate
from oracles.gate import DSA, V4, Shape

GLM = Shape(2048, 128, 32, None)
"""The indexer that GLM-5.2 and DeepSeek-V3.2 share, but for the number of heads."""


@pytest.mark.parametrize("heads", [16, 32, 48, 64, 128])
@pytest.mark.parametrize("kpool", [None, 0, 1])
def test_the_shapes_in_the_field_are_taken(heads: int, kpool: int | None) -> None:
    assert gate.decide(DSA, "fp4", Shape(2048, 128, heads, kpool), "gfx950").taken


@pytest.mark.parametrize(
    ("shape", "chip", "blockers"),
    [
        (Shape(None, 128, 32, None), "gfx950", ("topk",)),
        (Shape(0, 128, 32, None), "gfx950", ("topk",)),
        (Shape(2048, 64, 32, None), "gfx950", ("head_dim",)),
        (Shape(2048, 256, 32, None), "gfx950", ("head_dim",)),
        (Shape(2048, None, 32, None), "gfx950", ("head_dim",)),
        (Shape(2048, 128, 24, None), "gfx950", ("heads",)),
        (Shape(2048, 128, 8, None), "gfx950", ("heads",)),
        (Shape(2048, 128, 0, None), "gfx950", ("heads",)),
        (Shape(2048, 128, None, None), "gfx950", ("heads",)),
        (Shape(2048, 128, 32, 2), "gfx950", ("kpool",)),
        (GLM, "gfx942", ("chip",)),
        (GLM, "gfx1250", ("chip",)),
        (Shape(2048, 64, 24, 4), "gfx942", ("head_dim", "heads", "kpool", "chip")),
    ],
)
def test_everything_else_falls_back_with_one_warning(
    shape: Shape, chip: str, blockers: tuple[str, ...]
) -> None:
    assert gate.decide(DSA, "fp4", shape, chip) == gate.Decision(False, blockers, 1, None)


@pytest.mark.parametrize("asked", ["fp8", "bf16", None, "FP4"])
@pytest.mark.parametrize("rule", [DSA, V4])
def test_another_dtype_is_no_mismatch_and_no_reason_to_look_at_the_chip(
    rule: gate.Rule, asked: str | None
) -> None:
    assert gate.decide(rule, asked, GLM, "gfx950") == gate.Decision(False, (), 0, 0)


@pytest.mark.parametrize(("chip", "taken"), [("gfx950", True), ("gfx1250", None), ("gfx942", False)])
def test_the_rules_of_the_two_families_differ_by_chip(chip: str, taken: bool | None) -> None:
    """DeepSeek-V4's looks at no shape, and has nothing to say of most chips."""
    assert gate.decide(V4, "fp4", Shape(None, None, None, 4), chip).taken is taken
    assert gate.decide(DSA, "fp4", GLM, chip).taken is (chip == "gfx950")


@pytest.mark.parametrize(
    ("text", "blocker", "chip", "there"),
    [
        ("index_head_dim is 64, not 128", "head_dim", "", True),
        ("the layer has no sparse indexer", "topk", "", True),
        ("gfx942 does not have the kernels", "chip", "gfx942", True),
        ("gfx90a does not have the kernels", "chip", "gfx942", False),
        ("FP4 is unavailable; scoring in FP8", "heads", "", False),
        ("requires --block-size 64, got 32", "page", "", True),
        ("does not support PCP", "prefillcp", "", True),
        ("unsupported", "transfer", "", False),
    ],
)
def test_what_counts_as_naming_a_blocker(text: str, blocker: str, chip: str, there: bool) -> None:
    assert gate.named(text, (blocker,), chip) is there
    assert gate.named(text, ("topk", blocker), chip) or not there


def test_what_is_open_is_settled_by_whoever_decides() -> None:
    """A warning is due if it is not taken, and nothing else is open."""
    opened = gate.decide(V4, "fp4", GLM, "gfx1250")
    assert opened == gate.Decision(None, ("chip",), 0, None)
    assert gate.settled(opened, taken=True) == gate.Decision(True, (), 0, None)
    assert gate.settled(opened, taken=False) == gate.Decision(False, ("chip",), 1, None)
    refused = gate.decide(V4, "fp4", GLM, "gfx942")
    assert gate.settled(refused, taken=True) == refused


def test_every_refusal_has_words() -> None:
    assert {by for refusals in gate.REFUSALS.values() for by in refusals} <= set(gate.NAMES)
    assert set(gate.REFUSALS) == set(gate.RULES) == {"dsa", "v4"}
