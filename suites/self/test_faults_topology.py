"""Faults of schedules, replays, drafts, shards and staging: green without, red with, where they belong."""

from __future__ import annotations

from functools import cache

import pytest

from harness import runner
from harness.case.cases import parse
from harness.faults.catalogue import named
from harness.faults.planted import Planted
from harness.faults.stages import (
    drafting,
    localising,
    merging,
    publishing,
    replaying,
    scheduling,
    sharding,
    staging,
)
from harness.judge.ledger import Ledger
from harness.judge.verdict import Status, Verdict
from harness.paths import registry
from harness.paths.base import Path
from harness.paths.oracle import OraclePath
from harness.paths.registry import Trees

STAGES = (scheduling, drafting, publishing, replaying, sharding, localising, merging, staging)

SHOWN: dict[str, tuple[str, str, str]] = {
    "short-schedule": ("bits", "values-differ", "(0, 0, 1, 513)"),
    "short-prefill-schedule": ("bits", "values-differ", "(0, 0, 0, 1, 0, 513)"),
    "double-cover": ("bits", "values-differ", "1 doubled (row, chunk), first (0, 1)"),
    "double-cover-prefill": ("bits", "values-differ", "1 doubled (row, chunk), first (0, 1)"),
    "gap-cover": ("bits", "values-differ", "1 missing (row, chunk), first (0, 2)"),
    "gap-cover-prefill": ("bits", "values-differ", "1 missing (row, chunk), first (0, 2)"),
    "chunks-from-window-start": ("bits", "values-differ", "1 missing (row, chunk), first (0, 1)"),
    "short-units-accepted": ("refusal", "accepted 1 units, fewer than 2 sequences", ""),
    "short-prefill-units-accepted": ("refusal", "accepted 1 units, fewer than 2 rows", ""),
    "units-not-multiple": ("bits", "values-differ", "no multiple of 3"),
    "stale-draft-steps": ("bits", "values-differ", "draft step 1, micro-batch 0"),
    "wide-rows-schedule": ("bits", "values-differ", "draft step 0, micro-batch 0"),
    "rows-taken-for-sequences": ("bits", "values-differ", "draft step 0, micro-batch 0"),
    "draft-lengths-inflated": ("bits", "values-differ", "'lengths': '[301]'"),
    "draft-lengths-stay": ("bits", "values-differ", "draft step 1, micro-batch 0"),
    "no-base-publish": ("mask", "does-not-answer-publish", "Dense"),
    "base-publish-acts": ("mask", "acts-without-fp4", "Dense"),
    "acting-publish-missing": ("mask", "does-not-act", "Sparse"),
    "ubatch-global-zero": ("bits", "values-differ", "the verify step, micro-batch 1"),
    "ubatch-scores-from-zero": ("bits", "values-differ", "the verify step, micro-batch 1"),
    "ubatch-one-buffer": ("bits", "values-differ", "the verify step, micro-batch 0"),
    "schedule-at-another-address": ("shape", "schedule-elsewhere", "the verify step"),
    "schedule-in-a-copy": ("bits", "values-differ", "(0, 0, 2, 0)"),
    "windows-in-a-copy": ("bits", "values-differ", "window seq"),
    "prefill-schedule-in-a-copy": ("bits", "values-differ", "prefill schedule"),
    "tail-not-idle": ("bits", "values-differ", "yet every visible chunk is covered once"),
    "spare-schedule": ("bits", "values-differ", "(0, 0, 2, 0)"),
    "stale-schedule": ("bits", "values-differ", "1 missing (row, chunk), first (0, 1)"),
    "schedule-of-the-capture": ("bits", "values-differ", "1 missing (row, chunk), first (0, 1)"),
    "lengths-of-the-capture": ("bits", "values-differ", "1 missing (row, chunk), first (0, 1)"),
    "tables-of-the-capture": ("bits", "bits-differ", "for replay 1 of 257"),
    "selection-of-the-capture": ("bits", "selection-differs", "'keys': '8 missing, 3 foreign, 0 doubled'"),
    "dead-rows-scored": ("mask", "written-outside-window", "'row': 1"),
    "fallback-captured": ("shape", "captured-other-calls", ""),
    "host-read-in-capture": ("refusal", "cannot be captured: the step reads a tensor", ""),
    "local-length-uniform": ("bits", "values-differ", "RowLengths"),
    "local-length-counted-back": ("bits", "values-differ", "RowLengths"),
    "owner-round-robin-only": ("bits", "values-differ", "Owners"),
    "lengths-round-robin-only": ("bits", "values-differ", "LocalLengths"),
    "slots-round-robin-only": ("bits", "values-differ", "WriteSlots"),
    "filter-round-robin-only": ("bits", "not-the-ids-it-holds", "for the slots of rank"),
    "width-rounded-up": ("bits", "values-differ", "LocalWidth"),
    "slot-of-padding": ("bits", "values-differ", "WriteSlots"),
    "global-slots-local-table": ("bits", "values-differ", "WriteSlots"),
    "global-id-local-table": ("bits", "slot-of-no-own-key", "for the slots of rank"),
    "filter-without-owner": ("bits", "not-the-ids-it-holds", "for the slots of rank"),
    "filter-leaves-holes": ("bits", "slot-of-no-own-key", "for the slots of rank"),
    "table-of-sequence-0": ("bits", "slot-of-no-own-key", "for the slots of rank"),
    "columns-of-the-neighbour": ("bits", "key-not-selected", "for the slots of all ranks"),
    "schedule-of-the-first-rows": ("mask", "missing-inside-window", "for the scores of rank 0"),
    "table-of-another-row": ("bits", "bits-differ", "for the scores of one rank"),
    "candidates-rank-major": ("bits", "values-differ", "to pack candidates"),
    "positions-rank-major": ("bits", "values-differ", "GlobalPositions"),
    "padding-with-a-score": ("bits", "bits-differ", "to pack candidates"),
    "one-key-too-many": ("bits", "bits-differ", "to pack candidates"),
    "merge-drops-interleaved-padding": ("bits", "not-the-best-candidates", "to merge by score and id"),
    "merge-fills-with-key-0": ("bits", "key-selected-twice", "for what rank 0 merged"),
    "merge-unstable": ("bits", "ranks-disagree", "selections of all ranks"),
    "merge-unstable-columns": ("bits", "ranks-disagree", "selections of all ranks"),
    "id-in-the-score": ("bits", "not-the-best-candidates", "to merge by score and id"),
    "column-in-the-score": ("bits", "not-the-best-candidates", "to merge by score alone"),
    "scale-read-flat": ("bits", "values-differ", "right if scales were read flat"),
    "scale-write-flat": ("bits", "values-differ", "right if scales were written flat"),
    "scale-both-flat": ("bits", "values-differ", "read flat and written flat"),
    "page-size-lanes": ("bits", "values-differ", "the scales of 4 rows lay side by side"),
    "gather-order": ("bits", "values-differ", "gather index"),
    "gather-order-packed": ("bits", "values-differ", "gather index"),
    "gather-round-robin-only": ("bits", "values-differ", "the interleave is ignored"),
    "gather-reads-share": ("shape", "reads-too-little-or-too-much", "local_cu"),
    "staged-tail-missing": ("bits", "values-differ", "'key': 64"),
    "staged-table-one-seq": ("shape", "wrong-shape", "one sequence's pages (2)"),
    "staged-tail-alias": ("bits", "values-differ", "entries past the staged pages name page"),
}
"""Layer, how the reason begins, and what place, pattern or notes of the verdict say."""


@cache
def in_tree() -> Path:
    return registry.create(registry.choose(["flydsl"], Trees())[0])


@cache
def without(case: str) -> Verdict:
    return runner.run(parse(case), in_tree(), Ledger())


def seen(verdict: Verdict) -> str:
    return f"{dict(verdict.where)} {verdict.pattern} {verdict.notes}"


def test_every_fault_of_these_stages_is_here() -> None:
    names = [fault.name for stage in STAGES for fault in stage.FAULTS]
    assert sorted(names) == sorted(SHOWN)


@pytest.mark.parametrize("name", SHOWN)
def test_a_fault_is_red_where_it_belongs(name: str) -> None:
    """Its own case agrees on the in-tree path, and differs with it in the way that is stated."""
    fault, (layer, reason, said) = named(name), SHOWN[name]
    sound = without(fault.case)
    assert sound.status is Status.AGREE, sound.text()
    faulty = runner.run(parse(fault.case), Planted(in_tree(), [fault]), Ledger())
    assert faulty.status is Status.DIFFER, faulty.text()
    assert (faulty.layer, faulty.reason[: len(reason)]) == (layer, reason), faulty.text()
    assert said in seen(faulty), seen(faulty)


@pytest.mark.parametrize("name", SHOWN)
def test_the_oracle_with_the_fault_is_red_in_the_same_way(name: str) -> None:
    """Planted where right answers come from elsewhere it is the same fault."""
    fault, (layer, reason, _) = named(name), SHOWN[name]
    faulty = runner.run(parse(fault.case), Planted(OraclePath(), [fault]), Ledger())
    assert (faulty.status, faulty.layer) == (Status.DIFFER, layer), faulty.text()
    assert faulty.reason.startswith(reason), faulty.text()
