"""Exit codes of the command line: one closed table, and the rule that picks from it.

A run that proved nothing must not exit 0. That is the silent failure here: an empty run, or
one whose every case was unsupported, has no failing case either, so the rule asks for an
agreement and not only for the absence of a difference.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from harness.judge.verdict import FAULTS, OUT_OF_SCOPE

AGREE = 0
DIFFER = 1
USAGE = 2
ERROR = 3
UNPROVEN = 4
INTERRUPTED = 130

MEANING: Mapping[int, str] = {
    AGREE: "every case that ran agrees",
    DIFFER: "something differs (or a ledger entry went stale)",
    USAGE: "bad usage or input",
    ERROR: "something could not run",
    UNPROVEN: "nothing differs, but something is mistrusted, unsupported though it was asked for by name,"
    " or a fault that was planted is never reached",
    INTERRUPTED: "interrupted; what had ended is kept",
}


class InputError(Exception):
    """Bad usage or input; the message is one sentence that starts with the field (exit code 2)."""


class CannotRun(Exception):
    """The command could not do its work; the message is one sentence (exit code 3)."""


def table() -> str:
    """The exit codes as lines of text, for ``--help``."""
    return "\n".join(f"  {code:<4}{meaning}" for code, meaning in MEANING.items())


def of_records(
    records: Iterable[Mapping[str, Any]],
    *,
    asked: Collection[str] = (),
    stale: int = 0,
    complete: bool = True,
) -> int:
    """Exit code of a run. ``asked``: suites that were named; ``stale``: ledger entries that matched nothing.

    A difference outranks an error, an error outranks a case that proves little. A run that did
    not get to its end (``complete`` false) is an error unless something in it differs.
    """
    ended = list(records)
    if len({str(record["path"]) for record in ended}) > 1:  # a suite need not be in every path's scope
        asked = set(asked) - {str(record["suite"]) for record in ended if record["status"] == "agree"}
    statuses = {str(record["status"]) for record in ended}
    if "differ" in statuses or stale:
        return DIFFER
    if "error" in statuses or not complete:
        return ERROR
    if "mistrusted" in statuses or any(refused(record, asked) for record in ended) or "agree" not in statuses:
        return UNPROVEN
    if not all(planted_cases(ended).values()):
        return UNPROVEN
    return AGREE


def planted_cases(records: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Name of each fault that was planted on purpose to the number of cases that reached it."""
    reached: dict[str, int] = {}
    for record in records:
        for name, met in dict(dict(record.get("facts") or {}).get(FAULTS) or {}).items():
            reached[name] = reached.get(name, 0) + bool(met)
    return reached


def refused(record: Mapping[str, Any], asked: Collection[str] = ()) -> bool:
    """Whether a case is unsupported that was asked for: its suite was named, or the path should have it.

    The production path has no quantiser here, by nature; an aiter without the FP4 kernels lacks
    what ``--path aiter`` asked for.
    """
    out_of_scope = dict(record.get("facts") or {}).get(OUT_OF_SCOPE, False)
    return str(record["status"]) == "unsupported" and (record["suite"] in asked or not out_of_scope)
