"""Suite quantise: codes and scale bytes of values, from bfloat16 and, at the edges, float32.

Bytes are compared and never dequantised values: a scale one step off with codes doubled looks
almost right. The oracle is first held against its scalar twin. Codes of a group whose scale is
255 are unspecified and not compared.
"""

from __future__ import annotations

import torch
from torch import Tensor

from harness.case.cases import Case
from harness.checks.book import Book
from harness.fill import fill_values
from harness.judge import compare
from harness.judge.compare import Difference
from harness.judge.verdict import Grade, Verdict
from harness.paths.base import Path
from harness.paths.requests.writing import Quantise
from oracles import formats, layout
from oracles.scalar import formats as scalar

TWIN_ROWS = 8
"""Rows on which the oracle is held against its scalar twin in every case."""
FEW_CODES = 12
GROUP = formats.GROUP


def check(case: Case, path: Path) -> Verdict:
    """Compare the quantiser of the path with the oracle."""
    book = Book(case, path)
    for dtype in (torch.bfloat16, torch.float32) if case.f == "boundary" else (torch.bfloat16,):
        x = fill_values.values(case.f, case.r, case.d, case.s, dtype)
        codes, scales = formats.quantise(x, formats.PRODUCTION)
        agree_with_twin(x[:TWIN_ROWS], codes, scales)
        got = book.ask(Quantise(x))
        wrong = judge(book, got, codes, scales, x)
        if wrong is not None:
            return wrong
        book.total += codes.numel() + scales.numel()
        distinct = int((torch.bincount(codes.flatten(), minlength=16) > 0).sum())
        book.doubt(distinct < FEW_CODES, f"{distinct} of 16 codes occur")
        book.doubt(len(scales.unique()) < 2, "all groups have one scale byte")
    return book.agree(Grade.EXACT)


def agree_with_twin(x: Tensor, codes: Tensor, scales: Tensor) -> None:
    """Raise AssertionError where the oracle (``codes``, ``scales``) and its scalar twin part on ``x``."""
    for row in range(len(x)):
        twin_codes, twin_scales = scalar.quantise(x[row].float().tolist(), formats.PRODUCTION)
        specified = [scale != 255 for scale in twin_scales for _ in range(GROUP)]
        mine = codes[row].tolist()
        same = all(
            one == other or not said for one, other, said in zip(mine, twin_codes, specified, strict=True)
        )
        if twin_scales != scales[row].tolist() or not same:
            raise AssertionError(f"the quantise oracle and its scalar twin differ in row {row}")


def judge(book: Book, got: object, codes: Tensor, scales: Tensor, x: Tensor) -> Verdict | None:
    """Scales first: a wrong scale makes the codes below it wrong as well."""
    if not isinstance(got, tuple) or len(got) != 2:
        return book.differ(compare.arity(got, 2), Grade.EXACT)
    wrong = compare.integers(got[1], scales)
    if wrong is not None:
        return book.differ(wrong, Grade.EXACT, where=_where("scales", wrong, x, 1), step=f"{x.dtype} values")
    packed = layout.pack_nibbles(codes)
    wrong = compare.shape(got[0], packed.shape, packed.dtype)
    if wrong is not None:
        return book.differ(wrong, Grade.EXACT, where={"tensor": "codes"})
    specified = (scales != 255).repeat_interleave(GROUP, dim=1)
    zero = torch.zeros_like(codes)
    unpacked = layout.unpack_nibbles(got[0])
    wrong = compare.integers(torch.where(specified, unpacked, zero), torch.where(specified, codes, zero))
    if wrong is None:
        return None
    swapped = torch.equal(layout.unpack_nibbles(got[0], order="high-first")[specified], codes[specified])
    shared = "right with the nibbles of every byte swapped" if swapped else ""
    return book.differ(
        wrong, Grade.EXACT, where=_where("codes", wrong, x, GROUP), shared=shared, step=f"{x.dtype} values"
    )


def _where(tensor: str, wrong: Difference, x: Tensor, per_group: int) -> dict[str, int | str]:
    """Coordinates of a wrong code or scale, with the value and group maximum it was made from."""
    if not wrong.first:
        return {"tensor": tensor}
    row, place = wrong.first
    group = place // per_group
    values = x[row, group * GROUP : (group + 1) * GROUP].float()
    spot: dict[str, int | str] = {"tensor": tensor, "row": row}
    if per_group > 1:
        spot |= {"dim": place, "value": f"{float(x[row, place]):.9g}"}
    return spot | {"group": group, "group maximum": f"{float(values.abs().max()):.9g}"}
