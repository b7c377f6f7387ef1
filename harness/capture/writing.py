"""Write a capture: a manifest and its tensors; an example is one made from a case id.

The manifest comes last and whole, so that a folder with a manifest is a capture. The weight scale is
written as hex text: decimal text that is cut short would shift every score by a rounding.
"""

from __future__ import annotations

import json
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor

from harness.capture.format import FORMAT, KINDS, MANIFEST, PAGE_ROWS, TENSORS, Manifest
from harness.capture.loading import PLANES
from harness.case.cases import Case
from harness.checks import decode, prefill
from harness.exits import InputError
from harness.fill.inputs import build
from harness.judge import wanted
from harness.record import store
from oracles import topk

LARGEST_TOPK = 2048


def example(case: Case) -> tuple[Manifest, dict[str, Tensor]]:
    """A capture of a decode or prefill case as an engine that is right would have left it.

    All parts are there. A row selects half the longest context, 2048 keys at most. Raises `InputError`
    for a case of another suite.
    """
    if case.suite not in KINDS:
        raise InputError(f"ID is a case of suite {case.suite}, allowed are cases of {' and '.join(KINDS)}")
    inputs = build(case)
    planes = inputs.planes
    tensors: dict[str, Tensor] = {name: getattr(planes, name) for name in PLANES}
    if case.suite == "decode":
        tensors |= {"context_lens": inputs.context_lens, "schedule": decode.given_schedule(inputs)}
    else:
        tensors |= {"row_seq": inputs.seq.int(), "row_start": inputs.start.int(), "row_end": inputs.end.int()}
        tensors["schedule"] = prefill.given_schedule(inputs, slice(None))
    logits = wanted.scored(inputs, case.suite).value
    k = max(1, min(LARGEST_TOPK, case.longest // 2))
    tensors["logits"] = logits
    if not bool(topk.unordered(logits, inputs.windows, k).any()):
        tensors["topk_ids"] = topk.topk(logits, inputs.windows, k, stable=True).ids.int()
    scale, note = inputs.filled.weight_scale, f"an example made from case {case.id}; logits are the oracle's"
    return Manifest(case.suite, case.width, scale, case.n, k, {"engine": "none, an example"}, note), tensors


def write(folder: Path, manifest: Manifest, tensors: dict[str, Tensor]) -> None:
    """Write a capture into ``folder``, made when absent. Raises `InputError` where there is one already."""
    taken = next((name for name in (MANIFEST, TENSORS) if (folder / name).exists()), None)
    if taken:
        raise InputError(f"DIR {folder} holds a {taken} already, allowed is a folder without a capture")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / TENSORS)
        (folder / TENSORS).chmod(0o644)  # the library leaves it to its owner alone
        store.write_atomically(folder / MANIFEST, manifest_text(manifest))
    except OSError as error:
        reason = str(error.strerror or error).lower()
        raise InputError(f"DIR {folder} cannot be written to: {reason}") from None


def manifest_text(manifest: Manifest) -> str:
    """The manifest as TOML."""
    lines = [f"format = {FORMAT}", f"kind = {json.dumps(manifest.kind)}"]
    lines += [f"next_n = {manifest.next_n}"] if manifest.kind == "decode" else []
    lines += [f"max_seq_len = {manifest.max_seq_len}", f'weight_scale = "{manifest.weight_scale.hex()}"']
    lines += [] if manifest.index_topk is None else [f"index_topk = {manifest.index_topk}"]
    lines += [f"page_rows = {PAGE_ROWS}", f"note = {_text(manifest.note)}", "", "[versions]"]
    lines += [f"{_text(name)} = {_text(text)}" for name, text in manifest.versions.items()]
    return "\n".join(lines) + "\n"


def _text(text: str) -> str:
    """A TOML text; JSON's is one too, but for surrogates in escapes and a bare DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
