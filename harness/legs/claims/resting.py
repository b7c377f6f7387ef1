"""Which points of a leg's certificate a claim about it rests on, and what is said of the others.

Contract: a point that is not rested on is named as a limit of the answer, never dropped. The failure to fear
is an answer that a point would have forbidden: how replies ended, which past lm-eval runs do not tell, can
make a leg look worse, so such a run carries "reproduced" and not a loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.legs.certify import answers, prompts
from harness.legs.certify.certificate import Certificate, Point, Verdict
from harness.legs.certify.measured import Leg as Measured
from harness.legs.claims import regime
from harness.legs.claims.reported import Leg, Report
from harness.legs.claims.reproduce import Answer, Finding


@dataclass(frozen=True)
class Standing:
    """How far a measured leg can carry an answer.

    ``refused``: why it carries none (empty: it does). ``limits``: a sentence for each point that is not
    rested on. ``cut``: whether replies may have been cut, which nobody knows.
    """

    refused: str = ""
    limits: tuple[str, ...] = ()
    cut: bool = False


def standing(one: Certificate | None, leg: Measured | None, claimed: Leg, told: Report) -> Standing:
    """How far ``leg``, certified by ``one``, carries an answer about ``claimed``."""
    if one is None or leg is None:
        return Standing("not measured: it has no sample")
    if one.known_bad:
        return Standing("known to be bad: it stands for no claim")
    imported = all("imported" in sample.manifest for sample in leg.samples)
    selects = regime.selects(claimed, told)
    limits: list[str] = []
    left: list[str] = []
    for point in (*one.fails, *one.unknown):
        said = _limit(point, leg.name, imported, selects is False)
        (limits if said else left).append(said or point.said)
    limits += [f"leg {leg.name}, {point.name}: {point.said}" for point in one.unshown]
    why = [f"{one.word}: {'; '.join(left)}"] if left else []
    told_by = next(point for point in one.points if point.name == prompts.NAME)
    apart = regime.apart(told_by.figures, claimed, told)
    why += [f"not asked what was claimed: {apart}"] if apart else []
    if selects is None and not claimed.prompt_tokens:
        limits.append(f"{claimed.id} does not tell how long its prompts were: they are taken to be as long")
    cut = any(point.name == answers.NAME for point in one.unknown)
    return Standing("; ".join(why), tuple(limits), cut)


def _limit(point: Point, leg: str, imported: bool, short: bool) -> str:
    """What an answer is limited to by a point that it does not rest on; empty where it does."""
    if imported and point.name == answers.NAME and point.verdict is Verdict.UNKNOWN:
        return f"leg {leg} is a past lm-eval run: {point.said}; a cut reply counts as lm-eval scored it"
    if short and point.name == prompts.NAME:
        return f"leg {leg}: {point.said}; the claim is about as few shots, so about no selection of keys"
    return ""


def answered(found: Answer, findings: Sequence[Finding], legs: Sequence[Standing]) -> tuple[Answer, str]:
    """(answer as far as ``legs`` carry ``found``, a sentence where they do not)."""
    if any(leg.refused for leg in legs):
        return Answer.CANNOT_TELL, ""
    higher = len(legs) == 1 and all(
        one.difference > 0 for one in findings if one.answer is Answer.NOT_REPRODUCED
    )
    if found is Answer.NOT_REPRODUCED and any(leg.cut for leg in legs) and not higher:
        return Answer.CANNOT_TELL, "cut replies, of which nobody knows, could be why it is not reproduced"
    return found, ""
