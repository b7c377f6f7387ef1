"""Were the measured prompts as long as the claim's? Above index_topk keys are selected, below all are kept.

Contract: a leg whose prompts are of another regime carries no answer, whatever it scored. The failure to fear
is a claim about selected keys that is "reproduced" by prompts so short that no key is left out, which every
indexer does alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.legs.claims.reported import Leg, Report

LONG, SHORT = 20, 5
"""Shots from which, and up to which, all GSM8K prompts lie above, and below, `TOPK` (spec reported.md)."""

TOPK, TASK = 2048, "gsm8k"
"""What `LONG` and `SHORT` are known of."""


def selects(claimed: Leg, told: Report) -> bool | None:
    """Whether all prompts of ``claimed`` were longer than index_topk (True) or none was (False).

    None: some were, or nobody says.
    """
    least, most = claimed.prompt_tokens.get("min"), claimed.prompt_tokens.get("max")
    if least is not None and least > told.index_topk:
        return True
    if most is not None and most <= told.index_topk:
        return False
    unknown = least is not None or most is not None or claimed.shots is None
    if unknown or (told.task, told.index_topk) != (TASK, TOPK):
        return None
    assert claimed.shots is not None
    return True if claimed.shots >= LONG else False if claimed.shots <= SHORT else None


def apart(figures: Mapping[str, Any], claimed: Leg, told: Report) -> str:
    """Why prompts with ``figures`` (`harness.legs.certify.prompts.figures`) are not those of ``claimed``.

    Empty where they are, and where nothing is known of the claim's. Both ranges are told.
    """
    topk, wanted = figures["index_topk"], selects(claimed, told)
    least, most = figures["min"], figures["max"]
    low, high = claimed.prompt_tokens.get("min", 0), claimed.prompt_tokens.get("max", most)
    counted = figures["counted"] == figures["prompts"]
    if wanted is not False and topk != told.index_topk:
        why = f"its index_topk is {topk}, the claim's is {told.index_topk}"
    elif wanted and figures["short"]:
        why = f"{figures['short']} of {figures['prompts']} prompts select no keys"
    elif (
        wanted is None and most is not None and most <= told.index_topk < claimed.prompt_tokens.get("max", 0)
    ):
        why = "no prompt selects keys"
    elif not counted and (wanted or claimed.prompt_tokens):
        why = f"{figures['prompts'] - figures['counted']} of {figures['prompts']} prompts have no token count"
    elif wanted is False and most is not None and most > min(topk or told.index_topk, told.index_topk):
        why = "some prompts select keys"
    elif most is not None and (most < low or least > high):
        why = "the two ranges have nothing in common"
    else:
        return ""
    return f"{why}: prompts of {_range(least, most)} against {_claimed(claimed, told)}"


def _claimed(claimed: Leg, told: Report) -> str:
    if claimed.prompt_tokens:
        lengths = _range(claimed.prompt_tokens.get("min"), claimed.prompt_tokens.get("max"))
        return f"{lengths} of {claimed.id}, at index_topk {told.index_topk}"
    side = {True: "above", False: "at most", None: "at"}[selects(claimed, told)]
    shots = "" if claimed.shots is None else f" of {claimed.shots} shots"
    return f"those of {claimed.id}{shots}, {side} index_topk {told.index_topk}"


def _range(least: int | None, most: int | None) -> str:
    """``2634 to 4295 tokens``; an end that nobody told is a question mark."""
    return f"{'?' if least is None else least} to {'?' if most is None else most} tokens"
