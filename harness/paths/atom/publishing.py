"""ATOM's publish call: the units formula, the schedules its builders publish, and who answers the call.

The builders' own methods publish, with their own split into micro-batches; lengths advance by one a step
as its drafters do it. Newer trees have a publish call on every attention backend; older ones publish for
DeepSeek-V4 alone, from a length for each row. Which backends answer is read from the source, because
importing them needs a server. How this would fail silently: a backend that inherits the call from nowhere
answers nothing, and only drafts of models without an FP4 indexer would ever ask it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from harness.paths import base
from harness.paths.atom import backends
from harness.paths.atom import tree as atom_tree
from harness.paths.atom.path import AtomPath
from harness.paths.base import Unsupported
from harness.paths.requests import publishing as asked

FP4 = ("atom/model_ops/sparse_indexer_fp4.py",)
SPLIT = ("atom/utils/tbo/ubatch_splitting.py",)
V4_CONSTANTS = ("atom/model_ops/v4_kernels/__init__.py",)
MLA = "atom/model_ops/attentions/aiter_mla.py"
V4 = "atom/model_ops/attentions/deepseek_v4_attn.py"
MLA_PUBLISH = f"{backends.ACTING}.{backends.CALL}"
V4_PUBLISH = "DeepseekV4AttentionMetadataBuilder._build_v4_indexer_meta"

Publish = Callable[[int, Tensor, int], asked.Launched]
"""From (part, its lengths, rows a sequence) to what its launch finds; the step is filled in later."""


def answers(path: base.Path) -> base.Answers:
    assert isinstance(path, AtomPath)
    return {
        asked.Units: partial(units, path),
        asked.DraftLoop: partial(draft_loop, path),
        asked.Backends: partial(answering, path),
    }


def units(path: AtomPath, request: asked.Units) -> base.Outcome:
    name = "fp4_decode_parallel_units"
    formula = path.load(FP4, name, ("max_bs", "next_n"))
    return path.outcome(torch.tensor([formula(max_bs=request.max_bs, next_n=request.next_n)]), name)


def answering(path: AtomPath, request: asked.Backends) -> base.Outcome:
    """Raises `Unsupported` when no backend has the publish call."""
    found = backends.read(path.root)
    if not any(one.answers for one in found):
        raise Unsupported(
            f"this ATOM has no {backends.CALL} in {backends.FOLDER}, the publish call of a draft"
        )
    columns = zip(*((one.answers, one.acts, one.scores_fp4) for one in found), strict=True)
    value = tuple(torch.tensor(column) for column in columns)
    return path.outcome(value, backends.CALL, backends=[one.name for one in found])


def draft_loop(path: AtomPath, request: asked.DraftLoop) -> base.Outcome:
    """Publish every step with the builder the tree has. Raises `Unsupported` naming what it lacks."""
    newer = path.has((MLA,), MLA_PUBLISH)
    publish: Publish = partial(by_mla if newer else by_v4, path, request)
    lengths = request.context_lens
    parts = micro_batches(path, len(lengths), request.parts)
    for step in range(request.steps + 2):
        if step > 1:
            lengths.add_(1)
        next_n = request.next_n if step in (0, request.steps + 1) else 1
        ready = [publish(part, lengths[places], next_n) for part, places in enumerate(parts)]
        for part, one in enumerate(ready):
            request.launch(asked.Launched(step, part, one.schedule, one.context_lens, one.next_n))
    return path.outcome(request.buffers, MLA_PUBLISH if newer else V4_PUBLISH)


def micro_batches(path: AtomPath, sequences: int, parts: int) -> list[slice]:
    """The sequences of each micro-batch, as ATOM splits a decode batch."""
    if parts == 1:
        return [slice(0, sequences)]
    arguments = {"num_reqs": sequences, "num_tokens": sequences, "num_ubatches": parts}
    split = path.load(SPLIT, "maybe_create_ubatch_slices", tuple(arguments))
    made = split(**arguments)
    if made is None:
        raise Unsupported(f"this ATOM does not split {sequences} sequences into {parts} micro-batches")
    return [one.request_slice for one in made]


def by_mla(
    path: AtomPath, request: asked.DraftLoop, part: int, lengths: Tensor, next_n: int
) -> asked.Launched:
    """The MLA builder publishes into the micro-batch's buffer; the whole batch's is the first."""
    publish = path.load((MLA,), MLA_PUBLISH, ("attn_metadata", "bs", "next_n", "ubatch"))
    own = list(request.buffers)
    builder = atom_tree.stand_in(
        path.space,
        MLA,
        backends.ACTING,
        _indexer_fp4=True,
        _indexer_fp4_cta_info=own if request.parts == 1 else [own[0], *own],
        dcp_world_size=1,
        model_runner=SimpleNamespace(config=SimpleNamespace(max_model_len=request.max_seq_len)),
    )
    metadata = SimpleNamespace(context_lens=lengths)
    ubatch = 0 if request.parts == 1 else part + 1
    publish(builder, attn_metadata=metadata, bs=len(lengths), next_n=next_n, ubatch=ubatch)
    entries = metadata.indexer_fp4_cta_info[: metadata.indexer_fp4_n_ctas]
    return asked.Launched(0, part, entries, lengths, next_n)


def by_v4(
    path: AtomPath, request: asked.DraftLoop, part: int, lengths: Tensor, next_n: int
) -> asked.Launched:
    """DeepSeek-V4's builder publishes from a length a row, into the one buffer it has."""
    publish = path.load((V4,), V4_PUBLISH)
    floor: Any = path.value(V4_CONSTANTS, "FP4_MQA_PARALLEL_UNIT_NUM")
    most = max(floor, len(request.context_lens) * request.next_n)
    builder = atom_tree.stand_in(
        path.space,
        V4,
        V4_PUBLISH.partition(".")[0],
        _indexer_fp4=True,
        _fp4_parallel_unit_num=most,
        _fp4_block_k=path.value(V4_CONSTANTS, "FP4_MQA_BLOCK_K"),
        _v4_fp4_cta_info=request.buffers.flatten(0, 1)[:most],
        max_model_len_idx=request.max_seq_len,
    )
    state = path.value((V4,), "AttnState")
    older = torch.arange(next_n - 1, -1, -1, dtype=torch.int32)
    rows = (lengths[:, None] - older).clamp(min=0).flatten()
    metadata = SimpleNamespace(
        state=state.DECODE, n_committed_csa_per_seq=lengths, n_committed_per_token=rows
    )
    made = publish(
        builder,
        attn_metadata=metadata,
        positions_gpu=rows,
        scheduled_bs=len(lengths),
        total_tokens=len(rows),
        device=lengths.device,
        buf_prefix_ubatch="" if request.parts == 1 else f"ub{part}_",
    )
    return asked.Launched(0, part, made["fp4_cta_info"][: made["fp4_total_ctas"]], rows, 1)
