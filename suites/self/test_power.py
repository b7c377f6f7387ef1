"""Mechanical faults: what they are, that one changes one operation, and that what they do is seen."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from harness.power import acceptance, mutants
from harness.power.rules import RULES
from suites.self.emulator_builder import F32, I32, I64, Builder, run


def summing(rounds: int = 3) -> tuple[Builder, list[torch.Tensor]]:
    """out[lane] = 2 * in[lane] + 0 + 1 + 2, stored where the lane is below 4."""
    build = Builder()
    source, target = build.argument(), build.argument()
    lane = build.lane()
    narrow = build.op("truncate", I32, lane)
    value = build.load(I32, build.at(source, lane, 4))
    twice = build.op("iadd", I32, value, value)

    def body(position: int, total: int) -> tuple[int, ...]:
        return (build.op("iadd", I32, total, build.op("truncate", I32, position)),)

    low, high, step = (build.const(n, I64) for n in (0, rounds, 1))
    (total,) = build.loop(low, high, step, (twice,), body)
    few = build.compare("slt", narrow, build.const(4))

    def store() -> tuple[int, ...]:
        build.store(total, build.at(target, lane, 4))
        return ()

    build.branch(few, store)
    tensors = [torch.arange(64, dtype=torch.int32) * 3, torch.full((64,), -1, dtype=torch.int32)]
    return build, tensors


def test_every_rule_makes_something_and_names_are_unique() -> None:
    """Of the rules that concern this program; a name is how a fault is asked for again."""
    found = mutants.mutants(summing()[0].finish())
    assert len({one.name for one in found}) == len(found)
    rules = Counter(one.rule for one in found)
    assert rules["dropped operation"] == 3 and rules["removed"] == 1 and rules["wrong branch"] == 2
    assert rules["wrong predicate"] == 2 and rules["other operation"] == 2
    assert set(rules) <= set(RULES)


def test_a_planted_program_differs_in_one_operation_and_the_old_one_stays() -> None:
    """All others, values and types included, are the same; the digest knows them apart."""
    whole = summing()[0].finish()
    before, ops = mutants.digest(whole), [repr((op.code, op.operands, op.attrs)) for op in whole.walk()]
    for one in mutants.mutants(whole):
        wrong = mutants.planted(whole, one)
        assert mutants.digest(whole) == before and mutants.digest(wrong) != before
        left = Counter(ops) - Counter(repr((op.code, op.operands, op.attrs)) for op in wrong.walk())
        assert sum(left.values()) <= 1, one.name
    with pytest.raises(ValueError, match="has no mutant"):
        mutants.planted(whole, mutants.Mutant(0, "const", "removed", "gone", ""))


def test_what_faults_do_is_what_they_say() -> None:
    """Run the wrong programs: a dropped addition, a border, a loop bound, a store that is gone."""
    build, tensors = summing()
    whole = build.finish()
    lanes = torch.arange(64)

    def stored(name: str) -> list[int]:
        (one,) = [one for one in mutants.mutants(whole) if one.name.endswith(name)]
        tensors[1].fill_(-1)
        run(mutants.planted(whole, one), tensors)
        return [int(value) for value in tensors[1][:6]]

    right = [int(value) for value in 6 * lanes[:4] + 3]
    tensors[1].fill_(-1)
    run(whole, tensors)
    assert tensors[1][:6].tolist() == [*right, -1, -1]
    assert stored("store removed, gone") == [-1] * 6
    assert stored("icmp wrong predicate, border: sle")[4] == 27
    assert stored("icmp wrong predicate, negated: sge")[:4] == [-1] * 4
    assert stored("for wrong constant, operand 1: 4 for 3")[0] == 6
    assert stored("for wrong constant, operand 0: 1 for 0")[:4] == right
    assert stored("10 iadd other operation, isub")[0] == -3
    assert stored("if wrong branch, always")[5] == 33


def test_a_watched_program_counts_the_lanes_that_would_get_another_value() -> None:
    """The right value goes on; one lane in 64 has 0, where doubling and keeping are the same."""
    build, tensors = summing()
    whole = build.finish()
    (one,) = [one for one in mutants.mutants(whole) if one.name.startswith("4 iadd dropped")]
    (border,) = [one for one in mutants.mutants(whole) if "border" in one.detail]
    (store,) = [one for one in mutants.mutants(whole) if one.rule == "removed"]
    watched, counts = mutants.watching(whole, [one, store, border])
    run(watched, tensors)
    assert tensors[1][:4].tolist() == [3, 9, 15, 21]
    assert {name: (count.compared, count.differing) for name, count in counts.items()} == {
        one.name: (64, 63),
        border.name: (64, 1),
    }


def test_float_constants_and_matrix_operands() -> None:
    """0.0 becomes 1.0; every operand of the matrix instruction has its faults."""
    build = Builder()
    zero = build.const(0.0, F32)
    build.op("fmaximum", F32, zero, build.const(2.0, F32))
    details = [one.detail for one in mutants.mutants(build.finish())]
    assert "operand 0: 1.0 for 0.0" in details and "operand 1: 0.0 for 2.0" in details
    assert "operand 0 alone" in details and "fminimum" in details


INF = float("inf")


@pytest.mark.parametrize(
    ("got", "want", "passing"),
    [
        ([[1.0, 2.0, 3.0, -INF]], [[1.0, 2.0, 3.0, -INF]], [True, True, True, True]),
        ([[1.0, 2.0, 3.0, 0.0]], [[1.0, 2.0, 3.0, -INF]], [False, False, False, False]),
        ([[2.0, 4.0, 6.0, -INF]], [[1.0, 2.0, 3.0, -INF]], [True, True, False, False]),
        ([[1.0, 2.0, 3.04, -INF]], [[1.0, 2.0, 3.0, -INF]], [True, True, False, True]),
        ([[3.0, 2.9, 3.0, 0.1]], [[2.9, 3.0, 3.0, 0.1]], [True, False, False, True]),
        ([[float("nan"), 2.0, 3.0, -INF]], [[1.0, 2.0, 3.0, -INF]], [False, False, False, False]),
    ],
)
def test_acceptance_rules_of_others(
    got: list[list[float]], want: list[list[float]], passing: list[bool]
) -> None:
    """Cosine forgives a factor, and any of them a value that is near."""
    said = [rule(torch.tensor(got), torch.tensor(want)) for rule in acceptance.RULES.values()]
    assert said == passing
