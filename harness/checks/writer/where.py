"""Where a byte of a writer's outputs lies, and what the wrong ones have in common."""

from __future__ import annotations

import torch
from torch import Tensor

from harness.judge.compare import Difference
from harness.paths.requests.writing import WriteTokens
from oracles import layout

PAGE, GROUP_BYTES, TILE_HEADS = layout.PAGE_ROWS, layout.GROUP_BYTES, layout.TILE_HEADS
AXES = {
    "q_codes": ("row", "head", "byte"),
    "q_scales": ("row", "k-tile", "group", "lane", "head tile"),
    "weights_out": ("row", "head"),
    "k_codes": ("block", "k-tile", "group", "slot", "byte"),
    "k_scales": ("block", "k-tile", "group", "position"),
}


def where(name: str, first: tuple[int, ...], asked: WriteTokens) -> dict[str, int | str]:
    """Coordinates of cell ``first`` of output ``name``, outermost first, and whose it is."""
    if not first:
        return {"tensor": name}
    spot: dict[str, int | str] = {"tensor": name, **dict(zip(AXES[name], first, strict=True))}
    if name.startswith("k_"):
        return spot | _key(name, first, asked)
    if name == "q_codes":
        spot |= {"group": first[2] // GROUP_BYTES, "dims": f"{2 * first[2]} and {2 * first[2] + 1}"}
        values = asked.q[first[0], first[1], 2 * first[2] : 2 * first[2] + 2].tolist()
        spot["query"] = " and ".join(f"{value:.9g}" for value in values)
    if name == "q_scales":
        head = first[4] * TILE_HEADS + first[3]
        spot["head"] = head if head < asked.q.shape[1] else "none, a pad tile"
    return spot | _row(first[0], asked)


def _row(row: int, asked: WriteTokens) -> dict[str, int | str]:
    return {"position": int(asked.positions[row]), "slot of the row": int(asked.slots[row])}


def _key(name: str, first: tuple[int, ...], asked: WriteTokens) -> dict[str, int | str]:
    row = first[3] if name == "k_codes" else int(layout.flat_row(first[3]))
    owner = (asked.slots == first[0] * PAGE + row).nonzero().flatten()
    spot: dict[str, int | str] = {} if name == "k_codes" else {"slot": row}
    if not len(owner):
        return spot | {"written by row": "none, it must stay as it was"}
    spot["written by row"] = int(owner[0])
    return spot | {"position": int(asked.positions[int(owner[0])])}


def pattern(name: str, wrong: Difference, asked: WriteTokens) -> str:
    """What all wrong cells share, as far as it says who they belong to; empty when it says nothing."""
    if not len(wrong.cells) or wrong.layer != "bits":
        return ""
    if name.startswith("k_"):
        return _keys(name, wrong.cells, asked)
    skipped = asked.slots[wrong.cells[:, 0]] < 0
    if bool(skipped.all()) and not bool((asked.slots < 0).all()):
        reading = "computed though it must not be" if not asked.compute_all_q_rope else "left out or wrong"
        return f"all in rows without a slot: {reading}"
    if name == "q_scales" and bool((wrong.cells[:, 4] >= asked.q.shape[1] // TILE_HEADS).all()):
        return "all in pad tiles, which must be zero"
    return ""


def _keys(name: str, cells: Tensor, asked: WriteTokens) -> str:
    row = cells[:, 3] if name == "k_codes" else layout.flat_row(cells[:, 3])
    owned = torch.isin(cells[:, 0] * PAGE + row, asked.slots)
    if bool(owned.any()):
        return ""
    last = asked.k_codes.shape[0] - 1
    names = {0: "the first page", last: "the last page"}
    pages = [names.get(page, f"page {page}") for page in cells[:, 0].unique().tolist()]
    return f"all in slots that no row has, in {', '.join(pages[:4])}"


def stepped(found: Tensor, want: Tensor) -> str:
    """Whether every wrong scale is off by the same number of steps."""
    wrong = found != want
    steps = (found.int() - want.int())[wrong].unique()
    if len(steps) != 1:
        return ""
    step = int(steps[0])
    return f"each {abs(step)} step{'s' if abs(step) > 1 else ''} too {'high' if step > 0 else 'low'}"
