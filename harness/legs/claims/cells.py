"""One cell of somebody's table: a proportion with its error and count, or a number of questions.

Contract: a cell is a figure as a whole or it is none. The failure to fear is a part of a cell that is taken
for the figure: of "95,30 %" the 30 %, of "95.53 % ± 0.57 %" the error.
"""

from __future__ import annotations

import re
from fractions import Fraction

from harness.legs.claims.arithmetic import Printed, printed
from harness.legs.claims.reported import Score

NUMBER = r"(\d{1,3}(?:\.\d{1,40})?|\.\d{1,40})\s?(%?)"
ERROR = re.compile(rf"(?:±|\+/-|\+-)?\s*{NUMBER}", re.ASCII)
COUNT = r"(?:\s*\((\d{1,7})\))?"
SCORE = re.compile(rf"{NUMBER}{COUNT}(?:\s*\(?\s*(?:±|\+/-|\+-)\s*{NUMBER}\s*\)?)?{COUNT}", re.ASCII)
"""A proportion, the count behind it in parentheses and its error if given, in either order."""

PROPORTION = re.compile(r"0?\.\d{2,40}|1\.0{1,40}|\d{1,3}(?:\.\d{1,40})?\s?%", re.ASCII)
"""What nothing but a proportion looks like, wherever it stands."""

QUESTIONS = re.compile(r"(\d{1,40}|\d{1,3}(?:[, _'’]\d{3}){1,12})(?:\.0{1,40})?", re.ASCII)
"""A whole number, its thousands apart or not."""


def score(text: str) -> Score | None:
    """The figure that ``text`` is; None where it is none. A number above 1 is one of percent."""
    found = SCORE.fullmatch(text)
    if found is None or Fraction(found[1]) > 100:
        return None
    percent = found[2] or Fraction(found[1]) > 1
    figure = printed(f"{found[1]}%" if percent else found[1])
    own = None if found[4] is None else _error(found[4], found[5], found[1] + found[2])
    count = found[3] or found[6]
    return Score(figure, int(count) if count else None, own)


def error(text: str, beside: str) -> Printed | None:
    """The error of the figure ``beside`` that ``text`` gives; None for none, or for one of no known unit."""
    found, of = ERROR.fullmatch(text), SCORE.fullmatch(beside)
    return _error(found[1], found[2], of[1] + of[2]) if found and of else None


def _error(number: str, sign: str, figure: str) -> Printed | None:
    """None for an error without a sign beside a percentage with one: either unit could be meant."""
    if figure.endswith("%") and not sign:
        return None
    return printed(f"{number}%" if sign or Fraction(figure) > 1 else number)


def questions(text: str) -> int | None:
    """The whole number that ``text`` is; None where it is none."""
    found = QUESTIONS.fullmatch(text)
    return int(re.sub(r"\D", "", found[1])) if found else None
