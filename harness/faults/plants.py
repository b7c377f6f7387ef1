"""What most faults are made of: a request that is changed before it is asked, or a changed answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from harness.faults.fault import Answer, Plant, Wrong
from harness.paths.base import Outcome

ChangeRequest = Callable[[Any], Any]
ChangeValue = Callable[[Any, Any], Any]
"""From (request, right value) to the value that is answered instead."""


def always(wrongs: Mapping[type, Wrong]) -> Plant:
    """The plant of ``wrongs``, which remember nothing."""
    return lambda: wrongs


def asking(change: ChangeRequest) -> Wrong:
    """The right answer to a changed request."""
    return lambda request, right: right(change(request))


def telling(change: ChangeValue) -> Wrong:
    """A changed value of the right answer; its findings and facts stay."""

    def answer(request: Any, right: Answer) -> Outcome:
        outcome = right(request)
        return replace(outcome, value=change(request, outcome.value))

    return answer
