"""How long a sample still takes, from the latencies of its replies and how many requests are asked at once.

Contract: replies that come together count as having been waited for together. The failure to fear is a server
that batches: after the first of eight replies a rate of "one so far" says that seven more times as long are
left, when all others are about to come.
"""

from __future__ import annotations

import time


class Left:
    """Seconds left of ``expected`` questions, ``at_once`` asked at a time; ``done`` of them are kept already.

    Requests that wait have waited on average as long as all slots were busy, less the latencies of the
    replies that came. The clock starts with the first request, not with the server.
    """

    def __init__(self, expected: int, done: int, at_once: int) -> None:
        self._left, self._at_once = expected - done, max(1, at_once)
        self._replies, self._latencies, self._busy = 0, 0.0, 0.0
        self._last: float | None = None

    def reply(self, latency: float) -> None:
        """A question has ended, ``latency`` seconds after its request (all its tries)."""
        now = time.monotonic()
        if self._last is None:
            self._last = now - latency
        self._busy += self._asking * (now - self._last)
        self._last = now
        self._left -= 1
        self._replies += 1
        self._latencies += latency

    @property
    def _asking(self) -> int:
        return min(self._at_once, max(0, self._left))

    def seconds(self) -> float | None:
        """None before the first reply and after the last."""
        if self._last is None or self._left <= 0:
            return None
        mean = self._latencies / self._replies
        busy = self._busy + self._asking * (time.monotonic() - self._last)
        waited = min(max(0.0, busy - self._latencies), self._asking * mean)
        return (self._left * mean - waited) / self._asking
