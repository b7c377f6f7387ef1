"""Captures for the tests: examples made from cases, with parts changed on the way to the disk."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from torch import Tensor

from harness.capture import loading, running, writing
from harness.capture.format import Manifest
from harness.case import cases
from harness.judge.ledger import Ledger
from harness.judge.verdict import Verdict
from harness.paths import base

Tensors = dict[str, Tensor]

DECODE = "decode-n2-h32-d128-ctx300,65,0-tshuffled-u0-l0-fbytes-s1"
"""Rows 0 to 5 see 299, 300, 64, 65, 0 and 0 keys."""
NATURAL = "decode-n2-h80-d256-ctx300,65-tshuffled-u0-l0-fnatural-s1"
WIDE = "decode-n2-h32-d128-ctx300,65-tshuffled-u0-l0-fwide-s1"
PREFILL = "prefill-h32-d128-ctx300,70-w0@5:290+4,1@16:70,1@3:3-c0-tshuffled-u0-l0-fnatural-s1"
OPTIONAL = ("schedule", "logits", "topk_ids")


@cache
def made(text: str) -> tuple[Manifest, Tensors]:
    return writing.example(cases.parse(text))


def written(
    folder: Path, text: str, change: Callable[[Tensors], object] = len, without: tuple[str, ...] = ()
) -> Path:
    """A capture of case ``text`` in ``folder``; ``change`` edits copies of its tensors in place."""
    manifest, tensors = made(text)
    tensors = {name: tensor.clone() for name, tensor in tensors.items() if name not in without}
    change(tensors)
    writing.write(folder, manifest, tensors)
    return folder


def ran(folder: Path, *paths: base.Path) -> dict[str, Verdict]:
    """Path to verdict of the capture in ``folder``; what was captured is called ``captured``."""
    return {verdict.path: verdict for verdict in running.verdicts(loading.load(folder), paths, Ledger())}
