"""What was read instead, spelt by the wrong values of a case in fill address.

Contract: a value that spells an address names the key, the group of 32 and the scale byte that made it; a
wrong scale byte is traced to the key whose own it would be, by one rule for all cells. How it would fail
silently: sums of several keys or groups spell addresses by chance, so little is said unless few stories
cover most of the values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.diagnose.scorewise import FEW, Scored
from harness.fill import fill_address
from harness.fill.fill_address import Address
from harness.fill.pages import PAGE
from oracles import layout


@dataclass(frozen=True)
class Spelt:
    """A wrong value at ``column`` of its row: the address it spells, and the right one."""

    column: int
    read: Address
    own: Address
    dim: int

    def scale_of(self, key: int, group: int) -> int:
        """Scale byte of another key and group of the case."""
        return int(fill_address.scale_bytes(torch.tensor([key]), self.dim)[0, group])

    @property
    def home(self) -> int:
        """The scale byte that belongs to what was read."""
        return self.scale_of(self.read.key, self.read.group)


def said(scored: Scored) -> str:
    """What the wrong values of ``scored`` were made of; empty where they tell nothing."""
    found, count = list(spelt(scored)), int(scored.inside.sum())
    met: Counter[str] = Counter()
    for one in found:
        steps = ((one.read.key - one.own.key, "key"), (one.read.group - one.own.group, "group"))
        moved = " and ".join(f"{name} {step:+d}" for step, name in steps if step)
        kept = "its own scale" if one.read.scale == one.home else "another scale"
        met[f"{moved or 'the right codes'} with {kept}"] += 1
    often = met.most_common(FEW)
    if 2 * sum(number for _, number in often) < count or not often:
        return ""
    told = ", ".join(f"{name} ({number})" for name, number in often)
    source = scale_source([one for one in found if one.read.scale != one.home])
    return f"of {count} wrong values {len(found)} spell an address: {told}{source and f'; {source}'}"


def spelt(scored: Scored) -> Iterator[Spelt]:
    """The wrong values that spell an address."""
    keys, dim = sum(scored.case.ctx), scored.case.d
    got, want = scored.values()
    columns = scored.wrong[scored.inside][:, 1]
    for mine, right, column in zip(got.tolist(), want.tolist(), columns.tolist(), strict=True):
        read, own = (fill_address.decode(value, keys, dim) for value in (mine, right))
        if read is not None and own is not None:
            yield Spelt(column, read, own, dim)


def scale_source(found: list[Spelt]) -> str:
    """Whose scale was taken, by the one rule that holds for all of ``found``."""
    if len(found) < FEW:
        return ""
    for name, slots in places().items():
        if all(_is_of(one, one.column // PAGE * PAGE + int(slots[one.column % PAGE])) for one in found):
            return f"the scale is that of {name}"
    groups = found[0].dim // fill_address.GROUP
    for step in range(1, groups):
        if all(
            one.read.scale == one.scale_of(one.read.key, (one.read.group + step) % groups) for one in found
        ):
            return f"the scale is that of group {step:+d} of its key"
    return ""


def places() -> dict[str, Tensor]:
    """Rule to slot int64 [64] whose scale it takes for each slot of a page."""
    slot = torch.arange(PAGE)
    flat = torch.tensor([int(layout.flat_row(row)) for row in range(PAGE)])
    bent = torch.tensor([int(layout.bent_row(row)) for row in range(PAGE)])
    rules = {"the slot at its flat place": flat, "the slot bent twice": bent}
    rules |= {f"the slot with bits {bits} cleared": slot & ~bits for bits in (48, 16, 32, 15, 63)}
    rules |= {f"slot {step:+d} of its page, in a circle": (slot + step) % PAGE for step in range(1, PAGE)}
    rules |= {f"the slot with bit {1 << bit} turned": slot ^ 1 << bit for bit in range(6)}
    return rules


def _is_of(one: Spelt, column: int) -> bool:
    """Whether the scale is that of the key at ``column`` of the same sequence."""
    key = one.own.key + column - one.column
    return key >= 0 and one.read.scale == one.scale_of(key, one.read.group)
