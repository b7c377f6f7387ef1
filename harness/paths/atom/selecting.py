"""ATOM's general top-k: what its models call where they have no kernel of aiter's.

The indexer's own selection is aiter's; ATOM adds windows and lengths, which other suites ask about. A tree
without the function answers nothing here, so that aiter beneath it is asked.
"""

from __future__ import annotations

from harness.paths import base
from harness.paths.atom.path import AtomPath
from harness.paths.requests.selecting import PlainTopK

HOMES, NAME = ("atom/models/utils.py",), "fast_topk"


def answers(path: base.Path) -> base.Answers:
    assert isinstance(path, AtomPath)
    return {PlainTopK: lambda request: plain(path, request)} if path.has(HOMES, NAME) else {}


def plain(path: AtomPath, request: PlainTopK) -> base.Outcome:
    arguments = {"values": request.scores, "topk": request.k, "dim": -1}
    chosen = path.load(HOMES, NAME, tuple(arguments))(**arguments)
    return path.outcome(chosen[1], NAME, executor="torch")
