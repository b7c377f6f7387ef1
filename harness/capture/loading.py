"""Read a capture from its folder: every name, dtype, shape and range is checked before it is believed.

Every refusal is one sentence that names the field and what is allowed (`InputError`). Each tensor
gets storage of its own: in one shared storage a kernel that reads past its operand would land in
the next one, and nothing would show it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import safetensors
import torch
from torch import Tensor

from harness.capture import checking
from harness.capture.format import MANIFEST, PARTS, TENSORS, Manifest, parts_of, read_manifest
from harness.exits import InputError
from harness.paths.requests.scoring import Planes
from oracles.windows import Windows, decode_windows, prefill_windows

DIGITS = 16
"""Hex digits of the digest that name a capture."""
PIECE = 1 << 20
PLANES = ("q_codes", "q_scales", "k_codes", "k_scales", "block_tables", "weights")


@dataclass(frozen=True, eq=False)
class Capture:
    """A capture that passed every check; ``tensors`` by the names of `PARTS`, ``digest`` sha256 in hex."""

    folder: Path
    manifest: Manifest
    tensors: dict[str, Tensor]
    digest: str

    @property
    def id(self) -> str:
        """What verdicts call it."""
        return f"capture-{self.digest[:DIGITS]}"

    @property
    def planes(self) -> Planes:
        """The planes as captured; everything counts as written."""
        q_codes, q_scales, k_codes, k_scales, tables, weights = (self.tensors[name] for name in PLANES)
        return Planes(q_codes, q_scales, k_codes, k_scales, tables, weights)

    @property
    def windows(self) -> Windows:
        """Windows of the rows, ends of 0 and above."""
        return windows_of(self.manifest, self.tensors)


def windows_of(manifest: Manifest, tensors: dict[str, Tensor]) -> Windows:
    """What each row sees (spec indexer.md 4)."""
    if manifest.kind == "decode":
        return decode_windows(tensors["context_lens"], manifest.next_n)
    return prefill_windows(tensors["row_seq"], tensors["row_start"], tensors["row_end"])


def load(folder: Path) -> Capture:
    """The capture in ``folder``. Raises `InputError`."""
    if not folder.is_dir():
        raise InputError(f"--capture {folder} is no directory, allowed is one with {MANIFEST} and {TENSORS}")
    digest = hashlib.sha256()
    for name in (MANIFEST, TENSORS):
        _add(digest, folder / name)
    try:
        manifest = read_manifest((folder / MANIFEST).read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise InputError(f"{MANIFEST} in {folder} is no UTF-8 text, allowed is TOML") from None
    tensors = _tensors(folder / TENSORS, manifest)
    checking.check_shapes(manifest, tensors)
    checking.check_ranges(manifest, tensors, windows_of(manifest, tensors))
    return Capture(folder, manifest, tensors, digest.hexdigest())


def _add(digest: hashlib._Hash, file: Path) -> None:
    """Length and content of ``file`` into ``digest``."""
    try:
        with open(file, "rb") as stream:
            digest.update(file.stat().st_size.to_bytes(8, "little"))
            while piece := stream.read(PIECE):
                digest.update(piece)
    except OSError as error:
        reason = str(error.strerror or error).lower()
        raise InputError(f"{file.name} of --capture {file.parent} cannot be read: {reason}") from None


def _tensors(file: Path, manifest: Manifest) -> dict[str, Tensor]:
    """Every tensor of ``file``, after its names were checked."""
    try:
        with safetensors.safe_open(file, framework="pt") as stored:
            names = set(stored.keys())
            _check_names(names, manifest)
            return {name: _own(name, stored.get_tensor(name)) for name in PARTS if name in names}
    except (safetensors.SafetensorError, OSError, ValueError, RuntimeError) as error:
        said = " ".join(str(error).split())
        raise InputError(f"{TENSORS} in {file.parent} is no whole safetensors file: {said}") from None


def _check_names(names: set[str], manifest: Manifest) -> None:
    needed, more = (parts_of(manifest.kind, optional=optional) for optional in (False, True))
    for name in sorted(names):
        if name not in (*needed, *more):
            listed = ", ".join((*needed, *more))
            raise InputError(f"{name} is no tensor of a {manifest.kind} capture, allowed are {listed}")
    for name in needed:
        if name not in names:
            raise InputError(
                f"{name} is missing in {TENSORS}, a {manifest.kind} capture has {', '.join(needed)}"
            )
    if "topk_ids" in names and manifest.index_topk is None:
        raise InputError(f"index_topk is missing in {MANIFEST}, it is needed with the tensor topk_ids")


def _own(name: str, tensor: Tensor) -> Tensor:
    """``tensor`` in storage of its own. Raises `InputError` for another dtype than the format has."""
    if tensor.dtype != getattr(torch, PARTS[name].dtype):
        came = str(tensor.dtype).removeprefix("torch.")
        raise InputError(f"{name} is {came}, allowed is {PARTS[name].dtype}")
    return tensor.clone(memory_format=torch.contiguous_format)
