"""What is wrong with a file, as sentences: the field, what it is, what is allowed.

Contract: one sentence for each wrong field, none of them the checking library's own words. The failure to
fear is a field told under another's name, since tables lie in tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pydantic import BaseModel, ValidationError

from harness.legs import credentials
from harness.legs.shown import cut, short

Sections = Callable[[list[str]], type[BaseModel] | None]
"""The model of the table at a path of names; None where that is no table of fields."""


def sentences(error: ValidationError, section: Sections) -> Iterator[str]:
    """One sentence for each wrong field: its name, what it is, what is allowed."""
    for found in error.errors(include_url=False):
        words = [str(word) for word in found["loc"]]
        name, kind = ".".join(map(cut, words)), found["type"]
        if words and words[-1] == "[key]":
            yield f"{'.'.join(words[:-2])} has {short(words[-2])}, allowed is {_allowed(section, ['name'])}"
            continue
        told = str(found["ctx"].get("error", "")) if "ctx" in found else ""
        if kind == "value_error":
            yield told if words == [] or told.startswith(("task.", "base ")) else f"{name} {told}"
        elif kind == "extra_forbidden":
            yield f"{name} is unknown, allowed are {', '.join(_fields(section(words[:-1])))}"
        elif kind == "missing":
            yield f"{name} is missing, allowed is {_allowed(section, words)}"
        else:
            secret = any(word.isidentifier() and credentials.secret(word) for word in words[2:])
            shown = "a value that is not shown" if secret else short(credentials.hidden(found["input"]))
            yield f"{name} is {shown}, allowed is {_allowed(section, words)}"


def _fields(model: type[BaseModel] | None) -> list[str]:
    return [name for name in model.model_fields if name != "file"] if model else []


def _allowed(section: Sections, words: list[str]) -> str:
    """The description of the innermost field that ``words`` lead to."""
    for length in range(len(words), 0, -1):
        model = section(words[: length - 1])
        if model is None or words[length - 1] not in model.model_fields:
            continue
        said = model.model_fields[words[length - 1]].description
        if said:
            return said
    return "seconds above 0" if words[-1].endswith("timeout") else "a table [legs.NAME]"
