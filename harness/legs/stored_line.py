"""One stored answer: what each of its fields may hold, and which of them may stand together.

Contract: a line that passes says one thing. The failure to fear is an edited line whose parts disagree and of
which only one is read: a score of 1 beside an extraction that is none, an aborted reply that counts as whole.
What is refused is what no run writes; every rule names both fields that disagree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, model_validator

from harness.legs.evaluation.replies import CUT, INVALID, MOST_TOKENS, STOPPED
from harness.legs.shown import short

FILTERS = ("strict", "flexible")

TASK = "task"
"""Key of what a line is checked with: the name of its task, which says how it was scored."""

SCORED_BY_NUMBER = "gsm8k"
"""How the tasks' names begin of which a right answer is the number after #### in the target."""


def _whole(text: str) -> str:
    """JSON can name halves of surrogate pairs, which no page can be written with."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it has half of a surrogate pair, allowed is a text") from None
    return text


Text = Annotated[str, AfterValidator(_whole)]
MOST = 10**15
Count = Annotated[int, Field(ge=0, le=MOST)]
Tokens = Annotated[int, Field(ge=0, le=MOST_TOKENS)]
Amount = Annotated[float, Field(allow_inf_nan=False)]


class Stored(BaseModel):
    """No coercion; what is not named here is not read."""

    model_config = ConfigDict(strict=True, extra="ignore")


class Line(Stored):
    """One answer; see `harness.legs.journal.KEYS`."""

    question: Count
    prompt_hash: str | None
    prompt_chars: Count | None
    reply: Text | None
    strict: Text | None
    flexible: Text | None
    strict_correct: bool | None
    flexible_correct: bool | None
    target: Text | None
    status: Literal["answered", "empty", "truncated", "stopped", "failed"]
    finish_reason: str | None
    prompt_tokens: Tokens | None
    completion_tokens: Tokens | None
    latency: Amount | None
    retries: Count | None
    http_status: Count | None
    error: Text | None
    time: str | None
    attempt: Count | None

    @model_validator(mode="after")
    def _fits(self, info: ValidationInfo) -> Self:
        ways = (self._judged, self._ended, self._scored)
        wrong = next((said for way in ways for said in way()), None)
        if wrong is None and str((info.context or {}).get(TASK)).startswith(SCORED_BY_NUMBER):
            wrong = next(self._scored_by_number(), None)
        if wrong is not None:
            raise ValueError(wrong)
        return self

    def _judged(self) -> Iterator[str]:
        """A failed request has no reply and no score, every other one has a score."""
        had = self.status != "failed"
        for which in FILTERS:
            score = getattr(self, f"{which}_correct")
            if (score is not None) != had:
                allowed = "true or false" if had else "null"
                yield f"{which}_correct is {score!r}, allowed is {allowed}: it is {self.status}"
        if self.reply is not None and not had:
            yield f"reply is {short(self.reply)}, allowed is null: status is 'failed'"

    def _ended(self) -> Iterator[str]:
        """An answer is a whole reply: it has a text, was not cut, and nothing went wrong with it."""
        whole = f"status is {self.status!r}"
        if self.finish_reason is not None and self.finish_reason not in STOPPED + CUT:
            yield f"finish_reason is {short(self.finish_reason)}, allowed is {_known()}: {whole}"
        if self.http_status not in (None, 200) and self.status != "failed":
            yield f"http_status is {self.http_status}, allowed is 200: {whole}"
        if self.status != "answered":
            return
        if self.finish_reason in CUT:
            yield f"{whole}, allowed is 'truncated': finish_reason is {self.finish_reason!r}"
        if not (self.reply or "").strip():
            yield f"{whole}, allowed is 'empty': reply has no text"
        if self.error is not None:
            yield f"error is {short(self.error)}, allowed is null: {whole}"

    def _scored(self) -> Iterator[str]:
        """Where a filter found nothing, nothing was right."""
        for which in FILTERS if INVALID not in (self.target or "") else ():
            if getattr(self, which) == INVALID and getattr(self, f"{which}_correct"):
                yield f"{which}_correct is True, allowed is false: {which} is {INVALID!r}"

    def _scored_by_number(self) -> Iterator[str]:
        """Right is the target's number and no other; of what has no number nothing is said."""
        for which in FILTERS:
            text, score = getattr(self, which), getattr(self, f"{which}_correct")
            mine, wanted = _number(text), _number(self.target)
            if score is None or wanted is None or mine is None:
                continue
            if score != (mine == wanted):
                allowed = str(mine == wanted).lower()
                said = f"{which} is {short(text)} and target is {short(self.target)}"
                yield f"{which}_correct is {score}, allowed is {allowed}: {said}"


def _known() -> str:
    return ", ".join((*STOPPED, *CUT))


def _number(text: str | None) -> str | None:
    """The number that ``text``, or what it has after ####, is; None where it is anything else.

    Only what every version of the task reads alike: digits with an own sign and fraction.
    """
    said = re.sub(r"(?s).*#### |[,$]", "", text or "")
    return said if re.fullmatch(r"-?\d+(\.\d+)?", said, re.ASCII) else None


def context(manifest: Any) -> dict[str, Any]:
    """What a line of the sample with ``manifest`` is checked with."""
    return {TASK: manifest["identity"].get("task")} if "identity" in manifest else {}
