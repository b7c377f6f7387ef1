"""All legs of a campaign pooled: each alone, each against the base leg, under both filters.

A leg that is refused (crashed, or a point of its certificate fails) is listed with its reason, without any
figure, and compared with nothing. The failures to fear: an accuracy of what a crash left over, which is read
as a score whatever stands beside it, and a leg that vanished, which looks as if it had never been asked for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pandas as pd

from harness.legs.pool import answers, between, words
from harness.legs.pool.answers import FILTERS, Alone, Interval, alone, disagreeing, matrix, single, summed
from harness.legs.pool.between import Between, paired, unpaired
from harness.legs.pool.words import Word


@dataclass(frozen=True)
class Judged:
    """A comparison with its verdict and the sentence that says it."""

    between: Between
    word: Word
    said: str


@dataclass(frozen=True)
class Pooled:
    """``legs`` by leg and filter, ``judged`` against the base leg, ``refused`` leg to reason.

    Of a leg in ``refused`` every number in ``legs`` and ``judged`` is undefined.
    ``disagreeing``: questions on which the filters disagree, by leg. ``acceptance``: mean accepted
    draft tokens a step, by leg, where the server told. ``known_bad``: legs that are wrong on purpose.
    """

    base: str
    margin: float
    legs: tuple[Alone, ...]
    judged: tuple[Judged, ...]
    refused: Mapping[str, str] = field(default_factory=dict)
    disagreeing: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    acceptance: Mapping[str, float] = field(default_factory=dict)
    known_bad: tuple[str, ...] = ()

    def records(self) -> dict[str, Any]:
        """JSON-able: undefined numbers are null."""
        return {
            "base": self.base,
            "margin": self.margin,
            "legs": [{**_plain(asdict(one)), "not_measured": self.refused.get(one.leg)} for one in self.legs],
            "comparisons": [
                _plain({**asdict(one.between), "verdict": str(one.word), "sentence": one.said})
                for one in self.judged
            ],
            "not_measured": dict(self.refused),
            "filters_disagree": {leg: list(questions) for leg, questions in self.disagreeing.items()},
            "acceptance_length": {leg: _plain(value) for leg, value in self.acceptance.items()},
            "positive_controls": list(self.known_bad),
        }


def pool(
    table: pd.DataFrame,
    *,
    base: str,
    margin: float,
    refused: Mapping[str, str] | None = None,
    acceptance: Mapping[str, float] | None = None,
    known_bad: Sequence[str] = (),
    caveat: str = "",
    fewer: Mapping[str, str] | None = None,
) -> Pooled:
    """Pool a table of samples (`harness.legs.journal.table`); ``margin`` as a proportion.

    ``known_bad``: legs that are wrong on purpose; they are pooled like others, and labelled. ``caveat``:
    what every "no difference" of the other legs carries. ``fewer``: leg to how many of the samples that
    were asked for it has, where that is not all; every comparison of it says so.

    A base leg that is not in the table has no answer: nothing is compared with it. Raises ValueError when
    it is not among ``refused`` either.
    """
    names, reasons = list(dict.fromkeys(map(str, table["leg"]))), dict(refused or {})
    if base not in names and base not in reasons:
        raise ValueError(f"base leg is {base!r}, allowed are {', '.join(names) or 'none'}")
    legs = [
        answers.unmeasured(leg, which) if leg in reasons else alone(table, leg, which)
        for leg in names
        for which in FILTERS
    ]
    judged = [
        _judged(table, (base, leg), which, margin, reasons, "" if leg in known_bad else caveat, fewer or {})
        for leg in names
        if leg != base and base in names
        for which in FILTERS
    ]
    differing = {leg: tuple(disagreeing(table, leg)) for leg in names if leg not in reasons}
    controls = tuple(leg for leg in names if leg in known_bad)
    return Pooled(
        base, margin, tuple(legs), tuple(judged), reasons, differing, dict(acceptance or {}), controls
    )


def of_counts(
    counts: Mapping[str, Sequence[tuple[int, int]]], *, base: str, margin: float, which: str = "flexible"
) -> Pooled:
    """Pool legs of which only (right, answered) a sample is known: unpaired, and labelled so."""
    legs = {leg: _of_counts(leg, which, samples) for leg, samples in counts.items()}
    if base not in legs:
        raise ValueError(f"base leg is {base!r}, allowed are {', '.join(legs) or 'none'}")
    judged = []
    for leg, one in legs.items():
        if leg == base:
            continue
        band = _band(legs[base], one)
        counted = legs[base].of_one_sample, one.of_one_sample
        found = unpaired(*counted, (base, leg), which, margin, band)
        judged.append(Judged(found, *words.judged(found)))
    return Pooled(base, margin, tuple(legs.values()), tuple(judged))


def _judged(
    table: pd.DataFrame,
    names: tuple[str, str],
    which: str,
    margin: float,
    reasons: Mapping[str, str],
    caveat: str,
    fewer: Mapping[str, str],
) -> Judged:
    why = next((f"leg {leg}: {reasons[leg]}" for leg in names if leg in reasons), "")
    if why:
        found = between.unmeasured(names, which, margin)
        return Judged(found, *words.judged(found, why))
    base, other = (matrix(table, leg, which) for leg in names)
    band = _band(summed(base, names[0], which), summed(other, names[1], which))
    found = paired(base, other, names, which, margin, band)
    word, said = words.judged(found, caveat=caveat)
    few = [f"; leg {leg} has {fewer[leg]}" for leg in names if leg in fewer]
    return Judged(found, word, said + "".join(few))


def _band(*legs: Alone) -> float:
    return max((leg.band for leg in legs if not math.isnan(leg.band)), default=math.nan)


def _of_counts(leg: str, which: str, samples: Sequence[tuple[int, int]]) -> Alone:
    """A leg of counts: its error is that of one sample, since the questions behind them are not known."""
    answered = sum(n for _, n in samples)
    rates = pd.Series([k / n for k, n in samples if n])
    several, nan = len(rates) > 1, math.nan
    accuracy = sum(k for k, _ in samples) / answered if answered else nan
    spread, band = (float(rates.std(ddof=1)), float(rates.max() - rates.min())) if several else (nan, nan)
    undefined = Interval(nan, nan, "undefined")
    one = Alone(leg, which, tuple(samples), accuracy, nan, undefined, spread, band, nan)
    error, interval = single(*one.of_one_sample)
    return replace(one, error=error, interval=interval)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value
