"""Repeatable noise that depends on nothing but a seed, a stream name and a position.

A case must give the same bytes on any machine and with any version of torch or numpy, so
the generator is spelled out here (splitmix64 over a counter) instead of being borrowed. The
library generators may change between releases; a stored case would then quietly become
another case.
"""

from __future__ import annotations

import math
import zlib

import numpy as np
import torch
from torch import Tensor

GOLDEN = 0x9E3779B97F4A7C15
BLOCK = 1 << 20


def words(seed: int, stream: str, count: int, *, start: int = 0) -> np.ndarray:
    """``count`` uint64 words of ``stream``, from position ``start`` on (splitmix64)."""
    origin = (seed * 0x2545F4914F6CDD1D + zlib.crc32(stream.encode()) * GOLDEN) % (1 << 64)
    state = np.arange(start + 1, start + count + 1, dtype=np.uint64) * np.uint64(GOLDEN) + np.uint64(origin)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(state ^ (state >> np.uint64(31)))


def octets(seed: int, stream: str, shape: tuple[int, ...]) -> Tensor:
    """Uniform uint8 of ``shape``; made in blocks so that large shapes need no larger scratch."""
    count = math.prod(shape)
    out = np.empty(-(-count // 8) * 8, dtype=np.uint8)
    for start in range(0, out.size // 8, BLOCK):
        block = words(seed, stream, min(BLOCK, out.size // 8 - start), start=start)
        out[8 * start : 8 * (start + block.size)] = block.astype("<u8").view(np.uint8)
    return torch.from_numpy(out[:count]).reshape(shape)


def below(seed: int, stream: str, shape: tuple[int, ...], limit: int) -> Tensor:
    """Int64 of ``shape`` in 0..limit-1, limit at most 2^32; the bias is below limit / 2^32."""
    count = math.prod(shape)
    high = (words(seed, stream, count) >> np.uint64(32)) * np.uint64(limit) >> np.uint64(32)
    return torch.from_numpy(high.astype(np.int64)).reshape(shape)


def uniform(seed: int, stream: str, shape: tuple[int, ...]) -> Tensor:
    """Float64 of ``shape`` strictly between 0 and 1."""
    high = words(seed, stream, math.prod(shape)) >> np.uint64(12)
    return torch.from_numpy((high.astype(np.float64) + 0.5) / (1 << 52)).reshape(shape)


def gaussian(seed: int, stream: str, shape: tuple[int, ...]) -> Tensor:
    """Float32 standard normal of ``shape`` (Box-Muller in float64)."""
    radius = torch.sqrt(-2 * torch.log(uniform(seed, stream + "/radius", shape)))
    return (radius * torch.cos(2 * math.pi * uniform(seed, stream + "/angle", shape))).float()


def permutation(seed: int, stream: str, count: int) -> Tensor:
    """A permutation of 0..count-1, int64."""
    return torch.from_numpy(np.argsort(words(seed, stream, count), kind="stable").astype(np.int64))
