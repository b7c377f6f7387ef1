"""Which request of a failing case is the wrong one, and what its right answer is.

Contract: the first that differs from the oracle's answer to it, that raises, that has the finding, or that
makes none of the right choices (see `choice`); each is judged by the code that the script has. How this would
fail silently: one answer is taken for the only right one; so only those in `ONE_ANSWER` are held against one.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from torch import Tensor, tensor

from harness.judge.bits import bits_of
from harness.judge.ledger import Ledger
from harness.judge.verdict import Status, Verdict
from harness.paths.oracle import OraclePath
from harness.paths.requests import scoring, sharding, staging, writing
from harness.reduce import choice as choices
from harness.reduce import template
from harness.reduce.choice import Choice
from harness.reduce.recording import Asked

ONE_ANSWER = (
    scoring.DecodeScores,
    scoring.PrefillScores,
    scoring.VarqlenScores,
    scoring.DecodeSchedule,
    scoring.PrefillSchedule,
    scoring.VarqlenWindows,
    writing.Quantise,
    writing.WriteKeys,
    sharding.Owners,
    sharding.LocalIndices,
    sharding.GlobalPositions,
    sharding.LocalLengths,
    sharding.RowLengths,
    sharding.LocalWidth,
    sharding.WriteSlots,
    sharding.PackCandidates,
    sharding.LocaliseIds,
    sharding.LocaliseColumns,
    staging.GatherPlan,
)
"""Requests whose right answer is one; rounded keys, for example, may have several."""
Want = list[Tensor] | Choice | None
"""Tensors, what is to be chosen from, or an exception."""


def failing(every: list[Asked], verdict: Verdict, ledger: Ledger) -> tuple[Asked | None, Want, str]:
    """(the request, the answer that is wanted, why there is none)."""
    why = "no request of the case fails by itself"
    whole = exchanges(every)
    for asked in every:
        if verdict.status is Status.ERROR:
            if asked.error is not None:
                return _whole(asked, [])
            continue
        if asked.outcome is None:
            continue
        if verdict.layer == "finding":
            if ledger.split(asked.outcome.findings, verdict.path)[1]:
                return _whole(asked, [])
            continue
        if asked.spec is None:
            why = asked.why
            continue
        choice = whole.get(id(asked)) or choices.of(again(asked))
        if choice is not None:
            if misses(asked.answer, choice):
                return _whole(asked, choice)
            continue
        if not isinstance(asked.request, ONE_ANSWER):
            why = "what differs comes from requests that may have several right answers"
            continue
        want = wanted(asked)
        if want is None or not _equal(parts(asked.answer), want):
            return _whole(asked, want)
    return None, None, why


def exchanges(every: list[Asked]) -> dict[int, Choice]:
    """``id`` of each request that is a whole exchange, to what it chooses from, which takes all ranks."""
    ranks: dict[int, list[Asked]] = {}
    for asked in every:
        if isinstance(asked.request, sharding.Exchange) and asked.spec is not None:
            ranks.setdefault(asked.request.place.rank, []).append(asked)
    found: dict[int, Choice] = {}
    for step in zip(*(ranks[rank] for rank in sorted(ranks)), strict=False):
        choice = choices.of_ranks([again(asked) for asked in step])
        found |= {id(asked): choice for asked in step}
    return found


def misses(answer: Any, choice: Choice) -> bool:
    """Whether ``answer`` is none of the right choices, by the rule that the script has."""
    rule = {name: value for name, value in vars(choice).items() if name != "part"}
    taken = answer if choice.part is None else answer[choice.part]
    return not isinstance(taken, Tensor) or space()["misses"](taken, **rule) is not None


def _whole(asked: Asked, want: Want) -> tuple[Asked | None, Want, str]:
    return (asked, want, "") if asked.spec is not None else (None, None, asked.why)


def wanted(asked: Asked) -> list[Tensor] | None:
    """The oracle's answer to the same request; None where it refuses."""
    try:
        return parts(OraclePath().run(again(asked)).value)
    except ValueError:
        return None


def again(asked: Asked) -> Any:
    """The request, built by the code that the script has."""
    tensors = {name: one.clone() for name, one in asked.store.tensors.items()}
    return space()["build"](asked.spec, tensors, "cpu")


@cache
def space() -> dict[str, Any]:
    """What a script defines."""
    made: dict[str, Any] = {"__name__": "repro", "__file__": "repro.py"}
    blank = dict.fromkeys(("title", "about", "usage", "files", "want", "finding", "choice", "spec"), "()")
    exec(template.HEAD.format(**blank), made)
    return made


def parts(value: Any) -> list[Tensor]:
    parts = value if isinstance(value, tuple | list) else (value,)
    return [part if isinstance(part, Tensor) else tensor(part) for part in parts]


def _equal(got: list[Tensor], want: list[Tensor]) -> bool:
    def same(one: Tensor, other: Tensor) -> bool:
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        both = one.isnan() & other.isnan()
        left, right = (bits_of(part) if part.dtype.itemsize == 4 else part for part in (one, other))
        return bool(((left == right) | both).all())

    return len(got) == len(want) and all(map(same, got, want))
