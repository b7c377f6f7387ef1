"""The order in which a graph's blocks are tried.

Lanes that part must meet again where the hardware's would. If the earliest block that some lane waits at is
always run first, they do, provided that every block comes after those that lead to it, and that all blocks of
a loop come before those that lie behind the loop. A plain reverse post-order does not give the latter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import networkx as nx


def execution_order(entry: str, edges: Mapping[str, Sequence[str]]) -> list[str]:
    """Labels that can be reached from ``entry``: loops whole, each block after those that lead to it."""
    graph = nx.DiGraph()
    graph.add_node(entry)
    graph.add_edges_from((label, target) for label, targets in edges.items() for target in targets)
    reached = {entry} | nx.descendants(graph, entry)
    return _ordered(graph.subgraph(reached).copy(), entry)


def _ordered(graph: nx.DiGraph, entry: str) -> list[str]:
    """Blocks of ``graph``, which is entered at ``entry``; back edges to the entry are cut first."""
    graph.remove_edges_from(list(graph.in_edges(entry)))
    condensed = nx.condensation(graph)
    found: list[str] = []
    for component in nx.lexicographical_topological_sort(condensed):
        members = condensed.nodes[component]["members"]
        if len(members) == 1:
            found += members
            continue
        heads = [label for label in found for label in graph.successors(label) if label in members]
        found += _ordered(graph.subgraph(members).copy(), heads[0])
    return found
