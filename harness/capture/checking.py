"""Shapes that belong together and values inside their ranges; what a kernel would take on trust.

A kernel takes bare pointers: a table entry past the pool or a window past the buffer makes it read
and write foreign memory. What is merely wrong (a schedule with holes, a selection of wrong keys) is
no bad input; it is judged.
"""

from __future__ import annotations

import torch
from torch import Tensor

from harness.capture.format import PAGE_ROWS, PARTS, Manifest
from harness.exits import InputError
from oracles import layout, schedule
from oracles.windows import Windows

FIELDS = {"decode": 4, "prefill": 6}
"""Numbers of a schedule entry."""


def check_shapes(manifest: Manifest, tensors: dict[str, Tensor]) -> None:
    """Raise `InputError` unless all shapes follow from those of q_codes, k_codes and block_tables."""
    for name in ("q_codes", "k_codes", "block_tables"):
        axes = PARTS[name].shape.count(",") + 1
        if tensors[name].dim() != axes or not tensors[name].numel():
            raise _shape(name, tensors[name], "no axis of 0")
    rows, heads, packed = tensors["q_codes"].shape
    blocks, (batch, _), dim = tensors["k_codes"].shape[0], tensors["block_tables"].shape, 2 * packed
    if heads % 16 or heads > 128:
        raise InputError(f"q_codes has {heads} heads, allowed are multiples of 16 from 16 to 128")
    if dim not in (128, 256):
        raise InputError(f"q_codes has head dim {dim}, allowed are 128 and 256")
    if manifest.kind == "decode" and rows != batch * manifest.next_n:
        raise InputError(
            f"q_codes has {rows} rows, allowed are {batch * manifest.next_n}: next_n = {manifest.next_n}"
            f" for each of the {batch} sequences in block_tables"
        )
    tiles = dim // layout.K_TILE
    wanted: dict[str, tuple[int, ...]] = {
        "q_scales": (rows, tiles, 4, 16, layout.tile_pad(heads)),
        "k_codes": (blocks, tiles, 4, PAGE_ROWS, 16),
        "k_scales": (blocks, tiles, 4, PAGE_ROWS),
        "weights": (rows, heads),
        "context_lens": (batch,),
        **dict.fromkeys(("row_seq", "row_start", "row_end"), (rows,)),
        "logits": (rows, manifest.max_seq_len),
        "topk_ids": (rows, manifest.index_topk or 0),
    }
    for name, size in wanted.items():
        if name in tensors and tuple(tensors[name].shape) != size:
            raise _shape(name, tensors[name], f"here {list(size)}")
    entries = tensors.get("schedule")
    if entries is not None and (entries.dim() != 2 or entries.shape[1] != FIELDS[manifest.kind]):
        raise _shape("schedule", entries, f"here [P, {FIELDS[manifest.kind]}]")


def _shape(name: str, tensor: Tensor, more: str) -> InputError:
    return InputError(f"{name} has shape {list(tensor.shape)}, allowed is {PARTS[name].shape}, {more}")


def check_ranges(manifest: Manifest, tensors: dict[str, Tensor], windows: Windows) -> None:
    """Raise `InputError` unless every value a kernel computes addresses from stays inside its tensor."""
    table = tensors["block_tables"]
    reach = min(manifest.max_seq_len, table.shape[1] * PAGE_ROWS)
    limit = f"the smaller of max_seq_len and {PAGE_ROWS} keys for each page in block_tables"
    if manifest.kind == "decode":
        _inside("context_lens", tensors["context_lens"], 0, reach, f"sequence {{0}} ({limit})")
        lengths = tensors["context_lens"].long()
    else:
        _inside("row_seq", tensors["row_seq"], 0, len(table) - 1, "row {0}")
        _inside("row_end", tensors["row_end"], 0, reach, f"row {{0}} ({limit})")
        _ordered(tensors["row_start"], tensors["row_end"])
        lengths = torch.zeros(len(table), dtype=torch.int64)
        lengths.scatter_reduce_(0, windows.seq, windows.end * (windows.end > windows.start), "amax")
    _pages(table, lengths, len(tensors["k_codes"]))
    busy = (windows.end > windows.start).unsqueeze(1)
    lost = (tensors["weights"].isnan() & busy).nonzero()
    if len(lost):
        row, head = lost[0].tolist()
        raise InputError(
            f"weights is NaN in row {row}, head {head}, allowed are numbers in rows that see a key"
        )
    if "schedule" in tensors:
        _schedule(manifest, tensors["schedule"].long(), windows.rows, len(table))


def _inside(name: str, values: Tensor, low: int, high: int, place: str) -> None:
    """Every value from ``low`` to ``high``; ``place`` is a format that takes the index."""
    wrong = ((values < low) | (values > high)).nonzero()
    if len(wrong):
        spot = wrong[0].tolist()
        raise InputError(
            f"{name} is {int(values[tuple(spot)])}, allowed are {low} to {high} for {place.format(*spot)}"
        )


def _ordered(start: Tensor, end: Tensor) -> None:
    wrong = ((start < 0) | (start > end)).nonzero()
    if len(wrong):
        row = int(wrong[0])
        raise InputError(
            f"row_start is {int(start[row])}, allowed are 0 to {int(end[row])} (its row_end) for row {row}"
        )


def _pages(table: Tensor, lengths: Tensor, blocks: int) -> None:
    """Entries in use, those up to a sequence's last visible key, name blocks of the pool."""
    used = torch.arange(table.shape[1]) < -(-lengths // PAGE_ROWS).unsqueeze(1)
    wrong = (((table < 0) | (table >= blocks)) & used).nonzero()
    if len(wrong):
        sequence, page = wrong[0].tolist()
        raise InputError(
            f"block_tables is {int(table[sequence, page])}, allowed are 0 to {blocks - 1}"
            f" (k_codes has {blocks} blocks) for page {page} of sequence {sequence}, which is in use"
        )


def _schedule(manifest: Manifest, entries: Tensor, rows: int, batch: int) -> None:
    """Entries that stay inside rows, sequences and chunks; whether they cover the work is judged later."""
    chunks = -(-manifest.max_seq_len // schedule.BLOCK_K)
    if manifest.kind == "decode" and len(entries) % manifest.next_n:
        raise InputError(
            f"schedule has {len(entries)} entries, allowed are multiples of next_n = {manifest.next_n}"
        )
    first = 1 if manifest.kind == "decode" else 2
    _inside("schedule row", entries[:, 0], 0, rows - 1, "entry {0}")
    if manifest.kind == "prefill":
        _inside("schedule sequence", entries[:, 1], 0, batch - 1, "entry {0}")
        _inside("schedule end", entries[:, 5], 0, manifest.max_seq_len, "entry {0}")
        _inside("schedule start", entries[:, 4], 0, manifest.max_seq_len, "entry {0}")
    else:
        _inside("schedule context length", entries[:, 3], 0, manifest.max_seq_len, "entry {0}")
    _inside("schedule first chunk", entries[:, first], 0, chunks - 1, "entry {0}")
    _inside("schedule chunk count", entries[:, first + 1], 0, chunks, "entry {0}")
    last = entries[:, first] + entries[:, first + 1]
    _inside("schedule first chunk + count", last, 0, chunks, f"entry {{0}} (max_seq_len has {chunks} chunks)")
