"""A value of somebody else's file as a sentence can hold it: short, in one line, whatever it is.

Contract: what is shown never raises and never fills a screen. The failure to fear is a sentence that nobody
reads to its end, where it says what is allowed.
"""

from __future__ import annotations

LONGEST = 80
"""Letters of a value that are shown."""


def short(value: object, longest: int = LONGEST) -> str:
    """``value`` as Python writes it, cut at ``longest`` letters."""
    try:
        return cut(repr(value), longest)
    except ValueError:
        return "a number of thousands of digits"
    except RecursionError:
        return "a value nested too deep to be shown"


def cut(text: str, longest: int = LONGEST) -> str:
    """``text`` as it is, cut at ``longest`` letters."""
    return text if len(text) <= longest else text[:longest] + "..."
