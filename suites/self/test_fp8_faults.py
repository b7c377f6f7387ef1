"""Every fault of the FP8 default turns a smoke case red; fp8-drift is each of them, and a byte by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import pytest
import torch
from torch import Tensor

from harness import runner
from harness.case import case_lists
from harness.case.cases import parse
from harness.judge.ledger import Ledger
from harness.judge.verdict import Status, Verdict
from harness.paths import base
from harness.paths.oracle import OraclePath
from harness.paths.oracle.eightbit import Rules, by
from harness.paths.requests.eightbit import FlatScores8, GatherKeys8, PagedScores8, WriteKeys8
from oracles import eightbit, eightbit_score, windows
from oracles.formats import decode
from oracles.windows import Windows


class Faulty(OraclePath):
    """The oracle path by ``rules``, one of which is wrong; ``spoil`` changes what comes back."""

    name = "faulty"

    def __init__(self, rules: Rules, spoil: Callable[[Any, Any], Any] | None = None) -> None:
        self.rules, self.spoil = rules, spoil

    @cached_property
    def table(self) -> Mapping[type, Callable[[Any], base.Outcome]]:
        return {**self.answers(), **by(self.rules)}

    def run(self, request: Any) -> base.Outcome:
        outcome = super().run(request)
        return replace(outcome, value=self.spoil(request, outcome.value)) if self.spoil else outcome


def ruled(**wrong: Any) -> Faulty:
    """Rules of which the methods ``wrong`` are others."""
    methods = {name: staticmethod(method) for name, method in wrong.items()}
    return Faulty(type("Wrong", (Rules,), methods)())


def moved(start: int, end: int) -> Callable[[Windows], Windows]:
    """Windows that are not empty, with their bounds off by a little."""

    def changed(rows: Windows) -> Windows:
        busy = rows.end > rows.start
        new_start = torch.where(busy, (rows.start + start).clamp(min=0), rows.start)
        return Windows(rows.seq, new_start, torch.where(busy, rows.end + end, rows.end))

    return changed


def without_relu(operands: eightbit_score.Operands, *, after: bool = False) -> Tensor:
    """Scores with no ReLU, or with one after the weight."""
    q, k = (decode(operands.fmt, codes).double() for codes in (operands.q_codes, operands.k_codes))
    terms = operands.weights.double().unsqueeze(-1) * (q @ k.T)
    total = (terms.clamp(min=0) if after else terms).sum(1)
    return (total * operands.k_scales.double()).float()


def scored(**changes: Callable[[Tensor], Tensor]) -> Faulty:
    """One operand changed before it is scored."""

    def score(operands: eightbit_score.Operands) -> Tensor:
        made: dict[str, Any] = {name: change(getattr(operands, name)) for name, change in changes.items()}
        return eightbit_score.scores(replace(operands, **made)).value

    return ruled(score=score)


def byte_drifts(request: Any, value: Any) -> Any:
    """One bit of the last key's scale in each page pool."""
    if isinstance(request, WriteKeys8):
        slot = int(request.slots[request.slots >= 0][-1])
        page = value.view(len(value), -1)[slot // 64]
        page[64 * 128 + slot % 64 * 4] ^= 1
    return value


def ulp_drifts(request: Any, value: Any) -> Any:
    """One unit in the last place of the last score that is a number."""
    if isinstance(request, PagedScores8):
        row, column = value.isfinite().nonzero()[-1].tolist()
        value[row, column] = torch.nextafter(value[row, column], torch.tensor(torch.inf))
    return value


def spills(request: Any, value: Any) -> Any:
    """One cell past the end of the first row of a buffer with gaps."""
    if isinstance(request, PagedScores8) and request.out.stride(0) > request.out.shape[1]:
        request.out.as_strided((1,), (1,), request.out.storage_offset() + request.out.shape[1]).zero_()
    return value


def masks_with_zero(request: Any, value: Any) -> Any:
    """The cell past the end of each row's window holds 0 where minus infinity may stand."""
    if isinstance(request, PagedScores8):
        rows = windows.decode_windows(request.context_lens, request.next_n)
        inner = (rows.end > 0) & (rows.end < request.max_seq_len)
        value[inner.nonzero().flatten(), rows.end[inner]] = 0.0
    return value


def clears_the_buffer(request: Any, value: Any) -> Any:
    """Minus infinity in every cell outside, also past the last chunk of a context."""
    if isinstance(request, PagedScores8):
        value.masked_fill_(value.isnan(), -torch.inf)
    return value


def leaves_garbage(request: Any, value: Any) -> Any:
    """A clean flat answer whose other cells hold something."""
    return value.nan_to_num(neginf=-3.0e38) if isinstance(request, FlatScores8) else value


def next_slot(slots: Tensor) -> Tensor:
    """A negative slot wraps to the end of the pool."""
    return torch.where(slots < 0, slots.abs() - 1, slots)


def folded_twice(weights: Tensor, q_scales: Tensor, scale: float) -> Tensor:
    return eightbit.fold_weights(weights, q_scales, scale) * torch.tensor(scale)


def scales_first(weights: Tensor, q_scales: Tensor, scale: float) -> Tensor:
    """The product of both scales is rounded before the weight comes to it."""
    return weights.float() * (q_scales * torch.tensor(scale))


def weights_scale_first(weights: Tensor, q_scales: Tensor, scale: float) -> Tensor:
    return weights.float() * torch.tensor(scale) * q_scales


def key_scale_first(operands: eightbit_score.Operands) -> Tensor:
    """Dots are scaled by the key before the ReLU; in float32, as a kernel would."""
    q, k = (decode(operands.fmt, codes) for codes in (operands.q_codes, operands.k_codes))
    relu = ((q @ k.T) * operands.k_scales).clamp(min=0)
    return (operands.weights.unsqueeze(-1) * relu).sum(1)


FAULTS: dict[str, Faulty] = {
    "fnuz-read-as-fn": ruled(fmt=lambda fmt: "fn"),
    "fn-read-as-fnuz": ruled(fmt=lambda fmt: "fnuz"),
    "plain-scale": ruled(power=lambda ue: False),
    "power-of-two-scale": ruled(power=lambda ue: True),
    "tile-read-flat": ruled(read=lambda tile: "flat"),
    "flat-read-tiled": ruled(read=lambda tile: "tiled"),
    "tile-written-flat": ruled(written=lambda tile: "flat"),
    "tile-flat-on-both-sides": ruled(read=lambda tile: "flat", written=lambda tile: "flat"),
    "weights-scaled-twice": ruled(folded=folded_twice),
    "weights-unscaled": ruled(folded=lambda w, q, scale: eightbit.fold_weights(w, q, 1.0)),
    "query-scale-lost": ruled(folded=lambda w, q, scale: eightbit.fold_weights(w, torch.ones_like(q), scale)),
    "scales-first": ruled(folded=scales_first),
    "weights-scale-first": ruled(folded=weights_scale_first),
    "relu-missing": ruled(score=without_relu),
    "relu-after-weight": ruled(score=lambda operands: without_relu(operands, after=True)),
    "window-end-early": ruled(rows=moved(0, -1)),
    "window-start-late": ruled(rows=moved(1, 0)),
    "window-start-early": ruled(rows=moved(-1, 0)),
    "query-floor": Faulty(Rules(query=replace(eightbit.QUERY, floor=1e-4))),
    "key-floor": Faulty(Rules(key=replace(eightbit.KEY, floor=1e-10))),
    "query-divides": Faulty(Rules(query=replace(eightbit.QUERY, step="divide"))),
    "key-by-reciprocal": Faulty(Rules(key=replace(eightbit.KEY, step="reciprocal"))),
    "tie-away": Faulty(Rules(ties="away")),
    "tie-zero": Faulty(Rules(ties="zero")),
    "slot-negative-write": ruled(slots=next_slot),
    "own-pages-only": ruled(tables=lambda tables: tables[:1].expand(tables.shape)),
    "key-scale-of-the-next-key": scored(k_scales=lambda scales: scales.roll(-1)),
    "key-scale-dropped": scored(k_scales=torch.ones_like),
    "last-head-dropped": scored(weights=lambda weights: weights * (torch.arange(weights.shape[1]) > 0)),
    "spills": Faulty(Rules(), spills),
    "masks-with-zero": Faulty(Rules(), masks_with_zero),
    "clears-the-buffer": Faulty(Rules(), clears_the_buffer),
    "leaves-garbage": Faulty(Rules(), leaves_garbage),
    "byte-drifts": Faulty(Rules(), byte_drifts),
    "ulp-drifts": Faulty(Rules(), ulp_drifts),
}


def first_red(path: Faulty) -> Verdict | None:
    for case in case_lists.listed("fp8", "smoke"):
        verdict = runner.run(case, path, Ledger())
        if verdict.status is not Status.AGREE:
            return verdict
    return None


def test_without_a_fault_all_is_green() -> None:
    """The path that carries the faults agrees when it has none."""
    assert first_red(Faulty(Rules())) is None


def test_the_key_scale_may_come_before_the_relu() -> None:
    """It is positive, so it moves no sign; production's Triton kernels have it there."""
    assert first_red(ruled(score=key_scale_first)) is None


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_turns_a_smoke_case_red(name: str) -> None:
    """The suite differs: no error, no mistrust, and the verdict says where."""
    verdict = first_red(FAULTS[name])
    assert verdict is not None, f"{name} passes"
    assert verdict.status is Status.DIFFER, verdict.text()
    assert verdict.reason and verdict.layer and verdict.count and (verdict.where or name == "spills")


DECODE = "fp8-n2-h16-d128-ctx130,17-fmt{}-ue1-tile{}-tshuffled-f{}-s1"
HINTS = {
    ("fnuz-read-as-fn", DECODE.format("fnuz", "flat", "bytes")): "codes read as e4m3fn",
    ("tile-read-flat", DECODE.format("fn", "tiled", "bytes")): "the page read flat",
    ("relu-missing", DECODE.format("fn", "flat", "bytes")): "no ReLU",
    ("key-scale-dropped", DECODE.format("fn", "flat", "bytes")): "no key scale",
    ("window-end-early", DECODE.format("fn", "flat", "bytes")): "last visible column",
    ("tile-written-flat", DECODE.format("fn", "tiled", "address")): "right if pages were to be flat",
}


@pytest.mark.parametrize(("fault", "says"), HINTS.items(), ids=[name for name, _ in HINTS])
def test_a_wrong_value_is_named(fault: tuple[str, str], says: str) -> None:
    """The verdict says what the wrong value would be right for."""
    name, case = fault
    path = FAULTS[name]
    if name == "tile-read-flat":  # the gather would show it first
        path = Faulty(path.rules)
        path.__dict__["table"] = {
            kind: method for kind, method in path.table.items() if kind is not GatherKeys8
        }
    verdict = runner.run(parse(case), path, Ledger())
    assert verdict.status is Status.DIFFER
    assert says in " ".join((*verdict.notes, verdict.pattern)), verdict.text()
