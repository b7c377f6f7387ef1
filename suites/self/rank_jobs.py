"""Jobs for rank processes in tests: functions of a module, as they are pickled by name."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import torch
from torch import Tensor

from harness.paths.base import Path, Unsupported
from harness.ranks.group import Group


def introduce(path: Path, group: Group, share: Any) -> tuple[int, int, str, Any]:
    """(process, threads, path with its state, share)."""
    return os.getpid(), torch.get_num_threads(), f"{path.name} {getattr(path, 'fault', '')}", share


def gather(path: Path, group: Group, share: Tensor) -> Tensor:
    return group.all_gather(share)


def refuse(path: Path, group: Group, share: Any) -> Any:
    """Rank 1 refuses, the others wait for it."""
    if group.rank == 1:
        raise Unsupported("this rank has no such operation")
    return group.all_gather(torch.zeros(1))


def break_down(path: Path, group: Group, share: Any) -> Any:
    if group.rank == 1:
        raise ZeroDivisionError("by a rank")
    return group.all_gather(torch.zeros(1))


def die(path: Path, group: Group, share: Any) -> Any:
    """Rank 1 is killed after a last word."""
    if group.rank == 1:
        print("about to be killed", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    return group.all_gather(torch.zeros(1))


def leave(path: Path, group: Group, share: Any) -> Any:
    if group.rank == 1:
        os._exit(3)
    return group.all_gather(torch.zeros(1))


def break_before_the_death(path: Path, group: Group, share: Any) -> Any:
    """What is heard first of a rank that dies: another one, which lost its connection to it."""
    if group.rank == 1:
        time.sleep(0.2)
        os._exit(3)
    raise RuntimeError("Connection closed by peer")


def hang(path: Path, group: Group, share: Any) -> Any:
    """Rank 1 does not come; rank 0 answers without it."""
    if group.rank == 1:
        time.sleep(60)
    return 0
