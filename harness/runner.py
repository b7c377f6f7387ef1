"""Run one case on one path and give its verdict, whatever happens.

A path that refuses is ``unsupported``, one that breaks is ``error``; findings are held against
the ledger here and nowhere else, so no check can forget them. A finding that no entry knows
turns an agreeing case red.
"""

from __future__ import annotations

import importlib
import shlex
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path as File

from harness.case.cases import Case
from harness.faults.planted import marked
from harness.judge.ledger import HITS, Ledger
from harness.judge.verdict import OUT_OF_SCOPE, Grade, Status, Verdict
from harness.paths.base import OutOfScope, Path, Unsupported

MEMINFO = File("/proc/meminfo")


def run(case: Case, path: Path, ledger: Ledger) -> Verdict:
    """The verdict of ``case`` on ``path``; raises nothing but `KeyboardInterrupt` and its like."""
    began = time.perf_counter()
    try:
        verdict = _checked(case, path)
    except Unsupported as refusal:
        verdict = _without_result(case, path, Status.UNSUPPORTED, str(refusal))
        verdict = verdict.but(facts={OUT_OF_SCOPE: refusal.expected})
    except Exception as error:
        verdict = _without_result(case, path, Status.ERROR, f"{type(error).__name__}: {error}")
        verdict = verdict.but(
            notes=(f"raised at {_place(error)}",), facts={"traceback": traceback.format_exc()}
        )
    verdict = _with_ledger(verdict, path, ledger)
    verdict = replace(verdict, seconds=time.perf_counter() - began, rerun=rerun(case, path))
    return marked(verdict, path)


def rerun(case: Case, path: Path) -> str:
    """The command line that runs ``case`` on ``path`` again."""
    extra: tuple[str, ...] = getattr(path, "rerun_args", ())
    return shlex.join(["python", "-m", "harness", "check", case.id, "--path", path.name, *extra])


def _checked(case: Case, path: Path) -> Verdict:
    for what, needed, had in (
        ("memory", memory_needed(case), memory("MemAvailable")),
        ("address space", address_space_needed(case), memory("MemTotal")),
    ):
        if had is not None and needed > had:
            raise OutOfScope(
                f"the case needs about {needed / 2**30:.1f} GiB of {what}, {had / 2**30:.1f} GiB can be had"
            )
    module = importlib.import_module(f"harness.checks.{case.suite.replace('-', '_')}")
    check: Callable[[Case, Path], Verdict] = module.check
    return check(case, path)


def memory_needed(case: Case) -> int:
    """Bytes the harness and an emulator hold at once, roughly: score matrices, queries and the key pool."""
    cells = case.rows * case.width if case.kind and case.suite != "schedule" else 0
    matrices = 5 + 2 * len(case.u) + len(case.c)
    return cells * 4 * matrices + case.rows * case.h * case.d * 4 + sum(case.ctx) * case.d * 4


def address_space_needed(case: Case) -> int:
    """Bytes of the largest buffer, hardly touched; systems refuse one larger than their memory."""
    from harness.fill.inputs import REACH

    return REACH.get(case.t, 0) * 4


def memory(what: str) -> int | None:
    """MemAvailable (had without swapping) or MemTotal in bytes; None where the system does not say."""
    try:
        lines = MEMINFO.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(what)), None)


def _without_result(case: Case, path: Path, status: Status, reason: str) -> Verdict:
    return Verdict(
        case.id, case.suite, path.name, path.executor, status, Grade.NONE, " ".join(reason.split())
    )


def _place(error: Exception) -> str:
    """``file:line in function`` where ``error`` was raised, without the machine's folders."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{'/'.join(File(last.filename).parts[-2:])}:{last.lineno} in {last.name}"


def _with_ledger(verdict: Verdict, path: Path, ledger: Ledger) -> Verdict:
    """Note known findings, and turn an agreeing verdict red for a new one."""
    known, new = ledger.split(verdict.findings, path.name)
    entries = list(dict.fromkeys(entry for _, entry in known))
    notes = verdict.notes + tuple(
        f"known finding: {entry.kind} of {entry.operand} in {entry.file}: {entry.reason}" for entry in entries
    )
    verdict = verdict.but(notes=notes, facts={**verdict.facts, HITS: [entry.key for entry in entries]})
    if not new or verdict.status not in (Status.AGREE, Status.MISTRUSTED):
        return verdict
    count = sum(finding.count for finding in new)
    return verdict.but(
        status=Status.DIFFER, layer="finding", reason=f"new-finding ({new[0].kind})", count=count, total=count
    )
