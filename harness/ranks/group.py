"""What the ranks of a job share: a process group of torch.distributed.

NCCL (RCCL) where every rank can have a GPU of its own, else gloo on the CPU. Fails silently where
a collective changes bits on the way, so numbers travel as the integers they are stored as.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

LOOPBACK = Path("/sys/class/net/lo")
AS_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True)
class Group:
    """Rank ``rank`` of ``world``, and where its tensors travel."""

    rank: int
    world: int
    backend: str
    device: torch.device

    def all_gather(self, tensor: Tensor) -> Tensor:
        """The tensors of all ranks, [world, *shape], rank by rank; shape and dtype are the same on each."""
        carried = AS_INTEGERS[tensor.element_size()]
        mine = tensor.contiguous().view(carried).to(self.device)
        parts = [torch.empty_like(mine) for _ in range(self.world)]
        dist.all_gather(parts, mine)
        return torch.stack(parts).to(tensor.device).view(tensor.dtype)


def join(rank: int, world: int, store: str, seconds: float) -> Group:
    """Leave the group there was and meet the others at the file ``store``."""
    leave()
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if gpus:
        torch.cuda.set_device(rank % gpus)
    backend = "nccl" if gpus >= world else "gloo"
    device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
    if LOOPBACK.exists():  # all ranks are on this machine, whose own name need not resolve
        os.environ.setdefault("GLOO_SOCKET_IFNAME", LOOPBACK.name)
    dist.init_process_group(
        backend,
        store=dist.FileStore(store, world),
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=seconds),
    )
    return Group(rank, world, backend, device)


def leave() -> None:
    """Leave the process group, if there is one."""
    if dist.is_initialized():
        dist.destroy_process_group()
