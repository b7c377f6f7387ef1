"""What a difference looks like that no fault of the catalogue gives: which cells, by how much, moved whither.

Contract: `lines` says only what holds for every differing cell, or counts for how many it holds. It describes
the first request whose answer differs; those after it were asked about what came before. How it would fail
silently: a sentence about a few cells that is read as one about all; so every sentence has its count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import torch
from torch import Tensor

from harness.diagnose import addresses, hypotheses, scorewise
from harness.diagnose.answers import Answered, Observed
from harness.diagnose.scorewise import Scored

LISTED = 8
"""Values of a coordinate that are listed one by one."""
ULPS = ((1, 1), (2, 3), (4, 15), (16, 255), (256, 65535), (65536, 1 << 33))


def first_difference(seen: Observed, clean: Observed) -> tuple[int, Answered, Answered] | None:
    """(number among its kind, the path's answer, the oracle's) of the first request answered otherwise."""
    theirs: dict[str, list[Answered]] = {}
    for one in clean.answers:
        theirs.setdefault(one.kind, []).append(one)
    met: Counter[str] = Counter()
    for one in seen.answers:
        number = met[one.kind]
        met[one.kind] += 1
        if number < len(theirs.get(one.kind, ())) and not one.same(theirs[one.kind][number]):
            return number, one, theirs[one.kind][number]
    return None


Read = tuple[Observed, Observed] | None


def lines(seen: Observed, clean: Observed, read: Read = None) -> list[tuple[str, str]]:
    """Label and text of what can be said of the difference between ``seen`` and the oracle's ``clean``.

    ``read``: the same case in fill address, on the path and on the oracle.
    """
    read = (seen, clean) if seen.case.f == "address" else read
    found = first_difference(seen, clean)
    if found is None:
        return [("answers", "no answer differs in what is compared; the verdict is about something else")]
    number, got, want = found
    said = [("request", f"{got.kind}, the {_nth(number + 1)} of the case")]
    if got.word != want.word:
        return [*said, ("answer", f"the path: {got.word}, the oracle: {want.word}")]
    if Scored.can(got):
        return [*said, *_scores(seen, got, want), *_read(read)]
    return [*said, *_tensors(got, want)]


def _nth(number: int) -> str:
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number, 'th') }"


def _tensors(got: Answered, want: Answered) -> Iterator[tuple[str, str]]:
    for name in want.cells:
        mine, right = got.cells.get(name), want.cells[name]
        if mine is None or mine.shape != right.shape:
            came = "nothing" if mine is None else str(list(mine.shape))
            yield name, f"has shape {came}, the oracle's {list(right.shape)}"
        elif not torch.equal(mine, right):
            yield name, "; ".join(integers(mine, right))


def integers(got: Tensor, want: Tensor) -> Iterator[str]:
    """Sentences about int64 tensors of one shape that differ."""
    wrong = got != want
    cells = wrong.nonzero()
    yield f"{len(cells)} of {want.numel()} differ"
    for axis, size in enumerate(want.shape):
        places = cells[:, axis].unique()
        if size > 1 and len(places) < size:
            yield f"axis {axis} {listed(places)} of {size}"
    steps = Counter((got - want)[wrong].tolist()).most_common(3)
    if steps[0][1] == len(cells) and len(cells) > 1:
        yield f"each is {steps[0][0]:+d}"
    elif len(steps) < 4 and sum(count for _, count in steps) == len(cells):
        yield "by " + ", ".join(f"{step:+d} ({count})" for step, count in steps)
    if bool((got[wrong] == (want[wrong] >> 4 & 15 | (want[wrong] & 15) << 4)).all()):
        yield "each is the right byte with its nibbles swapped"
    for axis in range(want.dim()):
        moved = moved_along(got, want, axis)
        if moved:
            yield moved
            return
    if torch.equal(got.flatten().sort().values, want.flatten().sort().values):
        yield "the same values in other places"


def moved_along(got: Tensor, want: Tensor, axis: int, called: str = "") -> str:
    """Which slice of ``want`` along ``axis`` each differing slice of ``got`` is; empty unless all are one."""
    mine, right = (part.movedim(axis, 0).reshape(part.shape[axis], -1) for part in (got, want))
    wrong = (mine != right).any(1).nonzero().flatten().tolist()
    if not wrong or mine.shape[0] < 2 or mine.shape[0] * len(wrong) > 1 << 20:
        return ""
    pairs = []
    for place in wrong:
        same = (right == mine[place]).all(1).nonzero().flatten()
        if not len(same):
            return ""
        pairs.append((place, int(same[(same - place).abs().argmin()])))
    called = called or f"axis {axis}"
    steps = {there - here for here, there in pairs}
    if len(steps) == 1:
        sign, step = "+" if pairs[0][1] > pairs[0][0] else "-", abs(steps.pop())
        return f"what is at {called} p is right for p {sign} {step} ({len(pairs)} of {mine.shape[0]})"
    shown = ", ".join(f"{here} holds {there}" for here, there in pairs[:LISTED])
    return f"{called} permuted: {shown}{' ...' if len(pairs) > LISTED else ''}"


def listed(values: Tensor) -> str:
    """``3, 4, 7`` or ``0 to 63 in steps of 1 (64 values)`` or the number of them and the ends."""
    numbers = values.tolist()
    if len(numbers) <= LISTED:
        return ", ".join(map(str, numbers))
    steps = values.diff().unique()
    if len(steps) == 1:
        return f"{numbers[0]} to {numbers[-1]} in steps of {int(steps[0])}"
    return f"{len(numbers)} values from {numbers[0]} to {numbers[-1]}"


def _scores(seen: Observed, got: Answered, want: Answered) -> Iterator[tuple[str, str]]:
    scored = Scored(seen.case, got, want)
    if scored.mine.shape != scored.right.shape:
        yield "shape", f"{list(scored.mine.shape)}, the oracle's {list(scored.right.shape)}"
        return
    yield "cells", scored.where()
    yield from (("pattern", said) for said in scored.patterns())
    for label, said in (
        ("ulps", histogram(scored)),
        ("factor", scored.factor()),
        ("rows", moved_along(scored.mine, scored.right, 0, "row")),
        ("columns", scored.columns()),
        ("heads", hypotheses.coefficients(scored)),
        ("rule", hypotheses.rules(scored)),
    ):
        if said:
            yield label, said


def _read(read: Read) -> Iterator[tuple[str, str]]:
    """Which bytes were read, by a case in fill address."""
    found = first_difference(*read) if read else None
    if read and found and Scored.can(found[1]):
        said = addresses.said(Scored(read[0].case, found[1], found[2]))
        if said:
            yield "read", said


def histogram(scored: Scored) -> str:
    """How far apart the values are, counted by steps of the format."""
    got, want = scored.values()
    numbers = ~(got.isnan() | want.isnan())
    rank_got, rank_want = scorewise.rank(got[numbers]), scorewise.rank(want[numbers])
    apart = (rank_got - rank_want).abs()
    said = [
        f"{low if low == high else f'{low} to {high}' if high < 1 << 33 else f'{low} and more'}: {count}"
        for low, high in ULPS
        if (count := int(((apart >= low) & (apart <= high)).sum()))
    ]
    for name, count in (
        ("NaN for a number", int((got.isnan() & ~want.isnan()).sum())),
        ("a number for NaN", int((want.isnan() & ~got.isnan()).sum())),
        ("other sign", int(((got.signbit() != want.signbit()) & numbers).sum())),
    ):
        said += [f"{name}: {count}"] if count else []
    return ", ".join(said)
