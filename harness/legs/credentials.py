"""Names and passwords in addresses, kept out of everything that is written or shown.

Contract: an address with a login (``http://name:word@host``) is taken apart where it enters, so that
manifests, pages and messages cannot show it. What others wrote (lm-eval's results) is cleaned before it is
stored.
"""

from __future__ import annotations

import base64
import re
from typing import Any
from urllib.parse import unquote

LOGIN = re.compile(r"(?<=://)([^/?#\s]*)@")
"""What stands between // and the last @ before the path."""

HIDDEN = "***"

ARGUMENT = re.compile(r"(?P<name>[\w.-]+)=(?P<value>[^,]*)")
"""One of lm-eval's arguments in a text of them."""

SECRETS = ("key", "token", "secret", "password", "passwd", "auth", "credential")
"""What the name of a value has in it that nobody else should read."""

HEADERS = ("header", "headers")
"""Arguments of lm-eval that hold such a value under a name of its own."""

COUNTS = re.compile(r"tokens|token[-_]ids?|tokeni[sz]\w*")
"""What a name has that tells a number of tokens, or who makes them: two limits that are hidden look alike."""


def secret(name: str) -> bool:
    """Whether the value of ``name`` is to be hidden."""
    known = COUNTS.sub("", name.lower())
    return known in HEADERS or any(word in known for word in SECRETS)


def split(address: str) -> tuple[str, str]:
    """(address without its login, the login)."""
    found = LOGIN.search(address)
    return (LOGIN.sub("", address, count=1), found[1]) if found else (address, "")


def hidden(value: Any) -> Any:
    """``value`` (JSON) with the logins in all its texts hidden, and what has a `secret` name.

    A name is a table's, or stands before = in a text of arguments, whose values end at a comma.
    """
    if isinstance(value, str):
        return LOGIN.sub(f"{HIDDEN}@", ARGUMENT.sub(_hidden_argument, value))
    if isinstance(value, list):
        return [hidden(one) for one in value]
    if isinstance(value, dict):
        return {name: HIDDEN if secret(str(name)) and one else hidden(one) for name, one in value.items()}
    return value


def _hidden_argument(found: re.Match[str]) -> str:
    """``found`` with its value hidden; of any other argument what its value has of them, an address say."""
    name, value = found["name"], found["value"]
    return f"{name}={HIDDEN if secret(name) else ARGUMENT.sub(_hidden_argument, value)}"


def header(login: str) -> dict[str, str]:
    """What a request sends of ``login`` (RFC 7617); nothing without one."""
    if not login:
        return {}
    return {"Authorization": "Basic " + base64.b64encode(unquote(login).encode()).decode()}
