"""The format of a capture: a folder with a manifest and a file of tensors. No torch is imported here.

The tables below are what the loader checks and what ``harness capture-spec`` prints, so that the
text cannot promise what the loader refuses. It fails silently if a name is read that no table
lists: unknown names are refused, never skipped.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.exits import InputError

MANIFEST = "manifest.toml"
TENSORS = "tensors.safetensors"
SUITE = "capture"
"""Suite in the verdicts of captures; no case lists it."""
FORMAT = 1
KINDS = ("decode", "prefill")
PAGE_ROWS = 64
LARGEST = 2.0**128
"""Magnitudes from here on are no float32."""


@dataclass(frozen=True)
class Entry:
    """A field of the manifest: what it may be, what it means, the kinds that have it."""

    allowed: str
    about: str
    kinds: tuple[str, ...] = KINDS
    optional: bool = False


@dataclass(frozen=True)
class Part:
    """A tensor: torch dtype, shape in the symbols of `SYMBOLS`, meaning, the kinds that have it."""

    dtype: str
    shape: str
    about: str
    kinds: tuple[str, ...] = KINDS
    optional: bool = False


FIELDS: Mapping[str, Entry] = {
    "format": Entry(str(FORMAT), "version of this format"),
    "kind": Entry(" or ".join(f'"{kind}"' for kind in KINDS), "which scorer was called"),
    "next_n": Entry("an integer of 1 and above", "query rows of a sequence, N", ("decode",)),
    "max_seq_len": Entry("an integer of 1 and above", "columns of the score buffer"),
    "weight_scale": Entry(
        'a finite float32, as a number or as text in decimal or hex ("0x1.6a09e6p-7")',
        "factor of every score; hex text keeps all its bits",
    ),
    "index_topk": Entry("an integer of 1 and above", "keys a row selects; needed with topk_ids", KINDS, True),
    "page_rows": Entry(str(PAGE_ROWS), "indexer rows of a page"),
    "versions": Entry("a table of texts", "what ran: engine, kernels, driver, chip ...", KINDS, True),
    "note": Entry("a text", "whatever a reader should know", KINDS, True),
}

PARTS: Mapping[str, Part] = {
    "q_codes": Part("uint8", "[T, H, D/2]", "query codes, two a byte, the even column in the low nibble"),
    "q_scales": Part(
        "uint8", "[T, K, 4, 16, pad4(H/16)]", "query scales: k-tile, group, head % 16, head // 16"
    ),
    "k_codes": Part(
        "uint8", "[blocks, K, 4, 64, 16]", "key plane: block, k-tile, group, row of the page, byte"
    ),
    "k_scales": Part(
        "uint8", "[blocks, K, 4, 64]", "key scales; row r of a page sits at r % 16 * 4 + r // 16"
    ),
    "block_tables": Part(
        "int32", "[B, W]", "block of each page; entries past a sequence's last page may hold anything"
    ),
    "weights": Part("bfloat16", "[T, H]", "head weights, not scaled"),
    "context_lens": Part("int32", "[B]", "keys of each sequence, the newest included", ("decode",)),
    "row_seq": Part("int32", "[T]", "sequence of each row", ("prefill",)),
    "row_start": Part("int32", "[T]", "first key a row sees", ("prefill",)),
    "row_end": Part("int32", "[T]", "one past the last key a row sees", ("prefill",)),
    "schedule": Part(
        "int32",
        "[P, 4] (decode) or [P, 6] (prefill)",
        "work list of the launch, as it was given",
        KINDS,
        True,
    ),
    "logits": Part(
        "float32",
        "[T, max_seq_len]",
        "scores as they came; columns outside the windows may hold anything",
        KINDS,
        True,
    ),
    "topk_ids": Part("int32", "[T, index_topk]", "columns that were selected, -1 for none", KINDS, True),
}

SYMBOLS = """\
T query rows, H heads (multiple of 16, at most 128), D head dim (128 or 256), K = D/128 k-tiles,
B sequences, W pages a row of the table, P schedule slots. Decode: T = B * next_n, and row n of a
sequence sees the keys below context_len - (next_n - 1 - n)."""

HOW = """\
how to save one (planes of float4 or float8 dtypes as their bytes: x.view(torch.uint8)):
  from safetensors.torch import save_file
  save_file({name: x.detach().cpu().contiguous() for name, x in tensors.items()}, "cap/tensors.safetensors")
'harness capture-spec --example DIR ID' writes a whole one to look at."""

RULES = """\
What is checked before anything runs: every name, dtype and shape; that windows are ordered and lie
inside max_seq_len and the table; that pages in use name a block of the pool (a sequence uses the
pages up to its last visible key); that schedule entries stay inside rows, sequences and chunks of
256 columns; that rows which see a key carry no NaN weights. Save whole planes or only the pages in
use (then renumber the table); pages that no table entry in use names are never read.

What is judged: each path's scores against the oracle. What the engine itself made is a subject of its
own, named captured: the schedule must cover every visible chunk once, logits must have the oracle's
bits inside the windows (in the kernels' declared order of summation where sums round), topk_ids must
be a right selection over the captured logits (over the oracle's scores where there are none), each
row compared as a set."""


@dataclass(frozen=True)
class Manifest:
    """What the manifest says. ``next_n`` is 0 for prefill."""

    kind: str
    max_seq_len: int
    weight_scale: float
    next_n: int = 0
    index_topk: int | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


def parts_of(kind: str, *, optional: bool) -> list[str]:
    """Names of the tensors that a capture of ``kind`` must have, or may have."""
    return [name for name, part in PARTS.items() if kind in part.kinds and part.optional is optional]


def spec() -> str:
    """The format as text for people."""
    lines = [f"A capture is a folder with {MANIFEST} and {TENSORS}.", "", MANIFEST]
    for name, entry in FIELDS.items():
        lines.append(f"  {name:<14}{entry.about}{_only(entry.kinds, entry.optional)}: {entry.allowed}")
    lines += ["", TENSORS]
    for name, part in PARTS.items():
        lines.append(f"  {name:<14}{part.dtype} {part.shape}{_only(part.kinds, part.optional)}")
        lines.append(f"  {'':<14}{part.about}")
    return "\n".join([*lines, "", SYMBOLS, "", HOW, "", RULES])


def _only(kinds: tuple[str, ...], optional: bool) -> str:
    said = [*([] if kinds == KINDS else [f"{kinds[0]} only"]), *(["optional"] if optional else [])]
    return f" ({', '.join(said)})" if said else ""


def read_manifest(text: str) -> Manifest:
    """The manifest in ``text``. Raises `InputError`, one sentence naming the field and what is allowed."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{MANIFEST} is no TOML: {' '.join(str(error).split())}") from None
    if found.get("kind") not in KINDS:
        raise _bad(found, "kind")
    kind = str(found["kind"])
    known = [name for name, entry in FIELDS.items() if kind in entry.kinds]
    for name in found:
        if name not in known:
            raise InputError(f"{name} is no field of a {kind} {MANIFEST}, allowed are {', '.join(known)}")
    for name, wanted in (("format", FORMAT), ("page_rows", PAGE_ROWS)):
        if type(found.get(name)) is not int or found[name] != wanted:
            raise _bad(found, name)
    return Manifest(
        kind,
        _count(found, "max_seq_len"),
        _scale(found),
        _count(found, "next_n") if kind == "decode" else 0,
        _count(found, "index_topk") if "index_topk" in found else None,
        _versions(found),
        _note(found),
    )


def _bad(found: Mapping[str, Any], name: str) -> InputError:
    came = f"is {found[name]!r}" if name in found else "is missing"
    return InputError(f"{name} {came} in {MANIFEST}, allowed is {FIELDS[name].allowed}")


def _count(found: Mapping[str, Any], name: str) -> int:
    value = found.get(name)
    if type(value) is not int or not 1 <= value < 2**31:
        raise _bad(found, name)
    return value


def _scale(found: Mapping[str, Any]) -> float:
    value = found.get("weight_scale")
    try:
        if isinstance(value, str):
            scale = float.fromhex(value) if "x" in value.lower() else float(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            scale = float(value)
        else:
            raise ValueError
    except (ValueError, OverflowError):
        raise _bad(found, "weight_scale") from None
    if not math.isfinite(scale) or abs(scale) >= LARGEST:
        raise _bad(found, "weight_scale")
    return scale


def _versions(found: Mapping[str, Any]) -> dict[str, str]:
    value = found.get("versions", {})
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise _bad(found, "versions")
    return {str(name): str(text) for name, text in value.items()}


def _note(found: Mapping[str, Any]) -> str:
    value = found.get("note", "")
    if not isinstance(value, str):
        raise _bad(found, "note")
    return value
