"""Suite dcp-prefill: shards are planned, gathered and staged in one order, then scored.

First where a mistake can be named: the plan by enumeration, the staged bytes of every key on every
rank. Then what it is for: the path's prefill scorer gives the bits of the unsharded pool, whole, in
two chunks and after a prefix hit. Scores alone would not do: after a LayerNorm a key that wears
its neighbour's exponent scores nearly the same.
"""

from __future__ import annotations

import torch

from harness.case.cases import Case
from harness.checks import scores
from harness.checks.book import Book
from harness.checks.dcp_prefill import ranks as dcp_prefill_ranks
from harness.checks.dcp_prefill.scores import Part, compared, cuts, units
from harness.checks.dcp_prefill.shards import Job
from harness.checks.dcp_prefill.staged import NO_CELLS, home, judged, staged
from harness.fill.inputs import Inputs, build
from harness.judge import compare, wanted
from harness.judge.bits import MINUS_INFINITY
from harness.judge.compare import Difference
from harness.judge.verdict import Grade, Verdict
from harness.paths.base import OutOfScope, Path, Unsupported
from harness.paths.oracle import OraclePath
from oracles import staging
from oracles.staging import Staged

OTHER_PAGES = (16, 32, 128)
"""Page sizes that no scorer takes: staging bends by its own, or refuses."""


def check(case: Case, path: Path) -> Verdict:
    """Stage the shards of the case and score them."""
    book, inputs = Book(case, path), build(case)
    whole = Job(case, inputs.filled, tuple(range(case.batch)), case.ctx)
    wrong = planned(book, whole)
    if wrong is not None:
        return wrong
    try:
        made = staged(book, whole, "to stage the batch", ranks=case.world)
    except OutOfScope:
        raise
    except Unsupported as refusal:
        raise Unsupported(f"{refusal} (its plan of the gather agrees)") from refusal
    if isinstance(made, Verdict):
        return made
    moved = whole.source.local % whole.page_rows != torch.arange(whole.total) % whole.page_rows
    book.facts["keys that change their row"] = int(moved.sum())
    book.doubt(not bool(moved.any()), "every key is staged at the row it came from")
    return other_pages(book, whole) or scored(book, inputs, whole, made)


def planned(book: Book, job: Job) -> Verdict | None:
    """What each rank reads holds all its keys and no page of another; every key is found again."""
    got = book.ask(job.plan())
    step = "to plan the gather"
    if not isinstance(got, tuple) or len(got) != 2:
        return book.differ(compare.arity(got, 2), Grade.EXACT, step=step)
    local_cu, index = got
    wrong = compare.shape(local_cu, (len(job.lengths) + 1,), torch.int32) or read_wrongly(job, local_cu)
    if wrong is not None:
        return book.differ(wrong, Grade.EXACT, where={"tensor": "local_cu"}, step=step)
    want = staging.gather_index(job.lengths, job.case.world, job.case.inter, local_cu).to(torch.int32)
    wrong = compare.integers(index, want)
    if wrong is not None:
        where: dict[str, int | str] = {"tensor": "gather index"}
        if wrong.first:
            where |= {"key": wrong.first[0], **home(job, wrong.first[0])}
        return book.differ(wrong, Grade.EXACT, where=where, shared=misdealt(job, local_cu, index), step=step)
    book.total += want.numel()
    return None


def misdealt(job: Job, local_cu: torch.Tensor, index: object) -> str:
    """Name the known way of getting the plan wrong."""
    source, starts = job.source, local_cu.long()
    owner = source.position % job.case.world
    by_turns = owner * starts[-1] + starts[source.sequence] + source.local
    if isinstance(index, torch.Tensor) and torch.equal(index.long(), by_turns):
        return "right if neighbouring positions lay on different ranks: the interleave is ignored"
    return ""


def read_wrongly(job: Job, local_cu: torch.Tensor) -> Difference | None:
    """A rank that reads less than it holds, or past the pages it has for a sequence."""
    steps = local_cu.long().diff().tolist()
    if int(local_cu[0]):
        return _reads("starts at 0", f"starts at {int(local_cu[0])}")
    for sequence, (length, count) in enumerate(zip(job.lengths, steps, strict=True)):
        world, inter = job.case.world, job.case.inter
        least = max(len(staging.held(length, rank, world, inter)) for rank in range(world))
        most = staging.pages_of(length, world, page_rows=job.page_rows) * job.page_rows
        if not least <= count <= most:
            return _reads(f"{least} to {most} keys of sequence {sequence}", f"{count} keys")
    return None


def _reads(want: str, got: str) -> Difference:
    return Difference("shape", "reads-too-little-or-too-much", NO_CELLS, got, want, count=1, total=1)


def other_pages(book: Book, job: Job) -> Verdict | None:
    """Pages of other sizes, of whole turns of a rank, are staged rightly, or not at all."""
    for page_rows in (rows for rows in OTHER_PAGES if rows % job.case.inter == 0):
        other = Job(job.case, job.filled, job.chosen, job.lengths, page_rows)
        said = f"pages of {page_rows} rows"
        try:
            got = dcp_prefill_ranks.in_this_process(book, other, ranks=1)[0]
        except Unsupported:
            raise
        except Exception as error:  # whatever it raises, it did not go on
            book.facts[said] = f"refused ({type(error).__name__})"
            book.total += 1
            continue
        made = judged(book, other, got, f"to stage {said}")
        if isinstance(made, Verdict):
            return made
        book.facts[said] = "staged"
    return None


def scored(book: Book, inputs: Inputs, whole: Job, made: Staged) -> Verdict:
    """Unsharded scores against the oracle, then all ways of staging against them."""
    first = inputs.prefill(units=units(inputs.windows))
    scorer = book.path if type(first) in book.path.table else OraclePath()
    unsharded = book.stage(first)
    want = wanted.want(inputs, scorer.tree(first))
    wrong = want.compare(unsharded, inputs, MINUS_INFINITY)
    if wrong is not None:
        return book.differ_on(wrong, want.grade, inputs.grid, step="for the unsharded pool")
    book.total += inputs.visible
    early = inputs.end <= cuts(inputs)[inputs.seq]
    every = torch.arange(len(inputs.seq))
    verdict = compared(book, Part(inputs, whole, made, every), unsharded, "for the staged batch")
    if verdict is None:
        verdict = in_chunks(book, inputs, whole, made, early, unsharded)
    return verdict or prefix_hit(book, inputs, early, unsharded) or scores.doubted(book, inputs, want)


def in_chunks(
    book: Book, inputs: Inputs, whole: Job, made: Staged, early: torch.Tensor, unsharded: torch.Tensor
) -> Verdict | None:
    """The early rows over the keys there were then, the late ones over all."""
    lengths = tuple(cuts(inputs).tolist())
    if sum(lengths):
        first = Job(inputs.case, inputs.filled, whole.chosen, lengths)
        then = staged(book, first, "to stage a first chunk")
        if isinstance(then, Verdict):
            return then
        rows = early.nonzero().flatten()
        wrong = compared(book, Part(inputs, first, then, rows), unsharded, "for a first chunk")
        if wrong is not None:
            return wrong
    late = (~early).nonzero().flatten()
    if not len(late):
        return None
    return compared(book, Part(inputs, whole, made, late), unsharded, "for a second chunk")


def prefix_hit(book: Book, inputs: Inputs, early: torch.Tensor, unsharded: torch.Tensor) -> Verdict | None:
    """The late rows of the sequence that has most of them, by itself: all keys before them were cached."""
    late = torch.bincount(inputs.seq[~early], minlength=inputs.case.batch)
    book.doubt(not bool(late.any()), "no row comes after a first chunk")
    sequence = int(late.argmax())
    if not int(late[sequence]):
        return None
    alone = Job(inputs.case, inputs.filled, (sequence,), (inputs.case.ctx[sequence],))
    made = staged(book, alone, "to stage a prefix hit")
    if isinstance(made, Verdict):
        return made
    rows = (~early & (inputs.seq == sequence)).nonzero().flatten()
    return compared(book, Part(inputs, alone, made, rows), unsharded, "for a prefix hit")
