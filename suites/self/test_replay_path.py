"""In-tree publishing and selection: device operations alone, right for any contents, and captured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.judge.bits import SENTINEL
from harness.paths.flydsl import captured_topk, publishing
from harness.paths.requests import replaying as asked
from harness.paths.requests.replaying import Step
from harness.paths.requests.scoring import Planes
from harness.replay import recorder
from harness.replay.calls import CaptureRefused
from harness.replay.parts import Part, Stepper
from oracles import schedule, topk, windows
from oracles.windows import decode_windows

LENGTHS = ((0,), (1,), (255, 256, 257), (0, 0, 700), (4096, 3), (700, 437, 0, 64), (65,) * 9, (0, 0))


def ints(values: Sequence[int]) -> Tensor:
    return torch.tensor(values, dtype=torch.int32)


@pytest.mark.parametrize("next_n", [1, 2, 3, 4, 8])
def test_a_published_schedule_is_that_of_the_definition(next_n: int) -> None:
    """For buffers from one entry a row to far too many; every entry is written."""
    for lengths in LENGTHS:
        for slots in (len(lengths), len(lengths) + 1, 3 * len(lengths) + 2, 64):
            for width in (max(lengths) or 1, 5000):
                out = torch.full((slots * next_n, 4), -9, dtype=torch.int32)
                publishing.write_decode(ints(lengths), next_n, width, out)
                want = schedule.decode_schedule(
                    ints(lengths), units=len(out), next_n=next_n, max_seq_len=width
                )
                assert torch.equal(out, want), (lengths, slots, width)


def test_the_check_value_of_the_spec() -> None:
    """Run on the production builder: lengths 700, 437, 0, 64, two rows each, 16 entries, width 768."""
    out = torch.empty(16, 4, dtype=torch.int32)
    publishing.write_decode(ints((700, 437, 0, 64)), 2, 768, out)
    chunks = [(0, 0, 700), (0, 1, 700), (0, 2, 700), (1, 0, 437), (1, 1, 437), (3, 0, 64)]
    busy = [[2 * seq + n, first, 1, length] for seq, first, length in chunks for n in range(2)]
    assert out.tolist() == busy + 4 * [[0, 0, 1, 0]]


@pytest.mark.parametrize(("entries", "next_n", "sequences"), [(7, 2, 1), (6, 2, 4), (0, 1, 1), (9, 9, 1)])
def test_a_buffer_that_cannot_hold_the_work_is_refused(entries: int, next_n: int, sequences: int) -> None:
    out = torch.empty(entries, 4, dtype=torch.int32)
    with pytest.raises(ValueError, match="allowed are"):
        publishing.write_decode(ints((1,) * sequences), next_n, 256, out)
    with pytest.raises(ValueError, match="out has 2 entries, allowed are at least 3"):
        publishing.write_prefill(ints((0,) * 3), ints((0,) * 3), ints((1,) * 3), 256, out.new_empty(2, 6))


def test_prefill_schedules_and_windows_in_buffers_that_stay() -> None:
    """Ragged rows over three sequences, one of them without a row; padding at the end; the rest stays."""
    bounds, lengths, total = ints((0, 2, 2, 5)), ints((300, 9, 1)), 7
    buffers = [torch.full((9,), -9, dtype=torch.int32) for _ in range(3)]
    publishing.write_windows(bounds, lengths, total, (buffers[0], buffers[1], buffers[2]))
    want = windows.varqlen_windows(bounds, lengths, total)
    for buffer, right in zip(buffers, (want.seq, want.start, want.end), strict=True):
        assert buffer.tolist() == [*right.tolist(), -9, -9]
    assert buffers[2][:5].tolist() == [299, 300, 0, 0, 1]
    for units in (7, 8, 20):
        out = torch.full((units, 6), -9, dtype=torch.int32)
        seq, start, end = (buffer[:total] for buffer in buffers)
        publishing.write_prefill(seq, start, end, 300, out)
        assert torch.equal(out, schedule.prefill_schedule(want, units=units, max_seq_len=300))


def test_units_are_those_of_the_formula() -> None:
    for max_bs in (1, 7, 171, 172, 300, 513):
        for next_n in range(1, 9):
            assert publishing.entries(next_n, max_bs) == schedule.decode_units(next_n, max_bs)


@pytest.mark.parametrize("k", [1, 3, 8, 40])
def test_a_selection_is_the_stable_one(k: int) -> None:
    """Ties, minus infinity inside a window, NaN and huge values outside, rows shorter than k, dead rows."""
    torch.manual_seed(5)
    lengths, next_n = ints((0, 1, 9, 30)), 2
    rows = decode_windows(lengths, next_n)
    scores = torch.randint(-2, 3, (8, 30)).float()
    scores[7, :4] = -torch.inf
    hidden = ~windows.visible(rows, 30)
    spoiled = scores.masked_fill(hidden, torch.nan)
    spoiled[hidden & (torch.arange(30) % 2 == 0)] = torch.inf
    selected = torch.full((8, k), -7, dtype=torch.int32)
    captured_topk.select(spoiled, lengths, next_n, selected)
    assert torch.equal(selected.long(), topk.topk(scores, rows, k, stable=True).ids)


def test_what_reads_lengths_on_the_host_is_refused() -> None:
    """The eager builder of the scorers works a split size out on the host; the publisher does not."""
    from harness.paths.flydsl import schedules

    lengths, out = ints((300, 5)), torch.empty(8, 4, dtype=torch.int32)

    def eager() -> None:
        out.copy_(schedules.decode_schedule(lengths, units=8, next_n=1, max_seq_len=512))

    with pytest.raises(CaptureRefused):
        recorder.record(eager)
    recorder.record(lambda: publishing.write_decode(lengths, 1, 512, out))


# a whole step, captured by what this machine has


def score(step: Step) -> None:
    """Stands for a scorer: what a busy entry of the schedule reaches gets a value of its row and column."""
    entry = step.schedule.long()
    row, width = entry[:, 0], step.out.shape[1]
    column = torch.arange(width, device=entry.device)
    first = entry[:, 1:2] * schedule.BLOCK_K
    older = step.next_n - 1 - row % step.next_n
    reached = (column >= first) & (column < first + entry[:, 2:3] * schedule.BLOCK_K)
    reached &= (column < (entry[:, 3] - older)[:, None]) & (entry[:, 3:] > 0)
    cells = torch.zeros_like(step.out, dtype=torch.int32).index_add_(0, row, reached.int())
    value = step.planes.weights.float()[:, :1] * ((column * 37) % 101)
    step.out.copy_(torch.where(cells > 0, value, step.out))


def parts(step: Step) -> list[Part]:
    publish = Part(
        "publish",
        lambda: publishing.write_decode(step.context_lens, step.next_n, step.max_seq_len, step.schedule),
        True,
    )
    select = Part(
        "select", lambda: captured_topk.select(step.out, step.context_lens, step.next_n, step.selected), True
    )
    made = [publish, Part("score", lambda: score(step), True), select]
    return made[1:] if step.published else made


@contextmanager
def no_session(step: Step) -> Iterator[Any]:
    yield None


STEPPER = Stepper(
    parts, no_session, "here", "a step", torch.device("cuda") if torch.cuda.is_available() else None
)
"""A real stream capture where there is a GPU, the recorder elsewhere."""


def a_step(lengths: Sequence[int], next_n: int, units: int) -> Step:
    rows, nothing = len(lengths) * next_n, torch.zeros(1, dtype=torch.uint8)
    weights = torch.arange(1, rows + 1).bfloat16()[:, None]
    planes = Planes(nothing, nothing, nothing, nothing, torch.zeros(1, 1, dtype=torch.int32), weights)
    out = torch.full((rows, 600), SENTINEL, dtype=torch.int32).view(torch.float32)
    made = torch.full((units, 4), -9, dtype=torch.int32)
    selected = torch.full((rows, 20), -7, dtype=torch.int32)
    return Step(planes, ints(lengths), next_n, 1.0, 600, made, out, selected)


@pytest.mark.parametrize("next_n", [1, 3])
def test_replays_are_eager_runs_bit_for_bit(next_n: int) -> None:
    """Captured over one set of lengths, replayed over four, and over the first once more."""
    step = a_step((255, 3, 256), next_n, 12 * next_n)
    recording = STEPPER.capture(asked.Capture(step)).value
    for lengths in ((256, 257, 1), (257, 255, 0), (600, 0, 0), (0, 0, 1), (255, 3, 256)):
        fresh = a_step(lengths, next_n, 12 * next_n)
        step.context_lens.copy_(ints(lengths))
        step.out.copy_(fresh.out)
        step.selected.fill_(-7)
        value = STEPPER.replay(asked.Replay(step, recording)).value
        assert all(mine is theirs for mine, theirs in zip(value, step.written, strict=True))
        STEPPER.eager(asked.Eager(fresh))
        for mine, theirs in zip(step.written, fresh.written, strict=True):
            assert torch.equal(mine.view(torch.int32), theirs.view(torch.int32)), lengths
        want = schedule.decode_schedule(ints(lengths), units=12 * next_n, next_n=next_n, max_seq_len=600)
        assert torch.equal(step.schedule, want)
        seen = windows.visible(decode_windows(ints(lengths), next_n), 600)
        assert torch.equal(step.out.view(torch.int32) != SENTINEL, seen)


def test_a_capture_that_reads_the_host_is_refused_here_too() -> None:
    """Whatever records, stream or recorder, says so instead of baking the number in."""
    step = a_step((255, 3), 1, 8)

    def baked(placed: Step) -> list[Part]:
        def publish() -> None:
            placed.schedule.fill_(int(placed.context_lens[0]))

        return [Part("publish", publish, True)]

    stepper = Stepper(baked, no_session, "here", "a step", STEPPER.device)
    with pytest.raises(CaptureRefused):
        stepper.capture(asked.Capture(step))
