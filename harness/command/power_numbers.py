"""The numbers among the arguments of ``harness power``, with their ranges."""

from __future__ import annotations

import argparse

from harness import exits

MOST = 1 << 20
"""Faults of a sample: more than any kernel has."""


def check_numbers(args: argparse.Namespace) -> None:
    """Raise `InputError` for a number out of range."""
    if args.sample is not None and not 1 <= args.sample <= MOST:
        raise exits.InputError(f"--sample is {args.sample}, allowed are 1 to {MOST}")
    if not 0 <= args.n <= 1024:
        raise exits.InputError(f"-n is {args.n}, allowed are 1 to 1024, or 0 for all cores")


def part_of(text: str) -> tuple[int, int]:
    """``2/3`` as (2, 3). Raises `InputError`."""
    number, _, parts = text.partition("/")
    if not (number.isdecimal() and parts.isdecimal() and 1 <= int(number) <= int(parts) <= 1024):
        raise exits.InputError(f"--part is {text!r}, allowed are I/N with 1 <= I <= N <= 1024")
    return int(number), int(parts)
