"""What a campaign asks: legs, task, repeats, order, and what must hold, from one TOML file.

Contract: a `Campaign` is whole and checked, so nothing later has to doubt it; every wrong field gets one
sentence with what is allowed there. The failure to fear is a misspelt field that falls back to a default
and changes the scores, so unknown fields are refused and nothing is coerced.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    field_validator,
    model_validator,
)

from harness.exits import InputError
from harness.legs import credentials, names


def _is_name(text: str) -> str:
    if not names.allowed(text):
        raise ValueError(f"is {text!r}, allowed is {names.ALLOWED}")
    return text


def _has_no_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError(f"is {text!r}, allowed is a text without NUL")
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


class Section(BaseModel):
    """A table of the file: no unknown fields, no coercion, never changed afterwards."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Task(Section):
    """What is asked of every leg alike, and how replies are scored."""

    name: str = Field("gsm8k", min_length=1, description="the name of an lm-eval task")
    shots: int = Field(20, ge=0, description="a whole number of 0 or more")
    fewshot_seed: int = Field(1234, ge=0, description="a whole number of 0 or more")
    data: Word | None = Field(
        None, min_length=1, description="a folder with train.jsonl and test.jsonl (left out: from the hub)"
    )
    limit: int | None = Field(None, ge=1, description="a whole number of 1 or more (left out: all questions)")
    max_length: int = Field(8192, ge=2, description="tokens of prompt and reply together, 2 or more")
    max_tokens: int = Field(512, ge=1, description="tokens of a reply, 1 or more")
    stop: tuple[str, ...] | None = Field(
        None, description="a list of stop strings (left out: those of the task)", strict=False
    )
    temperature: float = Field(0.0, ge=0, allow_inf_nan=False, description="a number of 0 or more")
    generation: dict[str, Any] = Field(
        default_factory=dict, description="a table of further fields of each request"
    )
    strict: str = Field("strict-match", min_length=1, description="the name of one of the task's filters")
    flexible: str = Field("flexible-extract", min_length=1, description="the name of one of its filters")

    @field_validator("generation")
    @classmethod
    def _is_json(cls, fields: dict[str, Any]) -> dict[str, Any]:
        for name, value in fields.items():
            try:
                json.dumps(value, allow_nan=False)
            except (TypeError, ValueError):
                raise ValueError(f"has {name} {value!r}, allowed is what JSON can hold") from None
        return fields

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.max_tokens >= self.max_length:
            raise ValueError(f"task.max_tokens is {self.max_tokens}, allowed is less than task.max_length")
        own = {"prompt", "model", "max_tokens", "temperature", "stop", "seed", "n", "stream", "until"}
        taken = sorted(own & set(self.generation))
        if taken:
            raise ValueError(f"task.generation.{taken[0]} is given, allowed are fields that this file lacks")
        return self


class Client(Section):
    """How a leg's server is asked."""

    concurrency: int = Field(8, ge=1, le=4096, description="1 to 4096 requests at a time")
    timeout: Seconds = 600.0
    retries: int = Field(3, ge=0, le=100, description="0 to 100 further tries of a failed request")
    backoff: float = Field(
        1.0, ge=0, le=600, description="seconds before the second try, 0 to 600; doubled for each further one"
    )
    seed: int = Field(1234, ge=0, description="a whole number of 0 or more")


class Watch(Section):
    """How a server is started, watched and stopped."""

    health: str = Field("/health", pattern=PATH, description="a path that starts with /")
    start_timeout: Seconds = 1800.0
    stop_timeout: Seconds = 60.0
    restarts: int = Field(
        0, ge=0, le=100, description="0 to 100 restarts of a crashed server within a sample"
    )


Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
SHARE = "a share of a sample's questions, 0.0 to 1.0"


class Certify(Section):
    """What must hold of every leg before its accuracy means anything. Part of no identity."""

    index_topk: int = Field(
        2048, ge=0, description="tokens from which on keys are selected, 0 or more (0: no sparse indexer)"
    )
    truncated: Share = Field(0.0, description=SHARE)
    empty: Share = Field(0.0, description=SHARE)
    stopped: Share = Field(0.0, description=SHARE)
    required: tuple[Pattern, ...] = Field((), description=PATTERNS, strict=False)
    forbidden: tuple[Pattern, ...] = Field((), description=PATTERNS, strict=False)
    probe: int = Field(3, ge=0, le=100, description="0 to 100 prompts of the determinism probe (0: no probe)")
    probe_repeats: int = Field(3, ge=2, le=100, description="2 to 100 times that each prompt is asked")
    probe_tokens: int = Field(256, ge=1, le=100_000, description="tokens of a probe's reply, 1 to 100000")


LogFrom = Literal["start", "now"]
"""Of a server that runs already, where its log begins to tell of it: at its start, where what it says of
its path lies, or at what is written once a sample begins, for a log that holds earlier servers' lines."""


class Leg(Section):
    """One configuration of the server.

    ``base_url`` is without the name and password that the file may give in it (``http://name:word@host``):
    those are `login`, which is written nowhere.
    """

    base_url: str = Field(pattern=r"^https?://", description="an address like http://127.0.0.1:8000")
    command: tuple[Word, ...] | None = Field(
        None, description="a list of words that starts the server (left out: it runs already)", strict=False
    )
    environment: dict[str, Word] = Field(
        default_factory=dict, description="a table of environment variables, each a text"
    )
    folder: Word | None = Field(None, min_length=1, description="a folder that the server is started in")
    model: str = Field(min_length=1, description="the model's name as the server knows it")
    indexer: str | None = Field(None, min_length=1, description="what the leg says of its indexer (fp4, fp8)")
    version: tuple[Word, ...] | None = Field(
        None, description="a list of words that prints the server's version", strict=False
    )
    log: Word | None = Field(None, min_length=1, description="a log file that the server writes by itself")
    log_from: LogFrom = Field("start", description=f"one of {', '.join(get_args(LogFrom))}")
    health: str | None = Field(None, pattern=PATH, description="a path that starts with /")
    start_timeout: float | None = Field(None, gt=0, allow_inf_nan=False, description="seconds above 0")
    known_bad: bool = Field(
        False, description="true for a leg that is wrong on purpose: the positive control"
    )
    index_topk: int | None = Field(None, ge=0, description="tokens, 0 or more (left out: certify.index_topk)")
    required: tuple[Pattern, ...] = Field((), description=PATTERNS, strict=False)
    forbidden: tuple[Pattern, ...] = Field((), description=PATTERNS, strict=False)
    acceptance: Pattern | None = Field(
        None, description="a regular expression with one group: the acceptance length in the server's log"
    )
    restarts: int | None = Field(None, ge=0, le=100, description="0 to 100 restarts of a crashed server")
    _login: str = PrivateAttr("")

    @property
    def login(self) -> str:
        """Name and password, ``name:word``; empty where the server asks for none."""
        return self._login

    @model_validator(mode="wrap")
    @classmethod
    def _apart(cls, found: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        login = ""
        if isinstance(found, dict) and isinstance(found.get("base_url"), str):
            address, login = credentials.split(found["base_url"])
            found = {**found, "base_url": address}
        made = handler(found)
        made._login = login
        return made

    @field_validator("environment")
    @classmethod
    def _has_names(cls, variables: dict[str, str]) -> dict[str, str]:
        for name in variables:
            if not name or "=" in name or "\0" in name:
                raise ValueError(f"has {name!r}, allowed are names without = and NUL")
        return variables

    @field_validator("command", "version")
    @classmethod
    def _has_words(cls, words: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if words is not None and (not words or not words[0]):
            raise ValueError("is empty, allowed is a list of words")
        return words

    @field_validator("acceptance")
    @classmethod
    def _has_one_group(cls, text: str | None) -> str | None:
        if text is not None and re.compile(text).groups != 1:
            raise ValueError(f"is {text!r}, allowed is a regular expression with one group")
        return text

    @field_validator("base_url")
    @classmethod
    def _is_address(cls, address: str) -> str:
        try:
            parts = urlsplit(address)
            known = bool((parts.hostname or "").encode("idna")) and parts.port != 0
            known = known and not re.search(r"[^!-~]|[?#\\]", address)
        except ValueError:
            known = False
        if not known:
            raise ValueError(f"is {address!r}, allowed is an address like http://127.0.0.1:8000")
        return address.rstrip("/").removesuffix("/v1/completions").removesuffix("/v1")


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
            raise ValueError(f"base is {self.base!r}, allowed are {', '.join(self.legs)}")
        if self.legs[self.base].known_bad:
            raise ValueError(f"base is {self.base!r}, allowed is a leg that is not known_bad")
        return self

    def path(self, text: str) -> Path:
        """A path of the file, which starts at the file's folder unless absolute."""
        return Path(self.file).parent / Path(text).expanduser()

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
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise InputError(f"{file} cannot be read: {str(reason).lower()}") from None
    try:
        found = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{file} is no TOML: {error}") from None
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
        lines = list(dict.fromkeys(where + sentence for sentence in sentences(error)))
        raise InputError("\nharness: ".join(lines)) from None
    if campaign.data is not None:
        _check_data(campaign.data)
    return campaign


def _check_data(folder: Path) -> None:
    lacking = [name for name in ("train.jsonl", "test.jsonl") if not (folder / name).is_file()]
    if lacking:
        raise InputError(f"task.data is {str(folder)!r}, which has no {' and no '.join(lacking)}")


def sentences(error: ValidationError) -> Iterator[str]:
    """One sentence for each wrong field: its name, what it is, what is allowed."""
    for found in error.errors(include_url=False):
        words = [str(word) for word in found["loc"]]
        name, kind = ".".join(words), found["type"]
        if words and words[-1] == "[key]":
            yield f"{'.'.join(words[:-2])} has {words[-2]!r}, allowed is {_allowed(['name'])}"
            continue
        told = str(found["ctx"].get("error", "")) if "ctx" in found else ""
        if kind == "value_error":
            yield told if words == [] or told.startswith(("task.", "base ")) else f"{name} {told}"
        elif kind == "extra_forbidden":
            yield f"{name} is unknown, allowed are {', '.join(_fields(words[:-1]))}"
        elif kind == "missing":
            yield f"{name} is missing, allowed is {_allowed(words)}"
        else:
            yield f"{name} is {found['input']!r}, allowed is {_allowed(words)}"


def _section(words: list[str]) -> type[BaseModel] | None:
    """The model of the table at ``words``; None where that is no table of fields."""
    inner: dict[str, type[BaseModel]] = {"task": Task, "client": Client, "server": Watch, "certify": Certify}
    if not words:
        return Campaign
    if words[0] == "legs":
        return Leg if len(words) == 2 else None
    return inner.get(words[0]) if len(words) == 1 else None


def _fields(words: list[str]) -> list[str]:
    model = _section(words)
    return [name for name in model.model_fields if name != "file"] if model else []


def _allowed(words: list[str]) -> str:
    """The description of the innermost field that ``words`` lead to."""
    for length in range(len(words), 0, -1):
        model = _section(words[: length - 1])
        if model is None or words[length - 1] not in model.model_fields:
            continue
        said = model.model_fields[words[length - 1]].description
        if said:
            return said
    return "seconds above 0" if words[-1].endswith("timeout") else "a table [legs.NAME]"
