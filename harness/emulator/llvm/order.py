"""The order in which a graph's blocks are tried.

Lanes that part must meet again where the hardware's would. If the earliest block that some lane waits at is
always run first, they do, provided that every block comes after those that lead to it, and that all blocks of
a loop come before those that lie behind the loop. A plain reverse post-order does not give the latter. The
order depends on the graph alone, so that a program is the same one in every process.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import networkx as nx


def execution_order(entry: str, edges: Mapping[str, Sequence[str]]) -> list[str]:
    """Labels that can be reached from ``entry``: loops whole, each block after those that lead to it."""
    graph = nx.DiGraph()
    graph.add_node(entry)
    graph.add_edges_from((label, target) for label, targets in edges.items() for target in targets)
    reached = {entry} | nx.descendants(graph, entry)
    return _ordered(_part(graph, reached), entry)


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
        found += _ordered(_part(graph, members), heads[0])
    return found


def _part(graph: nx.DiGraph, members: Collection[str]) -> nx.DiGraph:
    """The graph of ``members`` alone, in the order of ``graph``: that of a set changes with each process."""
    part = nx.DiGraph()
    part.add_nodes_from(label for label in graph if label in members)
    part.add_edges_from(edge for edge in graph.edges if edge[0] in members and edge[1] in members)
    return part
