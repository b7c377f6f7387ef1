"""The tables of a campaign that hold for every leg: task, client, server, certify.

Contract: every field has a range, and a default that is part of what a leg was measured with. The failure to
fear is a setting that two legs understand differently, so none of these can be set for one leg alone
unless `harness.legs.leg` names it.
"""

from __future__ import annotations

import json
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from harness.legs.fields import PATH, PATTERNS, SHARE, Pattern, Seconds, Section, Share, Word
from harness.legs.shown import cut, short

TAKEN = frozenset({
    "prompt", "echo", "suffix", "truncate_prompt_tokens", "model", "stream", "n", "best_of", "seed",
    "temperature", "do_sample", "stop", "until", "stop_sequences",
    "max_tokens", "max_gen_toks", "max_new_tokens", "max_completion_tokens", "max_length",
})  # fmt: skip
"""Fields of a request that a campaign sets by a field of its own, under every name that lm-eval or a server
knows them by, and those that make a reply something else than one continuation of the prompt."""


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
                raise ValueError(f"has {cut(name)} {short(value)}, allowed is what JSON can hold") from None
        return fields

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.max_tokens >= self.max_length:
            raise ValueError(f"task.max_tokens is {self.max_tokens}, allowed is less than task.max_length")
        taken = sorted(TAKEN & set(self.generation))
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
