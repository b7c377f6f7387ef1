"""Every staging fault of the catalogue turns a smoke case red, and the verdict names it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.case.case_lists import listed
from harness.case.cases import Case, parse
from harness.checks.dcp_prefill import suite as dcp_prefill
from harness.judge.verdict import Status, Verdict
from harness.paths import base
from harness.paths.base import Unsupported
from harness.paths.flydsl import staging as in_tree
from harness.paths.oracle import OraclePath
from harness.paths.requests.scoring import PrefillScores
from harness.paths.requests.selecting import SelectPrefill
from harness.paths.requests.staging import GatherPlan, StagePrefill
from oracles import staging, topk
from oracles.staging import Shard
from oracles.windows import Windows

SMOKE = listed("dcp-prefill", "smoke")
ONE = "dcp-prefill-world3-inter1-h16-d128-ctx100,90-w0@0:1,0@0:99+2,1@0:80,1@0:90-k8-tshuffled-faddress-s1"


@dataclass
class Faulty(OraclePath):
    """`OraclePath` whose answers to ``request`` are changed by ``fault``."""

    name = "faulty"
    request: type = StagePrefill
    fault: Callable[[Any, Any], Any] = lambda request, value: value

    def run(self, request: Any) -> base.Outcome:
        outcome = super().run(request)
        if not isinstance(request, self.request):
            return outcome
        return replace(outcome, value=self.fault(request, outcome.value))


def staged(**rules: Any) -> Callable[[StagePrefill, Any], Any]:
    """Staging under one wrong rule."""

    def wrong(request: StagePrefill, value: Any) -> Any:
        planes = (request.shard.k_codes, request.shard.k_scales, request.shard.block_tables)
        gathered = [request.all_gather(plane).chunk(request.world) for plane in planes]
        shards = [Shard(*parts) for parts in zip(*gathered, strict=True)]
        columns = request.max_batch * request.sequence_pages
        made = staging.stage(shards, request.context_lens.tolist(), request.inter, columns, **rules)
        return made.k_codes, made.k_scales, made.block_tables

    return wrong


def four_tiles(request: StagePrefill, value: Any) -> Any:
    """The multiplier of a page of 64 rows, whatever the page; below that it would write past its end."""
    rows = request.shard.k_codes.shape[3]
    if rows < 64:
        raise ValueError("no such pages")
    return staged(tiles=4)(request, value)


def narrow(request: StagePrefill, value: Any) -> Any:
    """The table one sequence wide: it cannot hold a batch that takes more."""
    columns = request.sequence_pages
    if len(value[0]) > columns:
        raise RuntimeError(f"The expanded size of the tensor ({columns}) must match the existing size")
    return *value[:2], value[2][:, :columns]


def aliased(request: StagePrefill, value: Any) -> Any:
    tables = value[2].clone()
    tables[:, len(value[0]) :] = len(value[0]) - 1
    return *value[:2], tables


FAULTS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "scale-read-flat": (staged(read="flat"), "right if scales were read flat"),
    "scale-write-flat": (staged(write="flat"), "right if scales were written flat"),
    "scale-both-flat": (staged(read="flat", write="flat"), "right if scales were read flat and written flat"),
    "gather-order": (staged(order="gathered"), "right if the keys were left as the all-gather brings them"),
    "gather-order, ranks": (staged(order="rank-major"), "right if the ranks' keys were laid end to end"),
    "staged-table-one-seq": (narrow, "right if the table had to hold one sequence's pages"),
    "staged-tail-alias": (aliased, "entries past the staged pages name page"),
    "page-size-lanes": (four_tiles, "right if the scales of 4 rows lay side by side in pages of any size"),
}


def verdict(case: Case, fault: Callable[[Any, Any], Any], request: type = StagePrefill) -> Verdict:
    return dcp_prefill.check(case, Faulty(request=request, fault=fault))


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_turns_a_smoke_case_red_by_its_name(name: str) -> None:
    """The first smoke case shows each of them: four ranks, three pages and 17 keys."""
    fault, said = FAULTS[name]
    seen = verdict(SMOKE[0], fault)
    assert seen.status is Status.DIFFER
    assert seen.pattern.startswith(said)


def test_a_legal_batch_that_is_refused_is_red() -> None:
    """Two sequences of nearly the same length take more pages than one of them may have."""
    seen = verdict(parse(ONE), narrow)
    assert seen.reason == "refused-what-is-legal"
    assert "one sequence's pages (2)" in seen.pattern and seen.got.startswith(
        "RuntimeError: The expanded size"
    )


def test_where_a_scale_is_wrong() -> None:
    """The verdict names key, group, sequence and position, and the rank that held it."""
    seen = verdict(parse(ONE), staged(read="flat"))
    assert seen.where["tensor"] == "staged scales"
    assert {"key", "group", "position", "held by rank", "page", "row"} <= set(seen.where)


def test_whose_codes_a_key_has() -> None:
    """Three ranks, S = 1: rank 0's second key, which is key 3, lies where key 1 belongs."""
    seen = verdict(parse(ONE), staged(order="gathered"))
    assert (seen.where["tensor"], seen.where["key"], seen.where["holds"]) == ("staged codes", 1, "key 3")
    assert (seen.where["position"], seen.where["held by rank"], seen.where["as its key"]) == (1, 1, 0)


def test_one_byte_of_one_key_on_the_last_rank() -> None:
    """All ranks are asked: a plane that only the last one gets wrong is seen."""

    def wrong(request: StagePrefill, value: Any) -> Any:
        if request.rank < request.world - 1:
            return value
        scales = value[1].clone()
        scales[0, 0, 3, 4] += 1  # place 4 of a page of 64: row 1
        return value[0], scales, value[2]

    seen = verdict(parse(ONE), wrong)
    assert (seen.status, seen.count) == (Status.DIFFER, 1)
    assert (seen.where["key"], seen.where["group"]) == (1, 3)
    assert "asked to stage the batch, rank 2" in seen.notes


def test_live_data_past_the_last_key() -> None:
    """A row of nobody that holds what a pool held before is seen."""

    def wrong(request: StagePrefill, value: Any) -> Any:
        codes = value[0].clone()
        codes[-1, :, :, -1] = codes[0, :, :, 0]
        return codes, *value[1:]

    seen = verdict(parse(ONE), wrong)
    assert seen.reason == "rows-not-cleared"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (lambda request, value: (value[0], value[1].flip(0)), "values-differ"),
        (lambda request, value: (value[0] // 2, value[1]), "reads-too-little-or-too-much"),
        (lambda request, value: (value[0] * 5, value[1]), "reads-too-little-or-too-much"),
        (lambda request, value: (value[0] + 1, value[1]), "reads-too-little-or-too-much"),
        (lambda request, value: (value[0].long(), value[1]), "wrong-shape"),
        (lambda request, value: value[0], "wrong-arity"),
    ],
)
def test_a_plan_that_is_wrong(fault: Callable[[Any, Any], Any], said: str) -> None:
    """Another order, ranks that read too little or past their pages, other types."""
    seen = verdict(parse(ONE), fault, GatherPlan)
    assert (seen.status, seen.reason) == (Status.DIFFER, said)


def test_an_owner_that_ignores_the_interleave_is_named() -> None:
    """Positions 0-15 lie on rank 0 when S is 16; dealt one by one, every second one is elsewhere."""

    def wrong(request: GatherPlan, value: Any) -> Any:
        source = staging.sources(request.context_lens.tolist(), request.world, request.inter)
        rows = source.position % request.world * value[0][-1] + value[0][source.sequence] + source.local
        return value[0], rows.to(torch.int32)

    seen = verdict(parse(ONE.replace("inter1", "inter16")), wrong, GatherPlan)
    assert "the interleave is ignored" in seen.pattern


def test_scores_that_depend_on_the_staging_are_seen() -> None:
    """A scorer that is right on the pool and wrong on staged pages is red, and says at which step."""

    def wrong(request: PrefillScores, value: Tensor) -> Tensor:
        if len(request.planes.block_tables) == 1:  # a sequence by itself
            value = value.clone()
            row, column = value.isfinite().nonzero()[0]
            value[row, column] += 1
        return value

    seen = verdict(parse(ONE), wrong, PrefillScores)
    assert seen.status is Status.DIFFER and "asked for a prefix hit" in seen.notes


@dataclass
class Selecting(OraclePath):
    """`OraclePath` with a top-k of its own, given windows that start at a sequence's first column."""

    name = "selecting"
    fault: Callable[[SelectPrefill, Tensor], Tensor] = lambda request, ids: ids

    @cached_property
    def table(self) -> base.Answers:
        return {**super().table, SelectPrefill: self.select}

    def select(self, request: SelectPrefill) -> base.Outcome:
        rows = torch.zeros_like(request.row_start).long()
        seen = Windows(rows, request.row_start.long(), request.row_end.long())
        ids = topk.topk(request.logits, seen, request.k, request.stable).ids
        request.ids.copy_(self.fault(request, ids))
        return base.Outcome(request.ids)


def refuses(request: SelectPrefill, ids: Tensor) -> Tensor:
    raise Unsupported("this top-k takes 2048 keys only")


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (lambda request, ids: ids.where(ids < 0, ids - request.row_start[:, None]), "wrong keys"),
        (lambda request, ids: ids.where(torch.arange(ids.shape[1]) > 0, -1), "0 wrong keys, 0 twice"),
        (lambda request, ids: ids[:, :1].expand_as(ids), "0 wrong keys, 7 twice"),
    ],
)
def test_a_selection_that_is_wrong(fault: Callable[[SelectPrefill, Tensor], Tensor], said: str) -> None:
    """Columns counted from the start of the window, a key left out, one key taken for all."""
    seen = dcp_prefill.check(parse(ONE), Selecting(fault=fault))
    assert (seen.status, seen.reason) == (Status.DIFFER, "other-keys-selected")
    assert said in seen.got


def test_the_path_selects_where_it_can() -> None:
    """Its own top-k is asked; where that refuses, the oracle selects and the verdict says so."""
    seen = dcp_prefill.check(parse(ONE), Selecting())
    assert seen.status is Status.AGREE and "SelectPrefill" in seen.facts["subjects"]
    seen = dcp_prefill.check(parse(ONE), Selecting(fault=refuses))
    assert seen.status is Status.AGREE
    assert "the oracle selects: this top-k takes 2048 keys only" in seen.notes


def test_rows_that_all_stay_where_they_are_prove_little() -> None:
    """One rank, one sequence: a scale plane that is flat on both sides is right."""
    case = parse(
        "dcp-prefill-world1-inter1-h16-d128-ctx128-w0@0:1,0@0:100,0@0:127+2-k8-tshuffled-faddress-s1"
    )
    seen = dcp_prefill.check(case, OraclePath())
    assert seen.status is Status.MISTRUSTED
    assert "every key is staged at the row it came from" in seen.reason


def test_a_right_path_agrees() -> None:
    """The oracle itself, at the exact grade; planes, table, scores and selections are counted."""
    seen = dcp_prefill.check(parse(ONE), OraclePath())
    assert (seen.status, seen.reason) == (Status.AGREE, "")
    assert seen.total > 190 * 68
    assert seen.facts["pages of 128 rows"] == "staged"


class InTree(OraclePath):
    """The in-tree staging, the oracle's scores."""

    @cached_property
    def table(self) -> base.Answers:
        return {**super().table, **in_tree.answers(self)}


@pytest.mark.parametrize(
    ("turn", "said"),
    [("", ""), ("unbent", FAULTS["scale-read-flat"][1]), ("bent", FAULTS["scale-write-flat"][1])],
)
def test_a_turn_left_out_of_the_in_tree_staging(
    monkeypatch: pytest.MonkeyPatch, turn: str, said: str
) -> None:
    """It agrees as it stands; with one of its two turns of the scale plane left out it is red by name."""
    if turn:
        monkeypatch.setattr(in_tree, turn, lambda plane: plane)
    seen = dcp_prefill.check(SMOKE[0], InTree())
    assert (seen.status, seen.pattern) == (Status.DIFFER if turn else Status.AGREE, said)
