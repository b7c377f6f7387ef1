"""ATOM's exchange of candidates in one piece, run over the process group of the ranks.

Its scorer and its top-k are kernels for a GPU; `engine` stands in their places. The function is loaded
once and finds the engine of the moment, since one tree serves many requests.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from harness.paths import base
from harness.paths.atom.engine import AsOnCpu, Engine
from harness.paths.atom.path import AtomPath
from harness.paths.requests import sharding as asked

MODEL = "atom/models/deepseek_v2.py"
EXCHANGES = (
    ("atom/model_ops/dcp_ops.py", "dcp_decode_candidate_exchange"),
    (MODEL, "_dcp_decode_candidate_exchange"),
)
"""Where the exchange of ids is, newest home first."""
RANKS = "atom.distributed.dcp_utils"
SCORER = "aiter.ops.triton.pa_mqa_logits.deepgemm_fp8_paged_mqa_logits"
TOP_KS = ("aiter.top_k_per_row_decode", "aiter.flydsl_top_k_per_row_decode")


def home(path: AtomPath) -> tuple[str, str] | None:
    """(file, name) of the exchange of ids in this tree."""
    return next((place for place in EXCHANGES if path.has((place[0],), place[1])), None)


class Exchanger:
    """The whole exchange, one row a request as at one query row each; loaded once, for any engine.

    Its score buffer must hold every local window: a length past the end of the row is a finding, since
    what is stored there is the next row's, and there are no ids then.
    """

    def __init__(self, path: AtomPath, file: str, name: str) -> None:
        self._path, self._file, self._name = path, file, name
        self._engine: Engine | None = None

    def __call__(self, request: asked.Exchange) -> base.Outcome:
        rows, k = len(request.lengths), len(request.order)
        self._engine = engine = Engine(request, f"{self._file}:{self._name}", self._name)
        ids = torch.full((rows, k), -2, dtype=torch.int32)
        no_table = torch.zeros(rows, 1, dtype=torch.int32)
        arguments = {
            "attn_metadata": SimpleNamespace(
                max_seqlen_q=1, context_lens=request.lengths, block_tables=no_table
            ),
            "padded_q_fp8_decode_tokens": torch.zeros(rows, 1, 1, 1),
            "kv_cache": torch.zeros(1),
            "weights": torch.zeros(rows, 1),
            "topk_indices": ids,
            "dcp_rank": request.place.rank,
            "num_decode_tokens": rows,
            "topk_tokens": k,
            "max_model_len": request.max_seq_len,
            "runner_block_size": 64,
            "stable_topk": False,
            "cp_kv_cache_interleave_size": request.place.inter,
        }
        self._function(tuple(arguments))(**arguments)
        made = self._path.outcome((None if engine.findings else ids, engine.lengths), self._name)
        return base.Outcome(made.value, tuple(engine.findings), made.facts)

    def _function(self, parameters: tuple[str, ...]) -> Callable[..., Any]:
        if self._loaded is None:
            module = self._file.removesuffix(".py").replace("/", ".")
            provided = {
                f"{RANKS}.get_dcp_world_size": lambda: self._now.world,
                f"{RANKS}.get_dcp_group": lambda: self._now,
                f"{module}.torch": AsOnCpu(),
                SCORER: lambda *given, **named: self._now.score(*given, **named),
                **dict.fromkeys(TOP_KS, lambda *given, **named: self._now.top_k(*given, **named)),
            }
            self._loaded = self._path.load((self._file,), self._name, parameters, provided=provided)
        return self._loaded

    _loaded: Callable[..., Any] | None = None

    @property
    def _now(self) -> Engine:
        assert self._engine is not None
        return self._engine
