"""What a noisy search came to: lines, Markdown and records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.bisect.noisy import CHANCE, Noisy, Taken, share
from harness.bisect.outcome import escaped, named, named_in_markdown, short
from harness.bisect.posterior import Search
from harness.bisect.repository import Commit


def step(taken: Taken, search: Search, commit: Commit) -> str:
    """One sample, and where the search stands after it."""
    measured = taken.measured
    if measured.sample is None:
        said = f"cannot be told: {measured.why}"
    else:
        said = share([measured.sample]) + (", a copy of an earlier sample: left out" if taken.copy else "")
    kept = " (kept)" if measured.kept else ""
    best, sure = search.answer()
    stands = f"first bad is {_numbers(best)} of {search.last} with probability {sure:.2f}"
    return f"{taken.commit:>3} {short(commit)}\n      sample {taken.number}{kept}: {said}; {stands}"


def _numbers(group: Sequence[int]) -> str:
    return str(group[0]) if len(group) == 1 else f"{group[0]} to {group[-1]}"


def limits(found: Noisy) -> list[str]:
    """Sentences that limit the answer: a drift, copies; empty where nothing does."""
    said = []
    if found.scatter < CHANCE:
        said.append(
            f"samples of single commits differ more than chance allows (p = {found.scatter:.1g}): "
            "the server drifts, or is not what the commit says, and the probability means little"
        )
    copies = sum(one.copy for one in found.taken)
    if copies:
        said.append(f"{copies} samples repeat earlier ones of their commit and were left out")
    return said


def conclusion(found: Noisy, candidates: Sequence[Commit], sure: float) -> str:
    """The answer as people read it."""
    count = f"{len(found.taken)} samples"
    if len(candidates) == 1:
        lines = [*named(candidates[0]), f"  probability {sure:.3f}, by {count}"]
    else:
        lines = [
            f"the first bad commit is one of {len(candidates)}, with probability {sure:.3f}, by {count}:"
        ]
        lines += [f"  {short(one)}" for one in candidates]
    return "\n".join([*lines, *limits(found)])


def markdown(
    found: Noisy, commits: Sequence[Commit], candidates: Sequence[Commit], sure: float, about: dict[str, Any]
) -> str:
    """The summary for an issue; ``commits``: all, in the order of the search."""
    lines = ["# First bad commit, by an accuracy leg", ""]
    if len(candidates) == 1:
        lines += [*named_in_markdown(candidates[0]), ""]
        lines += [f"Probability {sure:.3f}, by {len(found.taken)} samples."]
    else:
        lines += [f"One of {len(candidates)}, with probability {sure:.3f}:", ""]
        lines += [f"- `{one.short}` {escaped(one.subject)}" for one in candidates]
    lines += ["", *(f"{sentence[0].upper()}{sentence[1:]}." for sentence in limits(found)), ""]
    lines += [
        f"Leg {about['leg']} of {about['campaign']}, filter {about['filter']}; bad commits are right less "
        f"often by {100 * found.margin:g} points or more, and each is as likely before anything is measured.",
        "",
        "| commit | date | subject | samples | right | first bad |",
        "| --- | --- | --- | ---: | ---: | ---: |",
    ]
    at = found.search.probabilities()
    for number, commit in enumerate(commits):
        samples = found.search.samples.get(number, [])
        failed = [one.measured.why for one in found.taken if one.commit == number and one.measured.why]
        if not samples and not failed:
            continue
        right = share(samples) if samples else f"cannot be told: {failed[0]}"
        cells = [f"`{commit.short}`", commit.date[:10], commit.subject, str(len(samples)), right]
        lines.append(f"| {' | '.join(map(escaped, [*cells, f'{at[number]:.3f}']))} |")
    return "\n".join(lines) + "\n"


def records(found: Noisy) -> list[dict[str, Any]]:
    """JSON-able: a record for each sample, in the order taken."""
    return [
        {
            "commit": found.commits[one.commit],
            "number": one.number,
            "right": one.measured.sample.right if one.measured.sample else None,
            "asked": one.measured.sample.asked if one.measured.sample else None,
            "why": one.measured.why,
            "copy": one.copy,
        }
        for one in found.taken
    ]
