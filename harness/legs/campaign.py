"""What a campaign asks: legs, task, repeats, order, and what must hold, from one TOML file.

Contract: a `Campaign` is whole and checked, so nothing later has to doubt it; every wrong field gets one
sentence with what is allowed there. The failure to fear is a misspelt field that falls back to a default
and changes the scores, so unknown fields are refused and nothing is coerced.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Self, get_args

from pydantic import BaseModel, Field, ValidationError, model_validator

from harness.exits import InputError
from harness.legs import names, toml, wrong
from harness.legs.fields import Name, Section
from harness.legs.leg import Leg
from harness.legs.sections import Certify, Client, Task, Watch
from harness.legs.shown import short

Order = Literal["abba", "abab", "blocks"]
"""abba: each round turns the order round, so that drift of the machine is in no leg. abab: the same order
each round. blocks: all samples of a leg, then the next leg's."""


class Campaign(Section):
    """All of it. ``file`` is where it was read from: relative paths start at its folder."""

    name: Name
    base: str = Field(min_length=1, description="the name of one of the legs")
    repeats: int = Field(3, ge=1, le=1000, description="1 to 1000 samples of each leg")
    order: Order = Field("abba", description=f"one of {', '.join(get_args(Order))}")
    margin: float = Field(1.0, gt=0, lt=100, description="points above 0 and below 100")
    task: Task = Field(default_factory=lambda: Task.model_validate({}), description="a table")
    client: Client = Field(default_factory=lambda: Client.model_validate({}), description="a table")
    server: Watch = Field(default_factory=lambda: Watch.model_validate({}), description="a table")
    certify: Certify = Field(default_factory=lambda: Certify.model_validate({}), description="a table")
    legs: dict[Name, Leg] = Field(min_length=1, description="a table [legs.NAME] for each leg")
    file: str = Field("", exclude=True)

    @model_validator(mode="after")
    def _base_is_a_leg(self) -> Self:
        if self.base not in self.legs:
            raise ValueError(f"base is {short(self.base)}, allowed are {', '.join(self.legs)}")
        if self.legs[self.base].known_bad:
            raise ValueError(f"base is {self.base!r}, allowed is a leg that is not known_bad")
        return self

    def path(self, text: str) -> Path:
        """A path of the file, which starts at the file's folder unless absolute.

        The home of nobody (``~nobody``) stays as it is, as in a shell.
        """
        try:
            path = Path(text).expanduser()
        except RuntimeError:
            path = Path(text)
        return Path(self.file).parent / path

    @property
    def data(self) -> Path | None:
        return None if self.task.data is None else self.path(self.task.data)

    def health(self, leg: str) -> str:
        return self.legs[leg].health or self.server.health

    def start_timeout(self, leg: str) -> float:
        return self.legs[leg].start_timeout or self.server.start_timeout

    def index_topk(self, leg: str) -> int:
        own = self.legs[leg].index_topk
        return self.certify.index_topk if own is None else own

    def required(self, leg: str) -> tuple[str, ...]:
        return self.certify.required + self.legs[leg].required

    def forbidden(self, leg: str) -> tuple[str, ...]:
        return self.certify.forbidden + self.legs[leg].forbidden

    def restarts(self, leg: str) -> int:
        own = self.legs[leg].restarts
        return self.server.restarts if own is None else own


def load(file: Path, *, data: Path | None = None, limit: int | None = None) -> Campaign:
    """The campaign in ``file``; ``data`` and ``limit`` replace those of the file.

    Raises `InputError` with one sentence for each wrong field.
    """
    found = toml.read(file)
    changes = {"data": str(data.absolute()) if data else None, "limit": limit}
    given = {name: value for name, value in changes.items() if value is not None}
    if given and isinstance(found.setdefault("task", {}), dict):
        found["task"].update(given)
    return parse(found, str(file.absolute()))


def parse(found: dict[str, Any], file: str = "") -> Campaign:
    """A campaign from what TOML gave. Raises `InputError`."""
    try:
        campaign = Campaign.model_validate({**found, "file": file})
    except ValidationError as error:
        where = f"{Path(file).name}: " if file else ""
        said = [*sentences(error), *_unknown_base(found)]
        lines = list(dict.fromkeys(where + sentence for sentence in said))
        raise InputError("\nharness: ".join(lines)) from None
    if campaign.data is not None:
        _check_data(campaign.data)
    return campaign


def _unknown_base(found: dict[str, Any]) -> Iterator[str]:
    """The sentence of a base leg that is none, which the model does not judge where a field is wrong."""
    base, legs = found.get("base"), found.get("legs")
    if not (isinstance(base, str) and base and isinstance(legs, dict) and legs):
        return
    if base not in legs and all(map(names.allowed, legs)):
        yield f"base is {short(base)}, allowed are {', '.join(legs)}"


def _check_data(folder: Path) -> None:
    lacking = [name for name in ("train.jsonl", "test.jsonl") if not (folder / name).is_file()]
    if lacking:
        raise InputError(f"task.data is {short(str(folder))}, which has no {' and no '.join(lacking)}")


def sentences(error: ValidationError) -> Iterator[str]:
    """One sentence for each wrong field of a campaign."""
    return wrong.sentences(error, _section)


def _section(words: list[str]) -> type[BaseModel] | None:
    """The model of the table at ``words``; None where that is no table of fields."""
    inner: dict[str, type[BaseModel]] = {"task": Task, "client": Client, "server": Watch, "certify": Certify}
    if not words:
        return Campaign
    if words[0] == "legs":
        return Leg if len(words) == 2 else None
    return inner.get(words[0]) if len(words) == 1 else None
