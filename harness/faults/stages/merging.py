"""Faults of the exchange of candidates: what a rank sends, and what all ranks make of it."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from harness.faults.fault import Answer, Fault, Wrong
from harness.faults.plants import always, asking, telling
from harness.paths.base import Outcome
from harness.paths.requests import sharding as asked
from oracles.dcp import PAD

PACK = "ATOM atom/model_ops/dcp_ops.py: dcp_pack_topk_candidates"
MERGE = "ATOM atom/model_ops/dcp_ops.py: dcp_decode_candidate_exchange"


def rank_major(request: asked.PackCandidates, value: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Global ids as if the ranks' keys lay one rank after the other."""
    scores, ids = value
    return scores, (request.ids + request.place.rank * request.scores.shape[1]).where(ids >= 0, PAD)


def padding_scores(request: asked.PackCandidates, value: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Padding is sent with the score of the rank's first key."""
    scores, ids = value
    first = request.scores[:, :1] if request.scores.shape[1] else scores.new_zeros(len(scores), 1)
    return torch.where(ids >= 0, scores, first), ids


def past_the_end(request: asked.PackCandidates) -> asked.PackCandidates:
    return replace(request, lengths=request.lengths + 1)


def packed_first(request: asked.MergeCandidates) -> asked.MergeCandidates:
    """Valid ids are counted, and as many taken from the front."""
    count = (request.ids >= 0).sum(2, keepdim=True)
    front = torch.arange(request.ids.shape[2]) < count
    return replace(request, ids=request.ids.where(front, PAD))


def padding_as_key_0(request: asked.MergeCandidates, value: Tensor) -> Tensor:
    return value.clamp(min=0)


def own_ties_first(request: asked.MergeCandidates, right: Answer) -> Outcome:
    """Equal scores go to the candidates of whoever merges."""
    order = torch.arange(request.place.world).roll(-request.place.rank)
    scores, ids = (flat(part[order]) for part in (request.scores, request.ids))
    best = scores.masked_fill(ids < 0, -torch.inf).sort(dim=1, descending=True, stable=True).indices
    taken = ids.gather(1, best)[:, : request.k]
    return Outcome(pad(taken, (0, request.k - taken.shape[1]), value=PAD))


def ties_by_rank(request: asked.MergeColumns, right: Answer) -> Outcome:
    """Equal scores go to candidates in an order that each rank has for itself."""
    scores = flat(request.scores)
    generator = torch.Generator().manual_seed(request.place.rank)
    order = torch.randperm(scores.shape[1], generator=generator)
    best = scores[:, order].sort(dim=1, descending=True, stable=True)
    columns = order[best.indices].where(best.values > -torch.inf, PAD)[:, : request.k]
    return Outcome(pad(columns, (0, request.k - columns.shape[1]), value=PAD).to(torch.int32))


def id_in_the_score(request: asked.MergeCandidates, right: Answer) -> Outcome:
    """Score and id in one number that has ten bits for the id."""
    scores, ids = flat(request.scores), flat(request.ids)
    return Outcome(torch.take_along_dim(ids, _largest(scores, ids.long(), ids < 0, request.k), dim=1))


def column_in_the_score(request: asked.MergeColumns, right: Answer) -> Outcome:
    """Score and column in one number that has two bits for the column."""
    scores = flat(request.scores)
    columns = torch.arange(scores.shape[1]).expand_as(scores)
    padding = scores == -torch.inf
    taken = _largest(scores, columns << 8, padding, request.k)
    return Outcome(torch.take_along_dim(columns.masked_fill(padding, PAD), taken, dim=1).to(torch.int32))


def _largest(scores: Tensor, names: Tensor, padding: Tensor, k: int) -> Tensor:
    """Places of the k largest by one number of score and name, those of padding last."""
    bits = scores.view(torch.int32).long()
    order = torch.where(bits < 0, -(1 << 31) - bits, bits)
    key = (order * (1 << 10) - names).masked_fill(padding, torch.iinfo(torch.int64).min)
    return key.sort(dim=1, descending=True).indices[:, :k]


def local_as_global(request: asked.GlobalPositions, value: Tensor) -> Tensor:
    """The inverse of another rule: the ranks' keys one rank after the other."""
    return request.local + request.place.rank * len(request.local)


def flat(part: Tensor) -> Tensor:
    """[W, T, k'] as [T, W * k']."""
    return part.transpose(0, 1).flatten(1)


IDS = "dcp-decode-world2-inter1-exids-n1-h16-d128-ctx20-k4-tshuffled-fbytes-s1"
COLUMNS = IDS.replace("exids", "exscores")
TIES = "dcp-decode-world2-inter1-exids-n1-h16-d128-ctx258-k6-tshuffled-fties-s3"


def one(
    name: str, wrong: str, seen: str, weak: str, source: str, wrongs: dict[type, Wrong], case: str = IDS
) -> Fault:
    return Fault(name, "DCP", wrong, seen, weak, case, source, always(wrongs))


FAULTS: tuple[Fault, ...] = (
    one(
        "candidates-rank-major",
        "the ids that a rank sends count its keys behind those of the ranks before it",
        "neighbour of gather-order",
        "W = 1",
        PACK,
        {asked.PackCandidates: telling(rank_major)},
    ),
    one(
        "positions-rank-major",
        "the map from a rank's keys to positions lays the ranks' keys one rank after the other",
        "neighbour of gather-order",
        "W = 1",
        "ATOM atom/model_ops/dcp_ops.py: dcp_global_pos",
        {asked.GlobalPositions: telling(local_as_global)},
    ),
    one(
        "padding-with-a-score",
        "what a rank has no key for is sent with the score of its first key, not with minus infinity",
        "neighbour of ROCm/aiter #5066 (B16)",
        "ranks that hold at least k keys",
        PACK,
        {asked.PackCandidates: telling(padding_scores)},
    ),
    one(
        "one-key-too-many",
        "the first id past a rank's keys is sent as a key",
        "neighbour of vllm #42169 (B35)",
        "a top-k that leaves no such id",
        PACK,
        {asked.PackCandidates: asking(past_the_end)},
    ),
    one(
        "merge-drops-interleaved-padding",
        "the merge takes valid ids to be packed first and drops those behind padding",
        "fault catalogue",
        "contexts of at least k keys on each rank",
        MERGE,
        {asked.MergeCandidates: asking(packed_first)},
    ),
    one(
        "merge-fills-with-key-0",
        "rows with fewer keys than k are filled up with key 0",
        "neighbour of ROCm/ATOM #2008 (B17)",
        "contexts of at least k keys",
        MERGE,
        {asked.MergeCandidates: telling(padding_as_key_0)},
        "dcp-decode-world2-inter1-exids-n1-h16-d128-ctx20,3-k4-tshuffled-fbytes-s1",
    ),
    one(
        "merge-unstable",
        "each rank lets its own candidates win a tie at the cut",
        "fault catalogue",
        "scores without ties",
        MERGE,
        {asked.MergeCandidates: own_ties_first},
        TIES,
    ),
    one(
        "merge-unstable-columns",
        "each rank lets another candidate win a tie at the cut, where scores alone travel",
        "neighbour of merge-unstable",
        "scores without ties",
        MERGE,
        {asked.MergeColumns: ties_by_rank},
        TIES.replace("exids", "exscores"),
    ),
    one(
        "id-in-the-score",
        "score and id are compared as one number with too few bits for the id",
        "neighbour of merge-unstable",
        "contexts below 1024 keys, scores far apart",
        MERGE,
        {asked.MergeCandidates: id_in_the_score},
    ),
    one(
        "column-in-the-score",
        "score and column are compared as one number with too few bits for the column",
        "neighbour of merge-unstable",
        "few candidates, scores far apart",
        MERGE,
        {asked.MergeColumns: column_in_the_score},
        COLUMNS,
    ),
)
