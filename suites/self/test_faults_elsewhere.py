"""Every field report and every entry of the fault catalogue is a fault, or said to be shown elsewhere."""

from __future__ import annotations

import importlib.util
import re

import pytest

from harness.faults import catalogue, elsewhere

NUMBERS = (1, 2, 3, 4, 7, 8, 9, 10, 11, 13, 15, 16, 17, 19, 21, 23, 26, 27, 28, 29, 31, 32, 35, 38, 39, 40)
LATER = (42, 43, 44, 45, 48, 49, 50, 53, 55, 56, 57, 58, 59, 60, 62, 63, 64, 65)
REPORTS = tuple(f"B{number:02d}" for number in NUMBERS + LATER)
"""Every field report."""

NAMED = (
    *("scale-read-flat", "scale-write-flat", "scale-both-flat", "page-size-lanes", "nibble-swap"),
    *("tie-away", "tie-zero", "tie-down", "scale-floor", "scale-amax-over-7", "scale-eps", "neg-zero-drop"),
    *("weights-scaled-twice", "weights-unscaled", "rope-interleaved", "norm-population-eps"),
    *("pad-row-garbage", "slot-negative-write", "mask-off-by-one-early", "mask-off-by-one-late"),
    *("next-n-swap", "window-start-ignored", "own-pages-only", "relu-missing", "relu-after-weight"),
    *("opsel-wrong", "short-schedule", "double-cover", "gap-cover", "units-not-multiple"),
    *("stale-schedule", "stale-draft-steps", "wide-rows-schedule", "no-base-publish", "ubatch-global-zero"),
    *("local-length-uniform", "owner-round-robin-only", "gather-order", "staged-table-one-seq"),
    *("staged-tail-alias", "merge-unstable", "merge-drops-interleaved-padding", "kpool-accepted"),
    *("headdim-accepted", "heads-accepted", "chip-probed-for-fp8", "refusal-silent", "int32-overflow"),
    "table-overread",
)
"""The catalogue's own names."""
FAMILIES = ("k-tile-order", "fp8-drift")
"""Entries of the catalogue that several faults together stand for, by how their names begin."""


def seen() -> set[str]:
    """Reports that some fault was seen in."""
    return {number for fault in catalogue.ALL for number in re.findall(r"\bB\d\d\b", fault.seen)}


@pytest.mark.parametrize("report", REPORTS)
def test_a_report_is_a_fault_or_is_shown_elsewhere(report: str) -> None:
    """Exactly one of the two."""
    told = [entry.report for entry in elsewhere.ALL].count(report)
    assert (report in seen()) + told == 1


def test_nothing_else_is_named() -> None:
    """No number that is no report."""
    assert seen() | {entry.report for entry in elsewhere.ALL} == set(REPORTS)


@pytest.mark.parametrize("name", NAMED)
def test_an_entry_of_the_catalogue_is_a_fault(name: str) -> None:
    assert catalogue.named(name).name == name


@pytest.mark.parametrize("family", FAMILIES)
def test_an_entry_of_the_catalogue_is_several_faults(family: str) -> None:
    assert any(fault.name.startswith(family) for fault in catalogue.ALL)


@pytest.mark.parametrize("entry", elsewhere.ALL, ids=lambda entry: entry.report)
def test_what_shows_it_is_there(entry: elsewhere.Elsewhere) -> None:
    """Modules that were moved are missed."""
    assert entry.what and entry.why and entry.shown
    assert all(importlib.util.find_spec(name) is not None for name in entry.shown)
