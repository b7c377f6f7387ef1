"""Tokens of prompts where the server told none: counted with the model's own tokenizer.

Contract: a count is that of the very text that was asked, found by its hash; a prompt whose text nobody kept
has no count. Special tokens that the tokenizer adds by itself are counted, as a completions server adds them
too. A tokenizer of another model would count plausibly and wrongly, so the certificate says who counted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

from harness.exits import CannotRun, InputError
from harness.legs import kept_prompts
from harness.legs.campaign import Campaign
from harness.legs.certify.measured import Leg

Count = Callable[[str], int]
"""Tokens of a text."""


def tokenizer(path: Path) -> Count:
    """The counter of ``path``: a tokenizer.json, or a folder that holds one.

    Raises `InputError` where there is none, `CannotRun` without the library that reads it.
    """
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise InputError(f"--tokenizer {path} holds no tokenizer.json")
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise CannotRun("--tokenizer needs the package tokenizers (pip install tokenizers)") from None
    try:
        found = Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises nothing narrower
        raise InputError(f"--tokenizer {file} is no tokenizer: {error}") from None
    found.no_truncation()
    found.no_padding()
    return lambda text: len(found.encode(text).ids)


def untold(leg: Leg, count: Count, prompts: Mapping[str, str]) -> dict[int, int]:
    """Question to tokens, for the questions whose tokens no sample of ``leg`` was told.

    ``prompts``: SHA-256 of a prompt to its text.
    """
    told = {int(one["question"]) for one in leg.records if one["prompt_tokens"] is not None}
    hashes = {int(one["question"]): str(one["prompt_hash"]) for one in leg.records}
    return {
        question: count(prompts[digest])
        for question, digest in hashes.items()
        if question not in told and digest in prompts
    }


def texts(leg: Leg) -> dict[str, str]:
    """SHA-256 to text of the prompts that imported samples of ``leg`` keep."""
    return {
        hashlib.sha256(text.encode()).hexdigest(): text
        for sample in leg.samples
        for text in kept_prompts.read(sample.where)
    }


def built(campaign: Campaign) -> dict[str, str]:
    """SHA-256 to text of the prompts of ``campaign``, built again. Raises as `evaluation.task.load` does."""
    from harness.legs.evaluation import task

    return {one.prompt_hash: one.prompt for one in task.load(campaign.task, campaign.data).questions}
