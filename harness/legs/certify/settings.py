"""Were all samples asked the same, and the same as the base leg? A difference is named, not averaged over.

Contract: within a leg everything of the identity is equal but the address; against the base leg everything
but what is compared (`harness.legs.comparable`). Prompts are compared question by question as well, since a
hash in a manifest says what was planned, not what was sent; so are the questions that finished samples have.
What nobody knows (past lm-eval runs keep less) is named and holds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.legs import comparable
from harness.legs.certify.certificate import Point, Verdict
from harness.legs.certify.measured import Leg, Sample, several

NAME = "settings"


def point(leg: Leg, base: Leg | None) -> Point:
    """The point of ``leg`` against ``base`` (None: it has no sample)."""
    samples, other = leg.samples, base is not None and base.name != leg.name
    within = _merged(_compared([one], samples[at + 1 :], comparable.OWN) for at, one in enumerate(samples))
    against = _compared(base.samples, samples, comparable.FREE) if base is not None and other else ([], [])
    figures = {
        "within": within[0], "against_base": against[0], "unknown": [*within[1], *against[1]],
    }  # fmt: skip
    name = base.name if base is not None else ""
    for kind, verdict in enumerate((Verdict.FAILS, Verdict.UNKNOWN)):
        whole = "differ" if verdict is Verdict.FAILS else "cannot be compared"
        said = [f"samples of the leg {whole}: {'; '.join(within[kind])}"] if within[kind] else []
        said += [f"cannot be compared with {name}: {'; '.join(against[kind])}"] if against[kind] else []
        if said:
            return Point(NAME, verdict, "; ".join(said), figures=figures)
    bare = [text for sample in samples if (text := _bare(sample))]
    if bare:
        return Point(NAME, Verdict.UNKNOWN, "; ".join(bare), figures=figures)
    if base is None:
        return Point(NAME, Verdict.UNKNOWN, "the base leg has no sample to be compared with", figures=figures)
    return Point(NAME, Verdict.HOLDS, _holds(leg, base), figures=figures)


def _compared(one: Sequence[Sample], two: Sequence[Sample], free: Sequence[str]) -> comparable.Found:
    """A sentence for each difference, and for each thing of which nobody knows whether it differs.

    Prompts and questions one by one only where the prompts' hashes do not differ already.
    """
    mine, theirs = ([sample.where for sample in samples] for samples in (one, two))
    differ, unknown = comparable.differences(mine, theirs, free)
    found: list[comparable.Found] = [(differ, _unknown(unknown, ""))]
    if comparable.PROMPTS not in differ:
        found += [
            ([*_other_prompts(base, other), *_other_set(base, other)], [*_unknown_prompts(base, other)])
            for base in one
            for other in two
        ]
    return _merged(found)


def _other_prompts(base: Sample, other: Sample) -> Iterable[str]:
    asked = _hashes(base)
    pairs = [(asked[one], digest) for one, digest in _hashes(other).items() if one in asked]
    differ = sum(mine != theirs and None not in (mine, theirs) for mine, theirs in pairs)
    if differ:
        yield f"another prompt for {several(differ, 'question')} in {_name(other)} than in {_name(base)}"


def _unknown_prompts(base: Sample, other: Sample) -> Iterable[str]:
    for sample in (base, other):
        lacking = sum(digest is None for digest in _hashes(sample).values())
        if lacking:
            yield f"the prompt of {several(lacking, 'question')} in {_name(sample)} is not known"


def _other_set(base: Sample, other: Sample) -> Iterable[str]:
    """Only of finished samples: one that was cut short has fewer questions, and is told so elsewhere."""
    if {base.status, other.status} == {"finished"}:
        mine, theirs = set(_hashes(base)), set(_hashes(other))
        if mine != theirs:
            here, there = len(theirs - mine), len(mine - theirs)
            yield (
                f"other questions in {_name(other)} than in {_name(base)}"
                f" ({here} only here, {there} only there, {len(mine & theirs)} in both)"
            )


def _hashes(sample: Sample) -> dict[int, str | None]:
    return {int(record["question"]): record["prompt_hash"] for record in sample.records}


def _bare(sample: Sample) -> str:
    """What is not known of a sample that its comparison with others would need."""
    lacking = comparable.unknown(sample.where)
    if len(lacking) == len(comparable.NEEDED):
        return f"sample {sample.number} does not say what it was asked"
    return "".join(_unknown(lacking, f" of sample {sample.number}"))


def _unknown(names: Sequence[str], whose: str) -> list[str]:
    """One sentence, none without a name."""
    return [f"{', '.join(names)}{whose} {'is' if len(names) == 1 else 'are'} not known"] if names else []


def _name(sample: Sample) -> str:
    return f"{sample.where.leg} sample {sample.number}"


def _merged(found: Iterable[comparable.Found]) -> comparable.Found:
    """Each sentence once."""
    every = list(found)
    differ, unknown = (list(dict.fromkeys(text for one in every for text in one[kind])) for kind in (0, 1))
    return differ, unknown


def _holds(leg: Leg, base: Leg) -> str:
    """The servers' versions are told where they are not one, or nobody knows: they may be what differs."""
    alone = base.name == leg.name
    whose = "the same" if alone else f"those of {base.name}"
    said = f"prompts and settings are {whose} ({several(len(leg.samples), 'sample')})"
    mine, theirs = ([sample.where for sample in one.samples] for one in (base, leg))
    versions = "" if alone and len(mine) == 1 else comparable.versions(mine, theirs)
    return f"{said}; {versions}" if versions else said
