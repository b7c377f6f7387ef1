"""What is asked of the FP8 default: quantise, write, read back, score (spec indexer.md 1, 2, 10).

Codes travel as uint8; ``fmt`` says what they are: ``fn`` (E4M3FN) or ``fnuz`` (E4M3FNUZ). A page is
64 rows of ``cache.shape[2]`` bytes: 132, or 144 where each row is padded to 16 (layout in
``oracles.eightbit_pages``); ``tile`` is the order of its codes, ``flat`` or ``tiled``. ``ue``: scales
are powers of two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor


@dataclass(frozen=True)
class QuantiseQueries8:
    """Quantise q bfloat16 [T, H, 128]; the value is (codes uint8 [T, H, 128], weights float32 [T, H]).

    weights bfloat16 [T, H] come back times the query's scale times ``weights_scale``.
    """

    written: ClassVar[tuple[str, ...]] = ()

    q: Tensor
    weights: Tensor
    weights_scale: float
    fmt: str
    ue: bool


@dataclass(frozen=True)
class WriteKeys8:
    """Quantise k bfloat16 [R, 128] and scatter to ``slots`` (int64 [R], block*64 + row, negative: skip).

    ``cache`` uint8 [blocks, 64, row bytes] is written in place and is the value.
    """

    written: ClassVar[tuple[str, ...]] = ("cache",)

    k: Tensor
    slots: Tensor
    cache: Tensor
    fmt: str
    ue: bool
    tile: str


SUBNORMALS = "float32 subnormals"
"""Fact of a fused writer's answer: one of ``oracles.eightbit_subnormals.MODES``, where the path knows.

An answer without it is right in either mode, with it in that one only.
"""

WRITTEN_TOKENS8 = ("q_codes", "weights_out", "cache")
"""Fields of `WriteTokens8` that the path writes, in the order of the value."""


@dataclass(frozen=True)
class WriteTokens8:
    """Normalise, rotate, quantise and scatter T tokens in one go (the fused writer in FP8 mode).

    q bfloat16 [T, H, 128], k bfloat16 [T, 128], weights bfloat16 [T, H]; norm_weight, norm_bias float32
    [128]; cos, sin bfloat16 [P, 32]; positions int64 [T]; slots int64 [T] (block*64 + row, negative: skip).
    ``pairing`` is neox or interleaved. To write in place: q_codes uint8 [T, H, 128], weights_out float32
    [T, H] (w * q_scale * weights_scale) and the pages ``cache`` uint8 [blocks, 64, row bytes]; the value
    is the tuple of these three. Slots of int32 are refused (ValueError), or read as what they are. Rows
    without a slot leave theirs as they were.
    """

    written: ClassVar[tuple[str, ...]] = WRITTEN_TOKENS8

    q: Tensor
    k: Tensor
    weights: Tensor
    norm_weight: Tensor
    norm_bias: Tensor
    cos: Tensor
    sin: Tensor
    positions: Tensor
    slots: Tensor
    epsilon: float
    weights_scale: float
    pairing: str
    fmt: str
    ue: bool
    tile: str
    q_codes: Tensor
    weights_out: Tensor
    cache: Tensor

    @property
    def outputs(self) -> tuple[Tensor, Tensor, Tensor]:
        """What is written, in the order of the value."""
        return self.q_codes, self.weights_out, self.cache


@dataclass(frozen=True)
class GatherKeys8:
    """Read the keys of all sequences in turn: (codes uint8 [L, 128], scales float32 [L]).

    block_tables int32 [B, W]; cu_lens int32 [B + 1] is the running sum of the lengths.
    """

    written: ClassVar[tuple[str, ...]] = ()

    cache: Tensor
    block_tables: Tensor
    cu_lens: Tensor
    tile: str


@dataclass(frozen=True)
class PagedScores8:
    """Score T = B * next_n rows over paged keys, into ``out`` float32 [T, max_seq_len], the value.

    Row n of sequence b sees t < ctx[b] - (next_n - 1 - n). Cells it does not see, up to the end of the
    context's last chunk of 256, may come back as minus infinity; all others must stay as they are.
    q_codes uint8 [T, H, 128], weights float32 [T, H], block_tables int32 [B, W], context_lens int32 [B].
    """

    written: ClassVar[tuple[str, ...]] = ("out",)

    q_codes: Tensor
    weights: Tensor
    cache: Tensor
    block_tables: Tensor
    context_lens: Tensor
    next_n: int
    max_seq_len: int
    fmt: str
    tile: str
    out: Tensor


@dataclass(frozen=True)
class FlatScores8:
    """Score T rows over flat keys, float32 [T, L]: row r sees starts[r] <= t < ends[r], int32 [T] each.

    ``clean``: the other cells come back as minus infinity; else they may hold anything.
    k_codes uint8 [L, 128], k_scales float32 [L].
    """

    written: ClassVar[tuple[str, ...]] = ()

    q_codes: Tensor
    weights: Tensor
    k_codes: Tensor
    k_scales: Tensor
    starts: Tensor
    ends: Tensor
    fmt: str
    clean: bool
