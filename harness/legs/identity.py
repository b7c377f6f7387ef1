"""What a sample was measured with: one dict and its digest; another digest is another measurement.

Contract: everything that can change a score is in it. `harness.legs.comparable` says which entries must be
equal between legs; here every entry must be equal for a sample to be continued.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Mapping
from typing import Any

from harness.exits import CannotRun
from harness.legs import credentials, masked
from harness.legs.campaign import Campaign
from harness.record import provenance


def of_leg(campaign: Campaign, leg: str, task: Mapping[str, Any]) -> dict[str, Any]:
    """The identity of ``leg``; ``task``: what the built task adds (prompts, generation, filters)."""
    one, asked, client = campaign.legs[leg], campaign.task, campaign.client
    return {
        "model": "local-completions",
        "model_args": {"model": one.model, "base_url": one.base_url},
        "server": {
            "command": masked.words(one.command or (), masked.known(one.environment)),
            "version": server_version(campaign, leg),
        },
        "environment": {name: _shown(name, value) for name, value in sorted(one.environment.items())},
        "indexer": one.indexer,
        "task": asked.name,
        "shots": asked.shots,
        "fewshot_seed": asked.fewshot_seed,
        "limit": asked.limit,
        "max_length": asked.max_length,
        "strict": asked.strict,
        "flexible": asked.flexible,
        "endpoint": "/v1/completions",
        "batch_size": 1,
        "chat_template": None,
        "concurrency": client.concurrency,
        "seed": client.seed,
        "harness": provenance.version(provenance.PROJECT),
        "lm_eval": provenance.version("lm_eval"),
        **task,
    }


def server_version(campaign: Campaign, leg: str) -> str | None:
    """What the leg's version command prints, without keys. Raises `CannotRun` when it fails."""
    one = campaign.legs[leg]
    if one.version is None:
        return None
    try:
        done = subprocess.run(
            list(one.version),
            cwd=campaign.path(one.folder or "."),
            capture_output=True,
            timeout=120,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotRun(f"legs.{leg}.version cannot be run: {error}") from None
    if done.returncode:
        last = (_text(done.stderr).splitlines() or ["nothing"])[-1]
        said = masked.text(last, masked.known(one.environment))
        raise CannotRun(f"legs.{leg}.version ended with exit code {done.returncode} and said: {said}")
    return masked.text(_text(done.stdout), masked.known(one.environment))


def _text(printed: bytes) -> str:
    """What a command printed; bytes that are no UTF-8 as their numbers, so that two versions stay two."""
    return printed.decode("utf-8", "backslashreplace").strip()


def digest(identity: Mapping[str, Any]) -> str:
    """SHA-256 of the identity in canonical JSON."""
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """What differs, each entry with its old and its new value."""
    found = [
        "prompts" if name == "prompts" else f"{name} ({_value(old, name)}, now {_value(new, name)})"
        for name in sorted(set(old) | set(new))
        if old.get(name) != new.get(name)
    ]
    return ", ".join(found)


def _value(identity: Mapping[str, Any], name: str) -> str:
    return json.dumps(identity.get(name), ensure_ascii=False)


def _shown(name: str, value: str) -> str:
    """A variable's value; of one that looks like a secret only a digest."""
    return masked.digest(value) if credentials.secret(name) else masked.text(value, ())
