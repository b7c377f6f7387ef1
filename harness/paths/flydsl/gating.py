"""The gate of the in-tree path: when its FP4 kernels are taken, and what they refuse to go on with.

Fails silently when it looks at a model's name, or at one thing less than the kernels need: scores
come out, of the wrong keys. What the user asked for and cannot have raises; what the model is
falls back to FP8 with one warning, from the builder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from harness.paths import base
from harness.paths.requests.gating import Gated, Predicate, Refusal

KERNEL_CHIP = "gfx950"
K_TILE = 128
M_TILE = 16
PAGE_ROWS = 64

Config = Mapping[str, int | None]
Complaints = Callable[[Config, Callable[[], str]], Iterator[str]]


def answers(path: base.Path) -> base.Answers:
    return {Predicate: predicate, Refusal: refusal}


def predicate(request: Predicate) -> base.Outcome:
    said: list[str] = []
    probed: list[str] = []

    def probe() -> str:
        probed.append(request.chip)
        return request.chip

    complaints = {"dsa": sparse_complaints, "v4": v4_complaints}[request.rule]
    builder = takes(complaints, request.asked, request.config, probe, said.append)
    layers = (takes(complaints, request.asked, request.config, probe) for _ in range(request.layers))
    return base.Outcome(Gated((builder, *layers), tuple(said), len(probed)), facts={"executor": "python"})


def takes(
    complaints: Complaints,
    asked: str | None,
    config: Config,
    probe: Callable[[], str],
    warn: Callable[[str], None] | None = None,
) -> bool:
    """Whether FP4 is taken; the first complaint goes to ``warn``."""
    if asked != "fp4":
        return False
    first = next(complaints(config, probe), None)
    if first is not None and warn is not None:
        warn(f"no FP4 indexer: {first}; scoring in FP8")
    return first is None


def sparse_complaints(config: Config, probe: Callable[[], str]) -> Iterator[str]:
    """What a sparse indexer has that its kernels cannot do, cheapest look first."""
    if not config.get("index_topk"):
        yield "index_topk is not set"
    if config.get("index_head_dim") != K_TILE:
        yield f"index_head_dim is {config.get('index_head_dim')}, the kernels have {K_TILE}"
    heads = config.get("index_n_heads") or 0
    if heads < M_TILE or heads % M_TILE:
        yield f"index_n_heads is {heads}, no multiple of {M_TILE}"
    if (config.get("index_kpool") or 1) > 1:
        yield f"index_kpool is {config['index_kpool']}, and pooled keys have no FP4 scorer"
    if (chip := probe()) != KERNEL_CHIP:
        yield f"{chip} has no FP4 scorer"


def v4_complaints(config: Config, probe: Callable[[], str]) -> Iterator[str]:
    """DeepSeek-V4 has one shape of indexer, so only the chip is looked at."""
    if (chip := probe()) != KERNEL_CHIP:
        yield f"{chip} has no FP4 scorer"


def refusal(request: Refusal) -> base.Outcome:
    """The message that serving raises with."""
    try:
        serve(
            fused_writer=not (request.by == "nowriter" and request.blocked),
            prefill_ranks=2 if request.by == "prefillcp" and request.blocked else 1,
            prefill_ubatches=2 if request.by == "ubatch" and request.blocked else 1,
            transfer=request.by == "transfer" and request.blocked,
            page_rows=request.page,
            verdicts=(True, not (request.by == "split" and request.blocked)),
        )
    except ValueError as refused:
        return base.Outcome(str(refused), facts={"executor": "python"})
    return base.Outcome(None, facts={"executor": "python"})


def serve(
    *,
    fused_writer: bool,
    prefill_ranks: int,
    prefill_ubatches: int,
    transfer: bool,
    page_rows: int,
    verdicts: Sequence[bool],
) -> None:
    """Raises ValueError for what FP4 cannot be served with; never falls back.

    ``verdicts``: of the builder and of every indexer, whose cache and scorer are of the kind it decided.
    """
    if len(set(verdicts)) > 1:
        raise ValueError("the verdicts of the builder and of its indexers disagree about FP4")
    if not fused_writer:
        raise ValueError("FP4 keys have one writer, the fused one, which is off or does not fit this indexer")
    if prefill_ranks > 1:
        raise ValueError(f"prefill context parallelism over {prefill_ranks} ranks has no FP4 exchange")
    if prefill_ubatches > 1:
        raise ValueError(f"a prefill in {prefill_ubatches} micro-batches loses its FP4 schedule")
    if transfer:
        raise ValueError("KV transfer does not carry the plane of FP4 scales")
    if page_rows != PAGE_ROWS:
        raise ValueError(f"the page size is {page_rows}, the FP4 scorers read pages of {PAGE_ROWS} rows")
