"""What the launches of a draft loop are: vectorised and scalar twin over one set of numbers."""

from __future__ import annotations

import pytest
import torch

from oracles import publish, schedule
from oracles.scalar import publish as scalar


def rows_of(context_lens: list[int], next_n: int, steps: int, parts: int) -> list[scalar.Row]:
    """The vectorised oracle's rows in the twin's terms."""
    lengths = torch.tensor(context_lens, dtype=torch.int32)
    return [
        (one.step, one.part, one.first + sequence, end)
        for one in publish.launches(lengths, next_n, steps, parts)
        for sequence, end in zip(one.windows.seq.tolist(), one.windows.end.tolist(), strict=True)
    ]


TWINS = {"vectorised": rows_of, "scalar": scalar.rows}


@pytest.mark.parametrize("twin", TWINS)
def test_verify_rows_and_draft_lengths_of_the_field_report(twin: str) -> None:
    """B21: verify rows 97..100 and 49..52; a draft has the lengths of two sequences, and they grow by one."""
    rows = TWINS[twin]([100, 52], 4, 3, 1)
    ends = {step: [end for at, _, _, end in rows if at == step] for step in range(5)}
    assert ends[0] == [97, 98, 99, 100, 49, 50, 51, 52]
    assert (ends[1], ends[2], ends[3]) == ([100, 52], [101, 53], [102, 54])
    assert ends[4] == [100, 101, 102, 103, 52, 53, 54, 55]


@pytest.mark.parametrize("twin", TWINS)
def test_micro_batches_have_their_own_sequences(twin: str) -> None:
    """B21: {4096, 4096} and {10, 10}; of five sequences in two parts the last has three."""
    rows = TWINS[twin]([4096, 4096, 10, 10], 1, 1, 2)
    assert [(part, end) for step, part, _, end in rows if step == 1] == [
        (0, 4096),
        (0, 4096),
        (1, 10),
        (1, 10),
    ]
    assert [part for step, part, *_ in TWINS[twin]([1, 1, 1, 1, 1], 1, 1, 2) if step == 1] == [0, 0, 1, 1, 1]


@pytest.mark.parametrize("twin", TWINS)
def test_short_sequences_have_rows_that_see_nothing(twin: str) -> None:
    """A length of 2 with four rows: the two oldest see no key, none sees a negative number."""
    assert [end for step, *_, end in TWINS[twin]([2], 4, 1, 1) if step == 0] == [0, 0, 1, 2]


def test_the_twins_agree() -> None:
    for lengths in ([5, 2047, 4096], [255], [0, 1, 256, 257, 3, 9]):
        for next_n in (1, 2, 4, 8):
            for steps in (1, 3):
                for parts in range(1, len(lengths) + 1):
                    arguments = (lengths, next_n, steps, parts)
                    assert rows_of(*arguments) == scalar.rows(*arguments), arguments


def test_units_are_those_of_the_formula() -> None:
    """f(3) = 513 > f(4) = 512 at one sequence, and f(N) is never below f(1)."""
    assert [scalar.units(n, 1) for n in (1, 3, 4)] == [512, 513, 512]
    for max_bs in (1, 7, 64, 171, 172, 300, 513):
        for next_n in range(1, 9):
            assert scalar.units(next_n, max_bs) == schedule.decode_units(next_n, max_bs)
            assert publish.buffer_units(next_n, max_bs) >= publish.buffer_units(1, max_bs)


def test_a_launch_is_covered_by_its_own_schedule_and_by_no_neighbours() -> None:
    """255 grows to 257: an older schedule lacks the newest key's chunk, and says other lengths."""
    launches = publish.launches(torch.tensor([255, 3], dtype=torch.int32), 4, 3, 1)
    made = [
        schedule.decode_schedule(one.lengths, units=one.units, next_n=one.next_n, max_seq_len=300)
        for one in launches
    ]
    assert all(publish.covered(one, entries).ok for one, entries in zip(launches, made, strict=True))
    stale = publish.covered(launches[3], made[1])
    assert stale.missing == ((0, 1),) and stale.wrong
    wide = publish.covered(launches[1], made[0])
    assert wide.foreign and not wide.ok


@pytest.mark.parametrize("parts", [0, 3])
def test_parts_without_a_sequence_are_refused(parts: int) -> None:
    with pytest.raises(ValueError, match=rf"parts is {parts}, allowed are 1 to 2"):
        publish.micro_batches(2, parts)
