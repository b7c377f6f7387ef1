"""The serving path: ATOM's functions around the indexer, called as the server calls them.

It answers the requests it has functions for; those it has not are passed on to ``under`` (aiter, if
``--aiter`` was given too), and who answered is in the outcome's facts. A version of ATOM that lacks
a function or a parameter gives `Unsupported` with its name; nothing is called by position, and
nothing is answered by a function of the harness's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any, ClassVar

from harness.paths import base
from harness.paths.atom import tree as atom_tree
from harness.paths.atom.space import Space
from harness.record.provenance import commit_of

PARTS = (
    "harness.paths.atom.gating",
    "harness.paths.atom.staging",
    "harness.paths.atom.sharding",
    "harness.paths.atom.pooling",
    "harness.paths.atom.publishing",
    "harness.paths.atom.selecting",
)
"""Modules that answer the requests of one area each, by a function ``answers(path)``."""


class AtomPath(base.Path):
    """ATOM from a source tree, over another path for what is not ATOM's."""

    name: ClassVar[str] = "atom"
    parts = PARTS

    def __init__(self, tree: FilePath, under: base.Path | None = None) -> None:
        self.root = tree.resolve()
        self.under = under
        self.rerun_args = ("--atom", str(tree), *getattr(under, "rerun_args", ()))
        source = getattr(under, "source", None)
        self.aiter: FilePath | None = None if source is None else source()
        self.space = Space(self.root, self.aiter)
        self.files: dict[str, str] = {}
        """Function that was loaded to the file of the tree that has it."""

    @property
    def executor(self) -> str:
        """Host code on the CPU, Triton kernels in Triton's interpreter."""
        return "interpreted"

    def answers(self) -> base.Answers:
        """Nothing by itself: see `PARTS`."""
        return {}

    @cached_property
    def table(self) -> base.Answers:
        own = super().table
        lent = {} if self.under is None else dict.fromkeys(self.under.table, self._passed_on)
        return {**lent, **own}

    def tree(self, request: Any) -> str | None:
        return None if self.under is None else self.under.tree(request)

    def zeros(self, request: Any) -> str:
        return super().zeros(request) if self.under is None else self.under.zeros(request)

    def provenance(self) -> dict[str, Any]:
        under = {} if self.under is None else {self.under.name: self.under.provenance()}
        return {"atom": {"tree": str(self.root), **commit_of(self.root)}, **under}

    def load(
        self,
        candidates: Sequence[str],
        name: str,
        parameters: Sequence[str] | None = None,
        provided: Mapping[str, Any] | None = None,
    ) -> Callable[..., Any]:
        """`atom_tree.load` of this tree; without ``provided`` what is loaded stays the same object."""
        if name not in self.files:
            own = next((file for file in candidates if self.has((file,), name)), None)
            self.files |= {name: own} if own else {}
        space = Space(self.root, self.aiter, provided) if provided else self.space
        return atom_tree.load(self.root, candidates, name, parameters, space=space)

    def value(self, candidates: Sequence[str], name: str) -> Any:
        """A constant or class of this tree, as `atom_tree.value`."""
        return atom_tree.value(self.root, candidates, name, space=self.space)

    def has(self, candidates: Sequence[str], name: str) -> bool:
        """Whether this tree defines ``name`` in one of the files; nothing is executed."""
        return atom_tree.has(self.root, candidates, name)

    def outcome(self, value: Any, subject: str, **facts: Any) -> base.Outcome:
        """``value`` as the answer of ATOM's function ``subject``."""
        told = {"subject": f"atom {subject}", "executor": self.executor, **facts}
        if subject in self.files:
            told["source"] = self.files[subject]
        return base.Outcome(value, facts=told)

    def _passed_on(self, request: Any) -> base.Outcome:
        assert self.under is not None
        answer = self.under.run(request)
        facts = {"subject": self.under.name, "executor": self.under.executor, **answer.facts}
        return replace(answer, facts=facts)
