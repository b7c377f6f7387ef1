"""Suite dcp-prefill, the staged planes: table, codes and scales of every key, and the rows after the last.

What a key must hold is its own codes and scales as they were before they were dealt, so that no
staging oracle is asked; the oracle with one wrong rule only names what went wrong. Where a scale
lies in its page is taken from ``oracles.staging``, which states it in numbers of its own.
"""

from __future__ import annotations

import torch
from torch import Tensor

from harness.checks.book import Book
from harness.checks.dcp_prefill import ranks as dcp_prefill_ranks
from harness.checks.dcp_prefill.shards import Job
from harness.judge import compare
from harness.judge.compare import Difference
from harness.judge.verdict import Grade, Verdict
from harness.paths.base import Unsupported
from harness.ranks.pool import RankError
from oracles import layout, staging
from oracles.staging import Staged

NO_CELLS = torch.empty(0, 2, dtype=torch.int64)
AXES = {"codes": ("key", "k-tile", "group", "byte"), "scales": ("key", "k-tile", "group")}
WRONG_RULES: dict[str, dict[str, str]] = {
    "right if scales were read flat": {"read": "flat"},
    "right if scales were written flat": {"write": "flat"},
    "right if scales were read flat and written flat": {"read": "flat", "write": "flat"},
    "right if the ranks' keys were laid end to end": {"order": "rank-major"},
    "right if the keys were left as the all-gather brings them": {"order": "gathered"},
}


def staged(book: Book, job: Job, step: str, *, ranks: int = 1) -> Staged | Verdict:
    """The planes that the first ``ranks`` ranks stage, or the verdict when any of them are wrong."""
    try:
        answers = dcp_prefill_ranks.ask(book, job, ranks)
    except Unsupported:
        raise
    except Exception as error:  # whatever the path raises, also in a rank process
        wrong = _refused(job, error)
        if wrong is None:
            raise
        return book.differ(wrong, Grade.NONE, shared=one_sequence(job), step=step)
    for rank, got in enumerate(answers):
        made = judged(book, job, got, f"{step}, rank {rank}")
        if isinstance(made, Verdict):
            return made
    return made


def judged(book: Book, job: Job, got: object, step: str) -> Staged | Verdict:
    """Layers in order: the table, the shapes, codes, scales, rows past the last key."""
    if not isinstance(got, tuple) or len(got) != 3:
        return book.differ(compare.arity(got, 3), Grade.EXACT, step=step)
    planes = _sized(book, job, got, step)
    if isinstance(planes, Verdict):
        return planes
    codes, scales, _ = parts(planes, job)
    want = {"codes": packed(job), "scales": scales_of(job)}
    for name, mine in (("codes", codes), ("scales", scales)):
        wrong = compare.integers(mine, want[name])
        if wrong is not None:
            where = located(job, name, wrong, mine, want[name])
            return book.differ(wrong, Grade.EXACT, where=where, shared=named(job, planes), step=step)
        book.total += mine.numel()
    left = leaked(planes, job)
    if left is not None:
        return book.differ(
            left, Grade.EXACT, shared="the rows past the last key are not one constant", step=step
        )
    return planes


def _sized(book: Book, job: Job, got: tuple[object, ...], step: str) -> Staged | Verdict:
    k_codes, k_scales, tables = got
    pages, first = -(-job.total // job.page_rows), job.shards[0]
    wrong = compare.integers(tables, expected_table(job))
    if wrong is not None:
        return book.differ(
            wrong, Grade.EXACT, where=_entry(wrong), shared=table_said(job, tables, wrong), step=step
        )
    assert isinstance(tables, Tensor)
    book.total += tables.numel()
    for name, plane, like in (("codes", k_codes, first.k_codes), ("scales", k_scales, first.k_scales)):
        wrong = compare.shape(plane, (pages, *like.shape[1:]), torch.uint8)
        if wrong is not None:
            return book.differ(wrong, Grade.EXACT, where={"tensor": f"staged {name}"}, step=step)
    assert isinstance(k_codes, Tensor) and isinstance(k_scales, Tensor)
    return Staged(k_codes, k_scales, tables)


def expected_table(job: Job) -> Tensor:
    """Pages 0, 1, 2 ... for every sequence, then zeros."""
    page = torch.arange(job.columns, dtype=torch.int32)
    return torch.where(page * job.page_rows < job.total, page, 0).to(torch.int32).repeat(len(job.lengths), 1)


def parts(planes: Staged, job: Job) -> tuple[Tensor, Tensor, Tensor]:
    """Staged keys: codes uint8 [L, K, 4, 16], scales uint8 [L, K, 4]; bool [pages, R]: rows of no key."""
    key = torch.arange(job.total)
    page, row = key // job.page_rows, key % job.page_rows
    place = staging.scale_place(job.page_rows)
    used = torch.zeros(len(planes.k_codes), job.page_rows, dtype=torch.bool)
    used[page, row] = True
    return planes.k_codes[page, :, :, row], planes.k_scales[page, :, :, place[row]], ~used


def packed(job: Job) -> Tensor:
    """Codes of the keys as they were before they were dealt, uint8 [L, K, 4, 16]."""
    return layout.pack_nibbles(job.filled.k_codes[job.keys]).reshape(job.total, -1, 4, 16)


def scales_of(job: Job) -> Tensor:
    return job.filled.k_scales[job.keys].reshape(job.total, -1, 4)


def leaked(planes: Staged, job: Job) -> Difference | None:
    """Rows past the last key hold one constant, not what a shard held in a row of nobody."""
    *_, unused = parts(planes, job)
    place = staging.scale_place(job.page_rows)
    page, row = unused.nonzero().unbind(1)
    for bytes_left in (planes.k_codes[page, :, :, row], planes.k_scales[page, :, :, place[row]]):
        values = bytes_left.unique()
        if len(values) > 1:
            said = f"{len(values)} different bytes"
            return Difference(
                "bits", "rows-not-cleared", NO_CELLS, said, "one", count=len(row), total=len(row)
            )
    return None


def located(job: Job, name: str, wrong: Difference, got: Tensor, want: Tensor) -> dict[str, int | str]:
    """Coordinates of the first wrong byte, and whose bytes it has."""
    if not wrong.first:
        return {"tensor": f"staged {name}"}
    key = wrong.first[0]
    spot: dict[str, int | str] = {
        "tensor": f"staged {name}",
        **dict(zip(AXES[name], wrong.first, strict=True)),
    }
    spot |= home(job, key)
    same = (got[key] == want).flatten(1).all(1).nonzero().flatten().tolist()
    if name == "codes":
        spot["holds"] = f"key {same[0]}" if same else "no key"
    return spot | {"page": key // job.page_rows, "row": key % job.page_rows}


def home(job: Job, key: int) -> dict[str, int | str]:
    """Where staged key ``key`` comes from."""
    source = job.source
    return {
        "sequence": job.chosen[int(source.sequence[key])],
        "position": int(source.position[key]),
        "held by rank": int(source.rank[key]),
        "as its key": int(source.local[key]),
    }


def named(job: Job, got: Staged) -> str:
    """The one wrong rule under which these would be the right planes; empty if there is none."""
    for said, rules in WRONG_RULES.items():
        if _same(job, got, staging.stage(job.shards, job.lengths, job.case.inter, job.columns, **rules)):  # type: ignore[arg-type]
            return said
    tiles = staging.PAGE // staging.LANES
    if job.page_rows > staging.PAGE:
        wrong = staging.stage(job.shards, job.lengths, job.case.inter, job.columns, tiles=tiles)
        if _same(job, got, wrong):
            return f"right if the scales of {tiles} rows lay side by side in pages of any size"
    return ""


def _same(job: Job, got: Staged, other: Staged) -> bool:
    """Whether two stagings hold the same keys; only whole pages where there are some."""
    whole = job.total // job.page_rows or len(other.k_codes)
    return torch.equal(got.k_codes[:whole], other.k_codes[:whole]) and torch.equal(
        got.k_scales[:whole], other.k_scales[:whole]
    )


def table_said(job: Job, tables: object, wrong: Difference) -> str:
    """Name the known ways of getting the staged table wrong."""
    if not isinstance(tables, Tensor) or tables.ndim != 2:
        return ""
    if wrong.layer == "shape":
        return one_sequence(job) if tables.shape[1] == job.sequence_pages else ""
    tail = tables[:, -(-job.total // job.page_rows) :]
    right = tables[:, : -(-job.total // job.page_rows)]
    if torch.equal(right, expected_table(job)[:, : right.shape[1]]) and bool((tail != 0).any()):
        return f"entries past the staged pages name page {int(tail[tail != 0][0])}"
    return ""


def one_sequence(job: Job) -> str:
    return f"right if the table had to hold one sequence's pages ({job.sequence_pages}), not a batch's"


def _refused(job: Job, error: Exception) -> Difference | None:
    """A batch whose pages are more than one sequence may have is legal; a process that died is no answer."""
    pages = -(-job.total // job.page_rows)
    if pages <= job.sequence_pages or (isinstance(error, RankError) and " broke: " not in str(error)):
        return None
    said = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return Difference(
        "refusal", "refused-what-is-legal", NO_CELLS, said, f"{pages} staged pages", count=1, total=1
    )


def _entry(wrong: Difference) -> dict[str, int | str]:
    if not wrong.first:
        return {"tensor": "staged table"}
    return {"tensor": "staged table", "sequence": wrong.first[0], "entry": wrong.first[1]}
