"""Scripts of choices and of ranks: any right answer passes, a wrong one does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.case.cases import parse
from harness.judge.ledger import Ledger
from harness.judge.verdict import Status
from harness.paths import base, registry
from harness.paths.oracle import OraclePath
from harness.paths.requests import sharding
from harness.paths.requests.selecting import PlainTopK, SelectDecode, SelectPrefill
from harness.paths.requests.sharding import Place
from harness.reduce import blaming, choice, script
from harness.reduce.choice import Choice
from harness.reduce.recording import Recording
from suites.self import dcp_faults
from suites.self.test_reduce_script import run

PLANTED = """
from harness.paths.oracle import OraclePath
from suites.self.{module} import {name}

real, faulty = OraclePath.run, {name}({arguments})
OraclePath.run = lambda self, request: real(faulty, request)
"""
"""Makes the oracle path of a script's process faulty."""


class Worst(OraclePath):
    """Selects the smallest scores."""

    @cached_property
    def table(self) -> base.Answers:
        right = super().table

        def wrong(request: Any) -> base.Outcome:
            return right[type(request)](replace(request, logits=-request.logits))

        return {**right, SelectDecode: wrong, SelectPrefill: wrong}


def check_script(folder: Path, module: str, name: str, arguments: str = "") -> str:
    """The script agrees on the path as it is, and differs where the fault is planted: what it says then."""
    code, said = run(folder / "repro.py")
    assert code == 0 and "agrees: " in said, said
    (folder / "overlay").mkdir()
    text = PLANTED.format(module=module, name=name, arguments=arguments)
    (folder / "overlay" / "sitecustomize.py").write_text(text)
    code, said = run(folder / "repro.py", folder=folder / "overlay")
    assert code == 1 and "DIFFERS: " in said, said
    return said


def test_a_selection_is_judged_by_what_can_be_taken(tmp_path: Path) -> None:
    """Keys of small scores are told by the score that is left; the script needs no suite."""
    case = parse("topk-n1-ctx9,7-k4-stable0-l0-fdistinct-s1")
    verdict, without = script.write(tmp_path, case, Worst(), registry.Choice("oracle"), Ledger())
    assert verdict.status is Status.DIFFER and without == ""
    said = check_script(tmp_path, "test_reduce_choice", "Worst")
    assert "row 0 takes a score of" in said
    text = (tmp_path / "repro.py").read_text(encoding="utf-8")
    assert "suites" not in text and "harness.checks" not in text


@pytest.mark.parametrize(
    ("keys", "fault", "said"),
    [
        ("inter1-exids-n1-h16-d128-ctx2-k1", "global-id-local-table", "want"),
        ("inter16-exids-n1-h16-d128-ctx71-k20", "id-in-the-score", "row"),
    ],
)
def test_what_ranks_were_asked_becomes_a_script(keys: str, fault: str, said: str, tmp_path: Path) -> None:
    """A request of one of the processes, in a script that needs none."""
    case = f"dcp-decode-world2-{keys}-tshuffled-fbytes-s1"
    path = dcp_faults.FaultyPath(fault)
    verdict, without = script.write(tmp_path, parse(case), path, registry.Choice("oracle"), Ledger())
    assert verdict.status is Status.DIFFER and without == ""
    assert said in check_script(tmp_path, "dcp_faults", "FaultyPath", repr(fault))


@pytest.mark.parametrize(
    ("ids", "why"),
    [
        ([[0, 1], [3, -1]], None),
        ([[2, 0], [-1, 3]], None),
        ([[1, 2], [3, -1]], "row 0 takes a score of 5.0 where one of 7.0 is left"),
        ([[0, 0], [3, -1]], "row 0 takes 0 twice"),
        ([[0, -1], [3, -1]], "row 0 takes 1, wanted are 2"),
        ([[0, 1], [3, 0]], "row 1 takes 0, which it does not have"),
        ([[0, 4], [3, -1]], "row 0 takes 4, which it does not have"),
        ([[0, 1]], "torch.int64 [1, 2] came, wanted are integers [2, 2]"),
    ],
)
def test_any_of_equal_scores_may_be_taken(ids: list[list[int]], why: str | None) -> None:
    """In any order; of a row that has no more than k, all are."""
    names = torch.tensor([[0, 1, 2, 3], [-1, -1, -1, 3]])
    scores = torch.tensor([[7.0, 5.0, 5.0, 1.0], [9.0, 9.0, 9.0, float("nan")]])
    wrong = blaming.space()["misses"](torch.tensor(ids), names, scores, 2, False, False)
    assert wrong == why


def test_stable_choices_and_padding_by_score() -> None:
    """Ties go to the smallest names where that is the rule; a name at -inf may stand for padding."""
    misses = blaming.space()["misses"]
    names, scores = torch.arange(3)[None], torch.tensor([[5.0, 5.0, 5.0]])
    assert misses(torch.tensor([[1, 0]]), names, scores, 2, True, False) is None
    assert misses(torch.tensor([[1, 2]]), names, scores, 2, True, False) == "row 0 takes 2 and not 0"
    scores = torch.tensor([[5.0, -torch.inf, -torch.inf]])
    for ids in ([0, -1], [0, 2], [1, 0]):
        assert misses(torch.tensor([ids]), names, scores, 2, False, True) is None
    assert misses(torch.tensor([[2, -1]]), names, scores, 2, False, True) == "row 0 takes 0, wanted are 1"


def requests() -> Mapping[str, Any]:
    """A request of each kind of choice, whose right answers are several."""
    ties = torch.tensor([[1.0, 2.0, 2.0, 2.0, 0.0], [3.0, 3.0, 3.0, -torch.inf, 3.0]])
    start, end = (torch.tensor(row, dtype=torch.int32) for row in ([1, 0], [4, 5]))
    gathered = torch.stack([ties, ties - 1])
    ids = torch.arange(20, dtype=torch.int32).reshape(2, 2, 5)
    ids[0, 0, 1] = -1
    place = Place(2, 1)
    return {
        "decode": SelectDecode(ties, torch.tensor([5, 4]), 1, 2, False, torch.zeros(2, 2, dtype=torch.int32)),
        "prefill": SelectPrefill(ties, start, end, 2, True, torch.zeros(2, 2, dtype=torch.int32)),
        "plain": PlainTopK(ties, 2),
        "merge": sharding.MergeCandidates(gathered, ids, 3, place),
        "columns": sharding.MergeColumns(gathered, 3, place),
    }


@pytest.mark.parametrize("kind", ["decode", "prefill", "plain", "merge", "columns"])
def test_the_oracles_choice_is_a_right_one(kind: str) -> None:
    """And the worst of each row is not."""
    request = requests()[kind]
    found = choice.of(request)
    assert found is not None
    answer: Tensor = OraclePath().run(request).value
    assert not blaming.misses(answer, found)
    worst = Choice(found.names, -found.scores, found.k, found.stable)
    assert blaming.misses(answer, worst)


def test_a_whole_exchange_is_judged_by_what_all_ranks_have() -> None:
    """Positions of all ranks with their scores; keys past a rank's length are nobody's."""
    lengths, order = torch.tensor([5], dtype=torch.int32), torch.arange(2)
    scores = [torch.tensor([[1.0, 9.0, 5.0, 99.0]]), torch.tensor([[7.0, 2.0, 99.0, 99.0]])]
    parts = [
        sharding.Exchange(part, lengths, 5, order, lambda own: own, Place(2, 1, rank))
        for rank, part in enumerate(scores)
    ]
    found = choice.of_ranks(parts)
    assert sorted(name for name in found.names[0].tolist() if name >= 0) == [0, 1, 2, 3, 4]
    assert not blaming.misses((torch.tensor([[1, 2]]), lengths), found)
    assert blaming.misses((torch.tensor([[0, 2]]), lengths), found)


def test_a_collective_is_replayed_with_what_a_rank_hands_over() -> None:
    """What the others gave comes from the file, its own part from the call."""
    given = torch.tensor([[1, 2], [3, 4]])

    class Asks(OraclePath):
        @cached_property
        def table(self) -> base.Answers:
            return {sharding.Exchange: lambda request: base.Outcome(request.gather(request.scores[0]))}

    path = Recording(Asks())
    scores = torch.tensor([[3, 4]])
    asked = sharding.Exchange(scores, scores, 2, scores, lambda own: given, Place(2, 1, 1))
    path.run(asked)
    again = blaming.again(path.asked[0])
    assert again.gather(torch.tensor([8, 9])).tolist() == [[1, 2], [8, 9]]
