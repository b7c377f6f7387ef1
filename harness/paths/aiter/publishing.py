"""aiter's schedule builders on the caller's buffers: ``cta_info_out=`` and ``out=`` as a server passes them.

What is judged is the buffer, whatever came back. aiter has builders but no draft loop of its own, so its
decode builder publishes in the in-tree loop.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor

from harness.paths import base
from harness.paths.aiter import tree as aiter_tree
from harness.paths.aiter.path import BLOCK_K, DECODE, HOMES, PREFILL, AiterPath
from harness.paths.flydsl.publishing import draft_loop
from harness.paths.requests import publishing as asked


def answers(path: base.Path) -> base.Answers:
    assert isinstance(path, AiterPath)
    return {
        asked.Publish: partial(publish, path),
        asked.PublishPrefill: partial(publish_prefill, path),
        asked.PublishWindows: partial(publish_windows, path),
        asked.DraftLoop: partial(drafts, path),
    }


def publish(path: AiterPath, request: asked.Publish) -> base.Outcome:
    write_decode(path, request.context_lens, request.next_n, request.max_seq_len, request.out)
    return done(path, request.out)


def write_decode(path: AiterPath, context_lens: Tensor, next_n: int, max_seq_len: int, out: Tensor) -> None:
    """The decode schedule of ``context_lens`` into ``out``, wherever both are."""
    arguments: dict[str, Any] = {
        "context_lens": context_lens,
        "block_k": BLOCK_K,
        "parallel_unit_num": len(out),
        "max_seq_len": max_seq_len,
        "next_n": next_n,
        "cta_info_out": out,
    }
    run(path, function(path, DECODE, "compute_varctx_schedule", *arguments), arguments, "cta_info_out")


def publish_prefill(path: AiterPath, request: asked.PublishPrefill) -> base.Outcome:
    arguments: dict[str, Any] = {
        "row_to_batch": request.row_seq,
        "local_starts": request.row_start,
        "local_ends": request.row_end,
        "block_k": BLOCK_K,
        "parallel_unit_num": len(request.out),
        "max_seq_len": request.max_seq_len,
        "cta_info_out": request.out,
    }
    run(path, function(path, PREFILL, "compute_prefill_schedule", *arguments), arguments, "cta_info_out")
    return done(path, request.out)


def publish_windows(path: AiterPath, request: asked.PublishWindows) -> base.Outcome:
    buffers = (request.seq, request.start, request.end)
    arguments: dict[str, Any] = {
        "cu_seq_q": request.cu_seq_q,
        "context_lens": request.context_lens,
        "total_q": request.total_q,
        "out": buffers,
    }
    run(path, function(path, PREFILL, "compute_varqlen_windows", *arguments), arguments, "out")
    return done(path, buffers)


def drafts(path: AiterPath, request: asked.DraftLoop) -> base.Outcome:
    draft_loop(partial(write_decode, path), request)
    subject = "aiter compute_varctx_schedule in the in-tree draft loop"
    return base.Outcome(request.buffers, facts={"executor": executor(path), "subject": subject})


def done(path: AiterPath, value: Any) -> base.Outcome:
    return base.Outcome(value, facts={"executor": executor(path)})


def executor(path: AiterPath) -> str:
    """What runs the builders: the device, or Triton's interpreter."""
    return path.executor if live(path) else "interpreted"


def live(path: AiterPath) -> bool:
    return path.executor.startswith("device")


def function(path: AiterPath, module: str, name: str, *parameters: str) -> Callable[..., Any]:
    """The function ``name`` of the tree. Raises `Unsupported` naming what it lacks."""
    root = path.source()
    found = aiter_tree.load(root, aiter_tree.find(root, module, HOMES))
    return aiter_tree.function(found, name, parameters)


def run(path: AiterPath, build: Callable[..., Any], arguments: dict[str, Any], written: str) -> None:
    """Call ``build``; what it writes is the argument ``written``, a tensor or several.

    Where the kernels need a device and the tensors are not there, they go there and back.
    """
    into = arguments[written] if isinstance(arguments[written], tuple) else (arguments[written],)
    if not live(path) or into[0].is_cuda:
        build(**arguments)
        return
    moved = {name: _moved(value) for name, value in arguments.items()}
    build(**moved)
    out = moved[written] if isinstance(moved[written], tuple) else (moved[written],)
    for buffer, made in zip(into, out, strict=True):
        buffer.copy_(made)


def _moved(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_moved, value))
    return value.to("cuda") if isinstance(value, Tensor) else value
