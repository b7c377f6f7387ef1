"""Were all samples asked the same, and the same as the base leg? A difference is named, not averaged over.

Contract: within a leg everything of the identity is equal but the address; against the base leg everything
but what is compared (`harness.legs.comparable`). Prompts are compared question by question as well, since a
hash in a manifest says what was planned, not what was sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from harness.legs import comparable
from harness.legs.certify.certificate import Point, Verdict
from harness.legs.certify.measured import Leg, Sample, several

NAME = "settings"


def point(leg: Leg, base: Leg | None) -> Point:
    """The point of ``leg`` against ``base`` (None: it has no sample)."""
    samples = leg.samples
    within = _told(
        text
        for at, one in enumerate(samples)
        for text in _differences([one], samples[at + 1 :], comparable.OWN)
    )
    against: list[str] = []
    if base is not None and base.name != leg.name:
        against = _told(_differences(base.samples, samples, comparable.FREE))
    name = base.name if base is not None else ""
    wrong = [f"samples of the leg differ: {'; '.join(within)}"] if within else []
    wrong += [f"cannot be compared with {name}: {'; '.join(against)}"] if against else []
    figures = {"within": within, "against_base": against}
    if wrong:
        return Point(NAME, Verdict.FAILS, "; ".join(wrong), figures=figures)
    bare = [sample.number for sample in leg.samples if not sample.manifest["identity"].get("prompts")]
    if bare:
        said = f"sample {', '.join(map(str, bare))} does not say what it was asked"
        return Point(NAME, Verdict.UNKNOWN, said, figures=figures)
    if base is None:
        return Point(NAME, Verdict.UNKNOWN, "the base leg has no sample to be compared with", figures=figures)
    return Point(NAME, Verdict.HOLDS, _holds(leg, base), figures=figures)


def _differences(one: Sequence[Sample], two: Sequence[Sample], free: Sequence[str]) -> Iterator[str]:
    """A sentence for each difference; prompts of single questions only where their hashes hide it."""
    mine, theirs = ([sample.where for sample in samples] for samples in (one, two))
    found = comparable.differences(mine, theirs, free)
    yield from found
    if comparable.PROMPTS not in found:
        yield from _other_prompts(one, two)


def _other_prompts(one: Sequence[Sample], two: Sequence[Sample]) -> Iterator[str]:
    for base in one:
        asked = {record["question"]: record["prompt_hash"] for record in base.records}
        for other in two:
            differ = sum(
                asked.get(record["question"], record["prompt_hash"]) != record["prompt_hash"]
                for record in other.records
            )
            if differ:
                count = several(differ, "question")
                yield f"another prompt for {count} in {_name(other)} than in {_name(base)}"


def _name(sample: Sample) -> str:
    return f"{sample.where.leg} sample {sample.number}"


def _told(sentences: Iterable[str]) -> list[str]:
    """Each sentence once."""
    return list(dict.fromkeys(sentences))


def _holds(leg: Leg, base: Leg) -> str:
    whose = "the same" if base.name == leg.name else f"those of {base.name}"
    return f"prompts and settings are {whose} ({several(len(leg.samples), 'sample')})"
