"""Suite pool: the planes of all layers have their shapes, are charged for, and share no byte.

Small pools are enumerated, every byte's owner put down in a map; large ones are worked out from intervals.
On small ones the two must say the same. What fp4 saves, and how many more pages the same memory
then holds, follows from the bytes that the path charges for a page, and is kept as facts.
"""

from __future__ import annotations

import torch

from harness.case.cases import Case
from harness.checks.book import Book
from harness.judge.compare import Difference
from harness.judge.verdict import SUBJECTS, Grade, Verdict
from harness.paths.base import OutOfScope, Path, Unsupported
from harness.paths.requests.pooling import PoolGeometry
from oracles import pool
from oracles.pool import Extent, Ownership, Pool

SMALL = 1 << 21
"""Bytes of a pool whose every byte is put down in a map."""
SCORED_ROWS = 64
"""Rows of the only pages that fp4 scorers take; a path may refuse to make others."""
NOTHING = torch.empty(0, 2, dtype=torch.int64)


def check(case: Case, path: Path) -> Verdict:
    """Compare both forms of the pool; what a path lacks is said after the rest was compared."""
    book = Book(case, path)
    made: dict[str, Pool] = {}
    lacking: list[Unsupported] = []
    for form in pool.FORMS:
        try:
            got = answered(book, form)
        except OutOfScope:
            raise
        except Unsupported as refusal:
            lacking.append(refusal)
            continue
        if isinstance(got, Verdict):
            return got
        if got is not None:
            made[form] = got
    if lacking:
        said = f"{' and '.join(made)} agrees" if made else "nothing else was asked"
        raise Unsupported(f"{lacking[0]} ({said})") from lacking[0]
    keep(book, made)
    book.doubt(case.layers < 2, "one layer has no neighbour to lie over")
    return book.agree(Grade.EXACT)


def answered(book: Book, form: str) -> Pool | Verdict | None:
    """The path's pool of ``form``, a verdict when it is wrong, None when it refuses pages of that size."""
    case = book.case
    request = PoolGeometry(form, case.layers, case.page, case.blocks, case.d)
    try:
        got = book.ask(request)
    except Unsupported:
        raise
    except Exception as error:
        if form != "fp4" or case.page == SCORED_ROWS:
            raise
        book.facts[f"fp4 pages of {case.page} rows"] = f"refused ({type(error).__name__})"
        return None
    finally:
        name_subject(book, form)
    if not isinstance(got, Pool):
        wrong = Difference("shape", "wrong-type", NOTHING, type(got).__name__, "Pool", count=1, total=1)
        return book.differ(wrong, Grade.EXACT, step=f"for an {form} pool")
    wrong_part = shaped(case, form, got) or charged(case, form, got) or owned(case, got) or placed(got)
    if wrong_part is not None:
        wrong, where = wrong_part
        return book.differ(wrong, Grade.EXACT, where=where, step=f"for an {form} pool")
    book.total += sum(got.arenas)
    return got


def name_subject(book: Book, form: str) -> None:
    """Who answered is kept for each form: a path may have taken them from different functions."""
    subjects = book.facts.get(SUBJECTS, {})
    if PoolGeometry.__name__ in subjects:
        subjects[f"{form} pool"] = subjects.pop(PoolGeometry.__name__)


Wrong = tuple[Difference, dict[str, int | str]]


def shaped(case: Case, form: str, got: Pool) -> Wrong | None:
    """Every plane of every layer once, with the shape that the ABI says."""
    shapes = pool.page_shapes(form, case.page, case.d)
    wanted = {
        (plane, layer): (case.blocks, *shape)
        for plane, shape in shapes.items()
        for layer in range(case.layers)
    }
    seen: dict[tuple[str, int], tuple[int, ...]] = {}
    for extent in got.extents:
        key = (extent.plane, extent.layer)
        if key in seen or key not in wanted:
            what = "twice" if key in seen else "though there is none"
            return _wrong(
                "planes-differ", f"{pool.label(extent)} {what}", "each plane of each layer once", extent
            )
        if extent.shape != wanted[key]:
            return _wrong("wrong-shape", str(list(extent.shape)), str(list(wanted[key])), extent)
        seen[key] = extent.shape
    missing = sorted(set(wanted) - set(seen))
    if missing:
        plane, layer = missing[0]
        want = f"{len(wanted)} planes"
        wrong = Difference(
            "shape", "planes-missing", NOTHING, f"{len(seen)}", want, count=len(missing), total=len(wanted)
        )
        return wrong, {"plane": plane, "layer": layer}
    return None


def charged(case: Case, form: str, got: Pool) -> Wrong | None:
    """A page costs what its planes take, and all pages cost what is allocated."""
    want = case.layers * pool.page_bytes(form, case.page, case.d)
    if got.entry_bytes != want:
        return _wrong("charged-otherwise", f"{got.entry_bytes} bytes a page", f"{want} bytes a page")
    if sum(got.arenas) != want * case.blocks:
        return _wrong("allocated-otherwise", f"{sum(got.arenas)} bytes", f"{want * case.blocks} bytes")
    return None


def owned(case: Case, got: Pool) -> Wrong | None:
    """No byte of two planes, none outside, none of nobody."""
    found = pool.by_arithmetic(got)
    if sum(got.arenas) <= SMALL:
        counted = pool.by_enumeration(got)
        if (found.shared, found.outside, found.unowned) != (counted.shared, counted.outside, counted.unowned):
            raise AssertionError(f"intervals give {found}, the map of bytes {counted}")
        found = counted
    return _claimed(found)


def _claimed(found: Ownership) -> Wrong | None:
    if found.shared:
        return _wrong("planes-overlap", " and ".join(found.between), "no shared byte", count=found.shared)
    if found.outside:
        return _wrong("outside-the-allocation", f"{found.outside} bytes", "none", count=found.outside)
    if any(found.unowned):
        return _wrong("bytes-of-nobody", f"{sum(found.unowned)} bytes", "none", count=sum(found.unowned))
    return None


def placed(got: Pool) -> Wrong | None:
    """Loads are aligned: the start of each plane, and every step but those inside a load."""
    for extent in got.extents:
        unit = pool.ALIGNED[extent.plane]
        steps = [stride for stride in extent.strides if stride >= unit]
        if extent.offset % unit or any(stride % unit for stride in steps):
            said = f"offset {extent.offset}, strides {list(extent.strides)}"
            return _wrong("not-aligned", said, f"multiples of {unit}", extent)
    return None


def _wrong(reason: str, got: str, want: str, extent: Extent | None = None, *, count: int = 1) -> Wrong:
    where: dict[str, int | str] = {} if extent is None else {"plane": extent.plane, "layer": extent.layer}
    return Difference("shape", reason, NOTHING, got, want, count=count, total=count), where


def keep(book: Book, made: dict[str, Pool]) -> None:
    """What fp4 saves, by what the path charges."""
    for form, answer in made.items():
        book.facts[f"{form} bytes a page"] = answer.entry_bytes
    if len(made) < len(pool.FORMS):
        return
    fp4, fp8 = (made[form].entry_bytes for form in pool.FORMS)
    budget = fp8 * book.case.blocks
    book.facts |= {
        "fp4 / fp8": round(fp4 / fp8, 4),
        "bytes saved a page": fp8 - fp4,
        "pages in the bytes of the fp8 pool": pool.pages_for(budget, fp4),
    }
