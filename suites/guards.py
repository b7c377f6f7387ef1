"""What keeps a worker in its bounds: a limit on a case's time, a share of the cores, a living parent.

Each would fail silently: a case that hangs looks like one that is slow, threads of many workers
on few cores only cost time, and a run whose front was killed goes on unseen.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from harness.record import provenance


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in the main thread after ``seconds`` (nothing where there are no alarms)."""
    usable = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if not usable or seconds <= 0:
        yield
        return

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"the case took longer than {seconds} s (--limit)")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def share_cores() -> None:
    """Give each worker its share of the cores, since torch would take all of them in every one."""
    import torch

    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    torch.set_num_threads(max(1, provenance.cores() // workers))


def watch_parent(every: float = 1.0, grace: float = 3.0) -> None:
    """Stop when the process that started this one is gone, so that a killed verify leaves nothing running.

    An interrupt first; workers that are in a long case do not hear it, so that after ``grace`` seconds the
    process group is ended, which is this process's own when `harness verify` started it.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(every)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(grace)
        if os.getpgid(0) == os.getpid():
            os.killpg(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
