"""The lists cover what they promise, so that a case that is dropped is missed."""

from __future__ import annotations

import pytest

from harness.case import cases
from harness.case.case_lists import LISTS, listed
from harness.case.cases import Case
from harness.case.suite import FILLS

SCORING = ("decode", "prefill", "varqlen", "identity")
EDGES = {0, 1, *(edge + step for edge in (16, 64, 256, 2048) for step in (-1, 0, 1))}


def scoring(which: str) -> list[Case]:
    return [case for suite in SCORING for case in listed(suite, which)]


def test_full_holds_all_of_smoke_and_more() -> None:
    """Smoke is a part of full, and full is several times as large."""
    for suite in cases.SUITES:
        assert set(listed(suite, "smoke")) < set(listed(suite, "full"))
    assert sum(len(listed(s, "full")) for s in cases.SUITES) > 3 * sum(
        len(listed(s, "smoke")) for s in cases.SUITES
    )


@pytest.mark.parametrize("which", LISTS)
def test_ids_are_unique(which: str) -> None:
    """No case is listed twice."""
    ids = [case.id for suite in cases.SUITES for case in listed(suite, which)]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("which", LISTS)
def test_the_spread_over_each_field(which: str) -> None:
    """Every N, the heads and dims in the field, every fill and table style but the mistrusted one."""
    decode = listed("decode", which)
    assert {case.n for case in decode} == set(range(1, 9))
    for heads in (16, 32, 64, 128):
        assert any(case.h == heads for case in decode) and any(
            case.h == heads for case in listed("prefill", which)
        )
    for suite in ("decode", "prefill", "varqlen"):
        assert {case.d for case in listed(suite, which)} == {128, 256}
        assert {case.f for case in listed(suite, which)} >= {"bytes", "natural", "address", "wide"} - (
            {"address"} if suite == "identity" else set()
        )
    for suite in ("decode", "prefill"):
        assert {case.f for case in listed(suite, which)} == set(FILLS)
        assert {case.t for case in listed(suite, which)} >= {"shuffled", "tight", "wide", "strided"}
    assert not any(case.t == "identity" for case in scoring(which))


@pytest.mark.parametrize("which", LISTS)
def test_lengths_on_both_sides_of_every_edge(which: str) -> None:
    """0, 1 and one either side of 16, 64, 256, 2048, as decode lengths and as window ends or starts."""
    assert {length for case in listed("decode", which) for length in case.ctx} >= EDGES
    bounds = {bound for case in listed("prefill", which) for _, *window in case.w for bound in window}
    assert bounds >= EDGES - {16 - 1, 64 - 1, 256 - 1} | {15, 63, 255}


@pytest.mark.parametrize("which", LISTS)
def test_windows_that_show_a_dropped_start(which: str) -> None:
    """Windows that are empty, shorter than a tile, and that start off a multiple of 16."""
    windows = [window for case in listed("prefill", which) for window in case.w]
    assert any(start == end for _, start, end in windows)
    assert any(0 < end - start < 16 and start % 16 for _, start, end in windows)
    assert any(start >= 256 and start % 16 for _, start, end in windows)
    assert any(case.w[0][1] > 0 for case in listed("prefill", which))


@pytest.mark.parametrize("which", LISTS)
def test_tables_that_a_prefetch_runs_past(which: str) -> None:
    """A tight table whose last sequence is longest and ends with a chunk: only a prefetch leaves it."""
    for suite in ("decode", "prefill"):
        tight = [case for case in listed(suite, which) if case.t == "tight"]
        assert any(case.ctx[-1] == case.longest and case.longest % 256 == 0 for case in tight)


@pytest.mark.parametrize("which", LISTS)
def test_schedules_of_both_kinds(which: str) -> None:
    """Tight and roomy units, units that split nothing, and lists that compare several."""
    schedules = listed("schedule", which)
    assert {case.kind for case in schedules} == {"decode", "prefill"}
    assert {case.n for case in schedules if case.n} == set(range(1, 9))
    assert any(units == case.n * case.batch for case in schedules if case.n for units in case.u)
    assert {case.kind for case in listed("identity", which)} == {"decode", "prefill"}
    assert any(case.width % 256 for case in listed("decode", which))


def test_a_list_that_is_not_there_is_refused() -> None:
    """Unknown suites and lists are ValueErrors that name what is allowed."""
    with pytest.raises(ValueError, match="smoke, full"):
        listed("decode", "all")
    with pytest.raises(ValueError, match="quantise"):
        listed("nosuch", "smoke")
