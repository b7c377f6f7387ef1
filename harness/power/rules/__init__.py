"""Rules by which one operation of a program becomes a wrong one.

Contract: a rule yields (detail, operations that take the place of the one given) and never the operation
itself, and the new operations define the same results. A rule that builds what no compiler could (other
types, a value from elsewhere) would be killed by the emulator's refusal and count for nothing, so operands
only come from the operation itself and from new constants. The rules of `GRAPH_RULES` are those of compiled
code: they are tried where a program is a control-flow graph, beside the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.emulator.program import Op
from harness.power.rules import arithmetic, conversions, graphs, structure, waves
from harness.power.rules.making import Change, Fresh, Maker, Rule, Seen

__all__ = ["GRAPH_RULES", "RULES", "Change", "Fresh", "Maker", "Seen", "changes"]

RULES: Mapping[str, Rule] = {
    "swapped operands": arithmetic.swapped,
    "dropped operation": arithmetic.dropped,
    "other operation": arithmetic.other,
    "repeated addition": arithmetic.repeated,
    "wrong constant": arithmetic.constants,
    "off by one": arithmetic.shifted,
    "wrong element": structure.attributes,
    "exchanged elements": structure.built,
    "wrong predicate": arithmetic.predicates,
    "wrong branch": structure.branches,
    "neutral matrix operand": structure.zeroed,
    "removed": structure.removed,
    "exchanged carried values": structure.carried,
}
"""Name to rule, in the order in which mutants are numbered."""

GRAPH_RULES: Mapping[str, Rule] = {
    "wrong target": graphs.targets,
    "handed on wrongly": graphs.handed,
    "left out": graphs.left_out,
    "wrong comparison": graphs.comparisons,
    "other neighbour": graphs.neighbours,
    "wrong coordinate": graphs.coordinates,
    "wrong lane": waves.lanes,
    "wrong half or format": conversions.halves,
    "wrong scale": conversions.scales,
    "zeroed operand": conversions.zeroed,
}
"""Name to rule, for control-flow graphs only."""


def changes(seen: Seen, op: Op) -> Iterator[tuple[str, Change]]:
    """(rule, change) of every fault of one operation."""
    for rules in (RULES, GRAPH_RULES) if seen.graph else (RULES,):
        for name, rule in rules.items():
            for change in rule(seen, op):
                yield name, change
