"""Suite write: rows quantised and scattered into pages, negative slots skipped.

The whole pool is compared, not only the slots written: a slot of -1 that wraps to the last
page, or a padded row that lands in block 0, changes bytes nobody asked about.
"""

from __future__ import annotations

import torch
from torch import Tensor

from harness.case.cases import Case
from harness.checks import writer_twin
from harness.checks.book import Book
from harness.checks.quantise import agree_with_twin
from harness.fill import fill_values, noise, pages
from harness.judge import compare
from harness.judge.compare import Difference
from harness.judge.verdict import Grade, Verdict
from harness.paths.base import Path
from harness.paths.requests.writing import WriteKeys
from oracles import formats, layout

FIELDS = {
    "k_codes": ("block", "k-tile", "group", "slot", "byte"),
    "k_scales": ("block", "k-tile", "group", "position"),
}


def check(case: Case, path: Path) -> Verdict:
    """Compare the pool after the path's writer ran with the oracle's."""
    book = Book(case, path)
    k = fill_values.values(case.f, case.r, case.d, case.s)
    slots, blocks = slots_of(case)
    codes, scales = formats.quantise(k, formats.PRODUCTION)
    agree_with_twin(k[:8], codes, scales)
    writer_twin.check(case)
    want = pages.poisoned_pool(blocks, case.d, strided=False)
    layout.write_keys(*want, codes, scales, slots)
    got = book.ask(WriteKeys(k, slots, *pages.poisoned_pool(blocks, case.d, strided=False)))
    if not isinstance(got, tuple) or len(got) != 2:
        return book.differ(compare.arity(got, 2), Grade.EXACT)
    for name, mine, right in zip(reversed(FIELDS), reversed(got), reversed(want), strict=True):
        wrong = compare.integers(mine, right)
        if wrong is not None:
            return book.differ(
                wrong, Grade.EXACT, where=_where(name, wrong, slots), shared=_shared(name, wrong, mine, right)
            )
        book.total += right.numel()
    written = int((slots >= 0).sum())
    book.facts |= {"rows written": written, "rows skipped": len(slots) - written}
    book.doubt(written == 0, "no row was written")
    return book.agree(Grade.EXACT)


def slots_of(case: Case) -> tuple[Tensor, int]:
    """(slots int64 [R], blocks): shuffled over twice the room, every fifth row skipped (not row 0).

    Block 0 and the last block are live or poison by chance of the seed; slots are distinct.
    """
    blocks = 2 * -(-case.r // pages.PAGE) + 1
    slots = noise.permutation(case.s, "slots", blocks * pages.PAGE)[: case.r]
    row = torch.arange(case.r)
    return torch.where(row % 5 == 3, -1 - row % 2, slots), blocks


def _where(name: str, wrong: Difference, slots: Tensor) -> dict[str, int | str]:
    if not wrong.first:
        return {"tensor": name}
    spot: dict[str, int | str] = {"tensor": name, **dict(zip(FIELDS[name], wrong.first, strict=True))}
    row = wrong.first[3] if name == "k_codes" else int(layout.flat_row(wrong.first[3]))
    owner = (slots == wrong.first[0] * pages.PAGE + row).nonzero().flatten()
    return spot | {"slot": row, "written by row": int(owner[0]) if len(owner) else "none"}


def _shared(name: str, wrong: Difference, got: Tensor, want: Tensor) -> str:
    """Name the known ways of getting the planes wrong."""
    if wrong.layer != "bits":
        return ""
    if name == "k_scales":
        row = torch.arange(pages.PAGE)
        if torch.equal(got[..., row], want[..., layout.bent_row(row)]):
            return "right if the row axis were flat: the bend is missing"
    if name == "k_codes":
        swapped = (got >> 4) | ((got & 15) << 4)
        if torch.equal(swapped, want):
            return "right with the nibbles of every byte swapped"
    return ""
