"""Changes of sequences, rows, windows and lengths of a case, and what must follow from a change.

Contract: a change is a dict of fields; sequences that go take their query counts and windows along, and
windows never reach past a length that shrank. Fails silently if a renumbered window lands in another
sequence: the case is valid, but is no part of the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from harness.case.case_text import Window
from harness.case.cases import Case

Change = dict[str, Any]
T = TypeVar("T")


def shorter(members: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """``members`` without a half, a quarter ... one of them; never empty."""
    size = len(members) // 2
    while size > 0:
        for start in range(0, len(members), size):
            kept = (*members[:start], *members[start + size :])
            if kept:
                yield kept
        size //= 2


def capped(values: Sequence[int]) -> Iterator[int]:
    """Bounds under the largest of ``values``: 0, then from half of it to one less."""
    largest = step = max(values, default=0)
    while step > 0:
        yield largest - step
        step //= 2


def fewer_sequences(case: Case) -> Iterator[Change]:
    for kept in shorter(range(len(case.ctx))):
        yield _only(case, kept)


def longest_alone(case: Case) -> Change:
    """The longest sequence with what is its own; nothing where there is but one."""
    if len(case.ctx) < 2:
        return {}
    return _only(case, [case.ctx.index(max(case.ctx))])


def fewer_rows(case: Case) -> Iterator[Change]:
    """Windows, or queries of single sequences."""
    for kept in shorter(case.w):
        yield {"w": kept if case.ctx else _renumbered(kept)}
    for place, count in enumerate(case.q):
        for fewer in capped((count,)):
            yield {"q": (*case.q[:place], fewer, *case.q[place + 1 :])}


def lower_lengths(case: Case) -> Iterator[Change]:
    """All lengths under one bound, then each by itself."""
    for bound in capped(case.ctx) if len(case.ctx) > 1 else ():
        yield {"ctx": tuple(min(length, bound) for length in case.ctx)}
    for place, length in enumerate(case.ctx):
        for lower in capped((length,)):
            yield {"ctx": (*case.ctx[:place], lower, *case.ctx[place + 1 :])}


def smaller_windows(case: Case) -> Iterator[Change]:
    """Windows that start or end earlier, first with their length kept."""
    for place, (seq, start, end) in enumerate(case.w):
        moved = [(begin, end - start + begin) for begin in capped((start,))]
        begun = [(begin, end) for begin in capped((start,))]
        ended = [(start, start + size) for size in capped((end - start,))]
        for first, last in (*moved, *begun, *ended):
            yield {"w": (*case.w[:place], (seq, first, last), *case.w[place + 1 :])}


def fewer_replays(case: Case) -> Iterator[Change]:
    """Fewer vectors of lengths, vectors of fewer, lower lengths (suite replay)."""
    for kept in shorter(case.v):
        yield {"v": kept}
    for place, vector in enumerate(case.v):
        head, tail = case.v[:place], case.v[place + 1 :]
        for members in shorter(vector):
            yield {"v": (*head, members, *tail)}
        for at, length in enumerate(vector):
            for lower in capped((length,)):
                yield {"v": (*head, (*vector[:at], lower, *vector[at + 1 :]), *tail)}


CHANGES: tuple[Callable[[Case], Iterator[Change]], ...] = (
    fewer_sequences,
    fewer_rows,
    fewer_replays,
    lower_lengths,
    smaller_windows,
)
"""Changes in the order they are tried: fewer things first, then smaller ones."""


def fitted(case: Case, changes: Change) -> Change:
    """``changes`` and what follows: windows inside their lengths, units of whole slots, one rank's share."""
    after = dict(changes)
    ctx = after.get("ctx", case.ctx)
    if ctx and case.w:
        after["w"] = tuple(_inside(window, ctx) for window in after.get("w", case.w))
    batch = len(ctx) if ctx else case.batch
    if "ub" in case.names:
        after["ub"] = min(after.get("ub", case.ub), max(1, batch))
    if "inter" in case.names and after.get("world") == 1:
        after["inter"] = 1
    if case.kind == "decode" and "u" not in changes and any(case.u):
        rows = after.get("n", case.n)
        counts = (rows * max(batch, units // case.n) if units else 0 for units in case.u)
        after["u"] = tuple(dict.fromkeys(counts)) if len(case.u) > 1 else tuple(counts)
    return after


def _inside(window: Window, ctx: Sequence[int]) -> Window:
    seq, start, end = window
    end = min(end, ctx[seq])
    return seq, min(start, end), end


def _only(case: Case, kept: Sequence[int]) -> Change:
    """The sequences ``kept`` with what is theirs, numbered from 0; sequences that no row sees stay."""
    found: Change = {"ctx": tuple(case.ctx[place] for place in kept)}
    if case.q:
        found["q"] = tuple(case.q[place] for place in kept)
    if case.w:
        number = {place: new for new, place in enumerate(kept)}
        found["w"] = tuple((number[seq], start, end) for seq, start, end in case.w if seq in number)
    return found


def _renumbered(windows: Sequence[Window]) -> tuple[Window, ...]:
    """Sequences numbered from 0, where no lengths go with them."""
    number = {seq: new for new, seq in enumerate(dict.fromkeys(seq for seq, _, _ in windows))}
    return tuple((number[seq], start, end) for seq, start, end in windows)
