"""ATOM's gate: the predicates of its two indexer families, and the refusals that run without a GPU.

The chip is provided, and its look-ups are counted; warnings are taken off the logger. Every request is
answered in a namespace of its own, so that a verdict or a warning that is remembered shows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

from harness.paths import base, signatures
from harness.paths.atom import tree, wiring
from harness.paths.atom.path import AtomPath
from harness.paths.requests.gating import Gated, Predicate, Refusal

DSA = ("atom/model_ops/sparse_indexer_fp4.py",)
V4 = ("atom/model_ops/v4_kernels/__init__.py",)
MLA_BUILDER = ("atom/model_ops/attentions/aiter_mla.py", "AiterMLAMetadataBuilder")
V4_BUILDER = ("atom/model_ops/attentions/deepseek_v4_attn.py", "DeepseekV4AttentionMetadataBuilder")
PREDICATES = {"dsa": (DSA, "sparse_indexer_fp4_enabled"), "v4": (V4, "fp4_indexer_enabled")}
ALLOWED = "assert_fp4_indexer_supported"

BLOCKS = {
    "nowriter": {"fused_writer": False},
    "prefillcp": {"prefill_context_parallel": True},
    "ubatch": {"prefill_ubatching": True},
}
SERVED = {"fused_writer": True, "prefill_context_parallel": False, "prefill_ubatching": False}
"""What `ALLOWED` is told when nothing blocks; earlier versions know fewer of these."""
TRANSFER = {"kv_connector": "moriio", "kv_role": "kv_producer"}
"""A transfer between a prefill and a decode server: every version that refuses any refuses this."""
REFUSED = (ValueError, NotImplementedError, RuntimeError, AssertionError)


def answers(path: AtomPath) -> base.Answers:
    return {Predicate: partial(predicate, path), Refusal: partial(refusal, path)}


def predicate(path: AtomPath, request: Predicate) -> base.Outcome:
    probed: list[str] = []

    def chip() -> str:
        probed.append(request.chip)
        return request.chip

    home, name = PREDICATES[request.rule]
    arguments: dict[str, Any] = {"index_cache_dtype": request.asked}
    if request.rule == "dsa":
        arguments["config"] = SimpleNamespace(**request.config)
    enabled = path.load(home, name, (*arguments, "warn"), {wiring.GET_GFX: chip})
    with warnings_of(enabled) as said:
        builder = enabled(**arguments, warn=True)
        layers = [enabled(**arguments) for _ in range(request.layers)]
    return path.outcome(Gated((builder, *layers), tuple(said), len(probed)), name)


@contextmanager
def warnings_of(function: Callable[..., Any]) -> Iterator[list[str]]:
    """What ``function``'s module says at level warning or above meanwhile; it is said nowhere else."""
    said: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    found = function.__globals__.get("logger")
    logger = found if isinstance(found, logging.Logger) else logging.getLogger("atom")
    level, upwards = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    try:
        yield said
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = upwards


def refusal(path: AtomPath, request: Refusal) -> base.Outcome:
    if request.rule == "dsa" and not path.has(*PREDICATES["dsa"]):
        raise base.Unsupported(f"{tree.OWNER} has no FP4 indexer of rule dsa: no {DSA[0]}")
    if request.by == "transfer":
        return transfer(path, request)
    if request.by == "page":
        return pages(path, request)
    if request.by == "split":
        return wiring.bind(path, request.blocked)
    return knobs(path, request)


def knobs(path: AtomPath, request: Refusal) -> base.Outcome:
    """What the server was started with: refused by the function, and by the indexer that is to call it."""
    allowed = path.load(DSA, ALLOWED)
    blocked = BLOCKS[request.by]
    known = signatures.taken(allowed)
    arguments = {name: value for name, value in SERVED.items() if name in known or name in blocked}
    if request.blocked:
        arguments |= blocked
    signatures.check(allowed, ALLOWED, tuple(arguments), tree.OWNER)
    said = raised(partial(allowed, **arguments))
    if request.blocked == (said is not None):
        said = wiring.construct(path, request.by if request.blocked else "")
    return path.outcome(said, f"{ALLOWED} and {wiring.CONSTRUCTOR}")


def pages(path: AtomPath, request: Refusal) -> base.Outcome:
    """Pages of another size, where the pool is laid out."""
    shapes = path.load(DSA, "fp4_index_block_shapes", ("rows", "head_dim"))
    return path.outcome(raised(partial(shapes, rows=request.page, head_dim=128)), "fp4_index_block_shapes")


def transfer(path: AtomPath, request: Refusal) -> base.Outcome:
    """A cache that another server reads."""
    config = SimpleNamespace(
        kv_transfer_config=TRANSFER if request.blocked else None, pipeline_parallel_size=1
    )
    runner = SimpleNamespace(config=config, v4_unified_kv=object())
    file, owner = MLA_BUILDER if request.rule == "dsa" else V4_BUILDER
    path.load((file,), f"{owner}.get_kv_transfer_tensors", ())
    builder = tree.stand_in(path.space, file, owner, model_runner=runner, _indexer_fp4=True, kv_pool=object())
    return path.outcome(raised(builder.get_kv_transfer_tensors), f"{owner}.get_kv_transfer_tensors")


def raised(call: Callable[[], Any], kinds: Sequence[type[Exception]] = REFUSED) -> str | None:
    """The message ``call`` refuses with, or None. `Unsupported` is no refusal: it goes on up."""
    try:
        call()
    except tuple(kinds) as refused:
        return f"{type(refused).__name__}: {refused}"
    return None
