"""Who ran what in each stage of a pipeline: function, file of the tree, and how it was run.

A stage that the oracle answered says why the path did not, so that a chain of which only one stage is
production code cannot pass for production code from end to end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from harness.findings import Finding
from harness.paths import base
from harness.paths.wrapped import Wrapped

HOW = {
    "emulated HIP": "HIP, emulated",
    "emulated": "FlyDSL, emulated",
    "interpreted": "Python, Triton interpreter",
}
"""Executors as people call them; any other is called as it is."""
STOOD_IN = "oracle stood in"


class Witness(Wrapped):
    """``inner``, with a record of each request since `took` was last called."""

    def __init__(self, inner: base.Path) -> None:
        super().__init__(inner)
        self._seen: list[dict[str, str]] = []

    def around(self, method: Callable[[Any], base.Outcome]) -> Callable[[Any], base.Outcome]:
        return method

    def run(self, request: Any) -> base.Outcome:
        name = type(request).__name__
        try:
            outcome = self.inner.run(request)
        except base.OutOfScope as refusal:
            self._saw(name, "", "", STOOD_IN, str(refusal))
            raise
        facts = outcome.facts
        executor = str(facts.get("executor", self.inner.executor))
        function = str(facts.get("function", facts.get("subject", self.inner.name)))
        self._saw(name, function, str(facts.get("source", "")), HOW.get(executor, executor))
        return outcome

    def _saw(self, request: str, function: str, source: str, how: str, why: str = "") -> None:
        seen = {"request": request, "function": function, "source": source, "how": how, "why": why}
        if seen not in self._seen:
            self._seen.append(seen)

    def took(self, stage: str, findings: Sequence[Finding]) -> list[dict[str, Any]]:
        """Records of what ``stage`` asked: stage, request, function, source, how, why, and findings.

        ``findings``: what the stage found, as records; they stand with the stage's last request.
        """
        records: list[dict[str, Any]] = [{"stage": stage, **seen, "findings": []} for seen in self._seen]
        self._seen.clear()
        if records:
            records[-1]["findings"] = [finding.to_record() for finding in findings]
        return records
