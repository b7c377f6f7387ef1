"""Did every question get a whole answer? A failed request is no wrong answer, and a cut reply no answer.

Contract: every sample is finished, has all its questions and no other, no failed request, and no larger share
of cut, empty or stopped replies than the campaign allows. A sample that does not say how many questions it
was to have may be the beginning of one. Where neither a finish reason nor a token count was
kept (past lm-eval runs), nobody can tell a whole reply from a cut one. Fewer samples than the campaign asks
for are told, and each of them counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from harness.legs.certify.certificate import Point, Verdict
from harness.legs.certify.measured import Leg, Sample, several
from harness.legs.evaluation.replies import INVALID
from harness.legs.journal import STATUSES

NAME = "answers"
LIMITED = ("empty", "truncated", "stopped")
"""Statuses of which a campaign may allow a share, each under a field of that name."""

ENDED = ("finished", "crashed")
"""Statuses of a sample on which nobody works any more; every other one may still be continued."""


def point(leg: Leg) -> Point:
    """The point of ``leg``."""
    found = figures(leg)
    wrong = [text for sample in leg.samples for text in _wrong(sample)] + list(_beyond(leg))
    more = _fewer(found) + _duplicates(found)
    if wrong:
        return Point(NAME, Verdict.FAILS, "; ".join(wrong) + more, figures=found)
    if found["unsized"]:
        whose = f"sample {', '.join(map(str, found['unsized']))}"
        said = f"{_counts(found)}; how many questions {whose} was to have is not known"
        return Point(NAME, Verdict.UNKNOWN, said + more, figures=found)
    untold = found["untold"]
    if untold:
        said = f"{_counts(found)}; how {untold} of them ended is not known, so a cut one cannot be told"
        return Point(NAME, Verdict.UNKNOWN, said + more, figures=found)
    return Point(NAME, Verdict.HOLDS, _counts(found) + more, figures=found)


def figures(leg: Leg) -> dict[str, Any]:
    """Counts over all samples; ``untold``: replies of which nobody knows how they ended.

    ``unsized``: numbers of the samples of which nobody knows how many questions they were to have.
    """
    statuses = Counter(str(one["status"]) for one in leg.records)
    questions, sample = max((_most_alike(one), one.number) for one in leg.samples)
    return {
        "samples": len(leg.samples),
        "asked_samples": leg.asked.campaign.repeats if leg.asked.campaign else None,
        "expected": sum(one.expected for one in leg.samples),
        **{status: statuses[status] for status in STATUSES},
        "untold": sum(_untold(one) for one in leg.records),
        "unsized": [one.number for one in leg.samples if not one.sized],
        "unfinished": sum(one.status not in ENDED for one in leg.samples),
        "crashed": sum(one.status == "crashed" for one in leg.samples),
        "alike": questions,
        "alike_sample": sample,
    }


def _wrong(sample: Sample) -> Iterator[str]:
    number, count = sample.number, len(sample.records)
    statuses = Counter(str(one["status"]) for one in sample.records)
    if sample.status != "finished":
        yield f"sample {number} is {sample.status} ({count} of {sample.expected} questions)"
    elif count != sample.expected or not count:
        yield f"sample {number} has {count} of {sample.expected} questions"
    if statuses["failed"]:
        yield f"sample {number} has {several(statuses['failed'], 'failed request')}"


def _beyond(leg: Leg) -> Iterator[str]:
    """Shares of `LIMITED` above what is allowed; samples with the same share have one sentence."""
    alike: dict[tuple[str, int, int], list[str]] = {}
    for sample in leg.samples:
        statuses = Counter(str(one["status"]) for one in sample.records)
        for status in LIMITED:
            if statuses[status] / max(sample.expected, 1) > getattr(leg.asked.certify, status):
                key = status, statuses[status], sample.expected
                alike.setdefault(key, []).append(str(sample.number))
    for (status, count, expected), numbers in alike.items():
        whose = f"sample {numbers[0]}" if len(numbers) == 1 else f"each of samples {', '.join(numbers)}"
        share, allowed = count / max(expected, 1), getattr(leg.asked.certify, status)
        said = f"{count} of {expected} replies of {whose} are {status}"
        yield f"{said} ({100 * share:.2f} %, allowed {100 * allowed:.2f} %)"


def _untold(record: dict[str, Any]) -> bool:
    """Whether nobody knows how a reply ended that no token limit is known to have cut.

    A count of tokens tells it only of a reply with an answer; one without may have run to its limit.
    """
    nothing = INVALID == record["strict"] == record["flexible"]
    known = record["finish_reason"] is not None or (record["completion_tokens"] is not None and not nothing)
    return record["status"] in ("answered", "stopped") and not known


def _most_alike(sample: Sample) -> int:
    """Questions that were given one and the same reply, for the reply with the most of them."""
    texts = Counter(str(one["reply"]).strip() for one in sample.records if one["reply"])
    return max(texts.values(), default=0)


def _fewer(found: dict[str, Any]) -> str:
    if found["asked_samples"] is None or found["samples"] >= found["asked_samples"]:
        return ""
    return (
        f"; it has {found['samples']} of the {several(found['asked_samples'], 'sample')} that are asked for"
    )


def _duplicates(found: dict[str, Any]) -> str:
    if found["alike"] < 2:
        return ""
    return f"; one reply was given to {found['alike']} different questions (sample {found['alike_sample']})"


def _counts(found: dict[str, Any]) -> str:
    said = f"{found['answered']} of {found['expected']} answered"
    others = [f"{found[status]} {status}" for status in (*LIMITED, "failed")]
    return f"{said}, {', '.join(others)} ({several(found['samples'], 'sample')})"
