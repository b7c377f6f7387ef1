"""One leg of a campaign: a configuration of the server, and what is its own of what else holds for all.

Contract: name and password of an address are taken apart before anything else sees it. The failure to fear is
a login that ends up in a manifest, which people publish.
"""

from __future__ import annotations

import re
from typing import Any, Literal, Self, get_args
from urllib.parse import urlsplit

from pydantic import Field, ModelWrapValidatorHandler, PrivateAttr, field_validator, model_validator

from harness.legs import credentials
from harness.legs.fields import PATH, PATTERNS, Pattern, Section, Word
from harness.legs.shown import short

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
                raise ValueError(f"has {short(name)}, allowed are names without = and NUL")
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
            raise ValueError(f"is {short(text)}, allowed is a regular expression with one group")
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
            shown = short(credentials.hidden(address))
            raise ValueError(f"is {shown}, allowed is an address like http://127.0.0.1:8000")
        return address.rstrip("/").removesuffix("/v1/completions").removesuffix("/v1")
