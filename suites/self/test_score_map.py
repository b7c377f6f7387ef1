"""What is true of score maps: every row inside its window, from its own pages, whatever the blocks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from oracles import cells, layout, score, windows
from oracles.operands import Operands
from oracles.windows import Windows
from suites.self.score_cases import bits, make


def planes(seed: int, heads: int, columns: int, sequences: int, length: int) -> tuple[Tensor, ...]:
    """Shuffled pages in a pool with poison all round; returns keys as read, per sequence, too."""
    generator = torch.Generator().manual_seed(seed)
    pages = -(-length // 64)
    tables = (torch.randperm(sequences * pages, generator=generator) + 1).view(sequences, pages).int()
    k_codes = torch.full((sequences * pages + 2, columns // 128, 4, 64, 16), 0xFF, dtype=torch.uint8)
    k_scales = torch.full((sequences * pages + 2, columns // 128, 4, 64), 255, dtype=torch.uint8)
    codes = torch.randint(0, 16, (sequences, length, columns), generator=generator).to(torch.uint8)
    scales = torch.randint(126, 129, (sequences, length, columns // 32), generator=generator).to(torch.uint8)
    for sequence in range(sequences):
        position = torch.arange(length)
        slots = tables[sequence][position // 64].long() * 64 + position % 64
        layout.write_keys(k_codes, k_scales, codes[sequence], scales[sequence], slots)
    return k_codes, k_scales, tables, codes, scales


@pytest.mark.parametrize("columns", (128, 256))
@pytest.mark.parametrize("how", ("exact", "decode", "prefill"))
def test_every_row_is_scored_inside_its_window_and_nowhere_else(how: str, columns: int) -> None:
    """Ragged windows over shuffled pages, several rows a sequence, empty ones, starts off every tile."""
    k_codes, k_scales, tables, codes, scales = planes(4, 32, columns, 3, 200)
    spans = [(0, 0, 200), (2, 37, 41), (0, 1, 66), (1, 0, 0), (1, 64, 128), (2, 199, 200), (0, 5, 3)]
    window = windows.prefill_windows(*torch.tensor(spans).T)
    q = make(11, rows=len(spans), heads=32, columns=columns, scales=(126, 129))
    q_codes, q_scales = layout.pack_nibbles(q.q_codes), layout.write_query_scales(q.q_scales)
    found = score.score_windows(
        q_codes, q_scales, k_codes, k_scales, tables, q.weights, 0.125, window, 256, how=how
    )
    want = torch.full((len(spans), 256), -torch.inf)
    for row, (sequence, start, end) in enumerate(spans):
        one = Operands(
            q.q_codes[row : row + 1],
            q.q_scales[row : row + 1],
            codes[sequence],
            scales[sequence],
            q.weights[row : row + 1],
            0.125,
        )
        whole = score.exact(one).value if how == "exact" else score.ordered(one, how)
        want[row, start:end] = whole[0, start:end]
    assert bits(found.value) == bits(want)
    assert found.proven.all() == (how == "exact") and found.over_budget == 0


def test_blocks_of_keys_do_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded by splitting; the split must not show, nor in proof and count."""
    k_codes, k_scales, tables, _, _ = planes(5, 16, 128, 2, 200)
    k_scales[tables[1, 2].long(), 0, 2] += 40
    q = make(12, rows=6, heads=16, scales=(126, 129))
    window = windows.decode_windows(torch.tensor([200, 170]), 3)
    plane = layout.pack_nibbles(q.q_codes), layout.write_query_scales(q.q_scales)

    def run() -> score.ScoreMap:
        return score.score_windows(
            *plane, k_codes, k_scales, tables, q.weights, 0.125, window, 200, how="exact"
        )

    whole = run()
    monkeypatch.setattr(cells, "BLOCK_DOTS", 1)
    split = run()
    assert bits(split.value) == bits(whole.value)
    assert split.proven.tolist() == whole.proven.tolist() == [True] * 3 + [False] * 3
    assert split.over_budget == whole.over_budget > 0


def test_dots_outside_the_windows_are_not_counted() -> None:
    k_codes, k_scales, tables, _, _ = planes(5, 16, 128, 1, 64)
    k_scales[tables[0, 0].long(), 0, 2, layout.bent_row(50)] = 160
    q = make(12, rows=2, heads=16, scales=(126, 129))
    plane = layout.pack_nibbles(q.q_codes), layout.write_query_scales(q.q_scales)
    for end, count in ((50, 0), (51, 16)):
        window = Windows(torch.zeros(2).long(), torch.tensor([0, 5]), torch.tensor([end, 7]))
        found = score.score_windows(
            *plane, k_codes, k_scales, tables, q.weights, 0.125, window, 64, how="exact"
        )
        assert found.over_budget == count and found.proven.tolist() == [count == 0, True]


def test_windows_that_do_not_fit_are_refused() -> None:
    k_codes, k_scales, tables, _, _ = planes(5, 16, 128, 1, 64)
    q = make(12, rows=1, heads=16)
    plane = layout.pack_nibbles(q.q_codes), layout.write_query_scales(q.q_scales)

    def run(end: int, width: int, rows: int = 1) -> None:
        window = Windows(*(torch.tensor([value] * rows) for value in (0, 0, end)))
        score.score_windows(*plane, k_codes, k_scales, tables, q.weights, 1.0, window, width, how="exact")

    with pytest.raises(ValueError, match="windows ends at 64, allowed are ends up to width = 63"):
        run(64, 63)
    with pytest.raises(ValueError, match="length is 65, allowed are 0 to 64"):
        run(65, 128)
    with pytest.raises(ValueError, match="windows has 2 rows, allowed is 1"):
        run(64, 64, rows=2)
