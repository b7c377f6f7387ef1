"""Suite dcp-decode: one decode step over W ranks, each a process with its own part of the keys.

First the maps of positions, exhaustively for the case's W and S, and the merge by itself; then the
step. Every rank's scores must be, bit for bit, those of one rank that holds all keys; the selection
must be one of the right ones, the same on all ranks, and come out in each rank's own slots. How it
would fail silently: every mistake here stays in bounds, and one that all ranks make alike passes for
agreement, so agreement is only asked after the selection has been compared.
"""

from __future__ import annotations

from harness.case.cases import Case
from harness.checks import scores
from harness.checks.book import ADDED, Book
from harness.checks.dcp_decode import exchange as dcp_exchange
from harness.checks.dcp_decode import maps as dcp_maps
from harness.checks.dcp_decode import merges as dcp_merges
from harness.checks.dcp_decode import rank as dcp_rank
from harness.checks.dcp_decode import scores as dcp_scores
from harness.checks.dcp_decode import shards as dcp_shards
from harness.checks.dcp_decode.rank import Answer
from harness.judge import wanted
from harness.judge.verdict import SUBJECTS, Verdict
from harness.paths.base import OutOfScope, Path
from harness.paths.oracle import OraclePath
from harness.paths.requests import sharding
from harness.paths.requests.scoring import DecodeScores
from harness.ranks import pool

STAGES = (
    DecodeScores,
    sharding.LocalLengths,
    sharding.RowLengths,
    sharding.PackCandidates,
    sharding.MergeCandidates,
    sharding.MergeColumns,
    sharding.LocaliseIds,
)


def check(case: Case, path: Path) -> Verdict:
    """Compare maps, merges, local scores, candidates, selections and slots with the oracle's."""
    if not any(stage in path.table for stage in STAGES):
        raise OutOfScope(f"path {path.name} has no part of a decode over shards")
    book = Book(case, path)
    wrong = dcp_maps.check(book) or dcp_merges.check(book)
    if wrong is not None:
        return wrong
    whole = dcp_shards.build(case)
    shards = dcp_shards.shards(whole)
    request = whole.decode()
    single = book.stage(request)
    answers = pool.shared().run(dcp_rank.decode, path, [shard.share for shard in shards])
    for answer in answers:
        _keep(book, answer)
    scorer = path if DecodeScores in path.table else OraclePath()
    want = wanted.want(whole, scorer.tree(request))
    wrong = dcp_scores.judge(book, whole, shards, want, single, answers) or dcp_exchange.judge(
        book, whole, shards, want, single, answers
    )
    if wrong is not None:
        return wrong
    book.facts |= {
        "processes": len(answers),
        "backend": answers[0].backend,
        "rows without keys on some rank": sum(int((shard.lengths == 0).sum()) for shard in shards),
    }
    book.doubt(max(case.ctx) <= case.k, "no sequence has more than k keys, so nothing is selected")
    return scores.doubted(book, whole, want)


def _keep(book: Book, answer: Answer) -> None:
    """Findings and facts of a rank become those of the case."""
    book.findings.extend(answer.findings)
    for key, value in answer.facts.items():
        if key == SUBJECTS:
            book.facts.setdefault(key, {}).update(value)
        elif key in ADDED:
            book.facts[key] = book.facts.get(key, 0) + value
        else:
            book.facts[key] = value
