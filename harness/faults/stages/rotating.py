"""Faults of DeepSeek-V4's rotate-and-quantise: rules by name, and one that its kernel for keys has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.faults.fault import Answer, Fault, Plant
from harness.paths.base import Outcome
from harness.paths.oracle.rotating import Rules, by
from harness.paths.requests.rotating import RotateKeys, RotateQueries

ONE = "rotate-r1-h1-d128-rope0-had1-tofp4-g32-shuf0-fonehot-s1"
PLAIN = "rotate-r1-h1-d128-rope0-had1-tofp4-g32-shuf0-fnatural-s1"
TURNED = "rotate-r2-h1-d128-rope64-had0-tofp4-g32-shuf0-fnatural-s1"
KEYS = "rotate-r2-h1-d128-rope64-had0-page64-g32-shuf1-fspread-s1"
SOURCE = "aiter: csrc/kernels/dsv4_rotate_quant.cu"
WAVE, VALUES = 64, {1024: 32}
"""Lanes of a wave; columns that a lane holds where they are not 16."""


def ruled(*kinds: type, **wrong: Any) -> Plant:
    """The oracle's answers to requests of ``kinds`` by rules of which ``wrong`` is another."""
    made = by(Rules(**wrong))

    def answering(method: Callable[[Any], Outcome]) -> Any:
        return lambda request, right: method(request)

    return lambda: {kind: answering(made[kind]) for kind in kinds}


def by_place_in_the_wave(request: RotateKeys, right: Answer) -> Outcome:
    """Codes as far on as their row lies in its wave, which has room for several rows."""
    before = request.codes.clone()
    outcome = right(request)
    written, flat = request.codes.clone(), request.codes.view(-1)
    request.codes.copy_(before)
    _, heads, dim = request.x.shape
    rows = VALUES.get(dim, 16) * WAVE // dim
    further = request.codes[0].numel() // (dim // 128) if request.shuffled else 64
    for token, slot in enumerate(request.slots.tolist()):
        if slot < 0:
            continue
        block, row = (slot // request.page, slot % request.page) if request.shuffled else (slot, 0)
        moved = token * heads % rows * (dim // 128) * further
        own = request.codes.new_zeros(request.codes.shape)
        part = own[block, :, :, row] if request.shuffled else own[block]
        part.fill_(1)
        places = own.view(-1).nonzero().flatten()
        inside = places + moved < len(flat)
        flat[(places + moved)[inside]] = written.view(-1)[places[inside]]
    return outcome


def fault(name: str, wrong: str, seen: str, weak: str, case: str, plant: Plant) -> Fault:
    return Fault(name, "rotate", wrong, seen, weak, case, SOURCE, plant)


FAULTS: tuple[Fault, ...] = (
    fault(
        "rotate-difference-reversed",
        "the right one of two columns becomes right minus left instead of left minus right",
        "neighbour of hadamard-query-only",
        "norms of rows; dots of queries with keys that have it too",
        ONE,
        ruled(RotateQueries, RotateKeys, difference="right-left"),
    ),
    fault(
        "rotate-unscaled",
        "the transform is not multiplied by D^-0.5",
        "neighbour of hadamard-query-only",
        "cosine and order of the scores",
        ONE,
        ruled(RotateQueries, RotateKeys, power=0.0),
    ),
    fault(
        "rotate-nibble-swap",
        "even columns go to the high nibble of a byte",
        "fault catalogue: nibble-swap",
        f"a row with one column, an even one: neighbours come out alike ({ONE.replace('-s1', '-s2')})",
        PLAIN,
        ruled(RotateQueries, RotateKeys, nibbles="high-first"),
    ),
    fault(
        "rotate-rope-first",
        "RoPE turns the first columns, as DeepSeek-V3.2 has it, instead of the last",
        "neighbour of rope-interleaved and rope-neox",
        f"position 0, where it is the identity ({TURNED.replace('r2', 'r1')})",
        TURNED,
        ruled(RotateQueries, RotateKeys, place="first"),
    ),
    fault(
        "rotate-page-flat",
        "the scales of a key page are written in the order of its rows",
        "fault catalogue: scale-write-flat",
        f"pages of 16 rows ({KEYS.replace('page64', 'page16')})",
        KEYS,
        ruled(RotateKeys, bend=False),
    ),
    fault(
        "rotate-key-by-lane",
        "codes of a key are written as many rows further on as the key has before it in its wave",
        "aiter e4048607a5, dsv4_rotate_quant.cu 1160: store_offset of the kernel for keys",
        f"the 16 heads of aiter's own test ({KEYS.replace('h1-', 'h16-')})",
        KEYS,
        lambda: {RotateKeys: by_place_in_the_wave},
    ),
)
