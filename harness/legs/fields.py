"""What a field of a campaign may hold, where several tables have such a field.

Contract: a value is taken as it stands or refused with what is allowed. The failure to fear is a misspelt
field that falls back to a default and changes the scores, so a table refuses what it does not know.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from harness.legs import names
from harness.legs.shown import short


def _is_name(text: str) -> str:
    if not names.allowed(text):
        raise ValueError(f"is {short(text)}, allowed is {names.ALLOWED}")
    return text


def _has_no_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError(f"is {short(text)}, allowed is a text without NUL")
    return text


Name = Annotated[str, AfterValidator(_is_name), Field(description=names.ALLOWED)]
Word = Annotated[str, AfterValidator(_has_no_nul)]
"""What is handed to the system: a word of a command, a path, a variable."""
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False, description="seconds above 0")]


def _compiles(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from None
    return text


PATH = r"^/[!-~]*$"
Pattern = Annotated[str, Field(min_length=1), AfterValidator(_compiles)]
PATTERNS = "a list of regular expressions, each matched against the lines of the server's log"
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
SHARE = "a share of a sample's questions, 0.0 to 1.0"


class Section(BaseModel):
    """A table of the file: no unknown fields, no coercion, never changed afterwards."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
