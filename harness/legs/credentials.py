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
HEADERS = ("header", "headers", "auth_token", "api_key", "authorization")
"""Entries of lm-eval's model arguments that hold secrets."""


def split(address: str) -> tuple[str, str]:
    """(address without its login, the login)."""
    found = LOGIN.search(address)
    return (LOGIN.sub("", address, count=1), found[1]) if found else (address, "")


def hidden(value: Any) -> Any:
    """``value`` (JSON) with the logins in all its texts hidden, and entries of `HEADERS` too."""
    if isinstance(value, str):
        names = "|".join(HEADERS)
        shown = re.sub(rf"\b({names})=[^,\s]*", rf"\1={HIDDEN}", value, flags=re.IGNORECASE)
        return LOGIN.sub(f"{HIDDEN}@", shown)
    if isinstance(value, list):
        return [hidden(one) for one in value]
    if isinstance(value, dict):
        return {
            name: HIDDEN if str(name).lower() in HEADERS and one else hidden(one)
            for name, one in value.items()
        }
    return value


def header(login: str) -> dict[str, str]:
    """What a request sends of ``login`` (RFC 7617); nothing without one."""
    if not login:
        return {}
    return {"Authorization": "Basic " + base64.b64encode(unquote(login).encode()).decode()}
