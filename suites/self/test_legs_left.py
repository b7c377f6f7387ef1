"""The time left that a running sample tells, against servers whose end is known."""

from __future__ import annotations

import heapq

import pytest

from harness.command import legs_left
from harness.command.legs_left import Left


class Clock:
    """A clock that stands where it is put."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(legs_left, "time", found)
    return found


def told(clock: Clock, latencies: list[float], at_once: int) -> list[tuple[float, float]]:
    """(what is left, what is told) after each reply but the last; a slot asks again as soon as it is free."""
    began, waiting = clock.now, list(latencies)
    flying: list[tuple[float, float]] = []

    def ask(now: float) -> None:
        if waiting:
            latency = waiting.pop(0)
            heapq.heappush(flying, (now + latency, latency))

    for _ in range(at_once):
        ask(began)
    replies = []
    while flying:
        end, latency = heapq.heappop(flying)
        replies.append((end, latency))
        ask(end)
    left, last = Left(len(latencies), 0, at_once), replies[-1][0]
    found = []
    for end, latency in replies[:-1]:
        clock.now = end
        left.reply(latency)
        seconds = left.seconds()
        assert seconds is not None
        found.append((last - end, seconds))
    clock.now = last
    left.reply(replies[-1][1])
    assert left.seconds() is None
    return found


@pytest.mark.parametrize("questions", [8, 16, 64])
def test_a_batch_is_waited_for_once(questions: int, clock: Clock) -> None:
    """Eight at once, ten seconds each: exact after every reply, also after the first of a batch."""
    for true, said in told(clock, [10.0] * questions, 8):
        assert said == pytest.approx(true, abs=1e-9)


def test_one_at_a_time_is_exact(clock: Clock) -> None:
    """All of one length: what is left is their number times that."""
    assert told(clock, [3.0] * 5, 1) == [(12.0, 12.0), (9.0, 9.0), (6.0, 6.0), (3.0, 3.0)]


def test_replies_of_many_lengths_come_out_about_right(clock: Clock) -> None:
    """Lengths 1 to 7 in turn, four at once: off by the longest reply, which ends last, and by the mean so
    far, which lacks the long ones that are under way."""
    lengths = [1.0 + (3 * at) % 7 for at in range(80)]
    found = told(clock, lengths, 4)
    assert all(abs(true - said) <= max(lengths) + 0.15 * true for true, said in found[12:])


def test_the_time_of_a_server_that_starts_is_not_that_of_replies(clock: Clock) -> None:
    """Half an hour of loading, then replies of a second."""
    left = Left(10, 0, 1)
    assert left.seconds() is None
    clock.now += 1800.0
    left.reply(1.0)
    assert left.seconds() == pytest.approx(9.0)


def test_time_goes_on_while_nothing_comes(clock: Clock) -> None:
    """And ends at nothing: a reply that is late does not make what is left negative."""
    left = Left(2, 0, 1)
    left.reply(4.0)
    clock.now += 3.0
    assert left.seconds() == pytest.approx(1.0)
    clock.now += 9.0
    assert left.seconds() == pytest.approx(0.0)


def test_kept_answers_are_not_asked(clock: Clock) -> None:
    """Of ten with six kept four are left."""
    left = Left(10, 6, 1)
    left.reply(2.0)
    assert left.seconds() == pytest.approx(6.0)
