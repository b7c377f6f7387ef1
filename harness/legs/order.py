"""In which order samples are taken, so that a drift of the machine is no difference between legs."""

from __future__ import annotations

from collections.abc import Sequence


def samples(legs: Sequence[str], repeats: int, order: str) -> list[tuple[str, int]]:
    """(leg, number from 1) in order: ``abba`` turns every second round; ``blocks`` has no rounds."""
    if order == "blocks":
        return [(leg, number) for leg in legs for number in range(1, repeats + 1)]
    turned = order == "abba"
    return [
        (leg, number)
        for number in range(1, repeats + 1)
        for leg in (reversed(legs) if turned and number % 2 == 0 else legs)
    ]
