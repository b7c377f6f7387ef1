"""One thread a process: the tests' tensors are small, and threads that fight over two cores cost tenfold."""

from __future__ import annotations

import torch

torch.set_num_threads(1)
