"""What a run comes to: counts by suite, status and grade, the failures' texts, the findings.

Reads verdict records (see `harness.judge.verdict.Verdict.to_record`), never live objects, so a run
that crashed and a run that just ended are summed up by the same code. How it would fail
silently: a status missing from the table would make its cases vanish from the sums, so the
columns are made from the closed lists and every row is checked to add up.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.case.cases import SUITES
from harness.exits import planted_cases
from harness.findings import Finding
from harness.judge.ledger import Ledger
from harness.judge.verdict import FAULTS, SUBJECTS, Grade, Status, Verdict
from harness.record import stages

Record = Mapping[str, Any]

STYLES = {
    "agree": "green",
    "differ": "bold red",
    "mistrusted": "yellow",
    "unsupported": "blue",
    "error": "magenta",
}
GRADES = tuple(str(grade) for grade in (Grade.EXACT, Grade.ORDERED, Grade.BOUNDED))
NOT_GREEN = tuple(str(status) for status in Status if status is not Status.AGREE)
TEXTS_SHOWN = 10


@dataclass(frozen=True)
class Found:
    """One finding over all cases of a run. ``known``: listed in the ledger, with this reason."""

    finding: Finding
    cases: tuple[str, ...]
    known: str | None


def tally(records: Iterable[Record]) -> dict[str, Counter[str]]:
    """Suite to counts; a key is ``agree exact`` (status and grade) for green cases, else the status."""
    counts: dict[str, Counter[str]] = {}
    for record in records:
        status = str(record["status"])
        key = f"{status} {record['grade']}" if status == Status.AGREE else status
        counts.setdefault(str(record["suite"]), Counter())[key] += 1
    return {
        suite: counts[suite] for suite in (*SUITES, *sorted(set(counts) - set(SUITES))) if suite in counts
    }


def statuses(records: Iterable[Record]) -> str:
    """``12 agree, 1 differ``: the statuses that occur, in their fixed order."""
    counts = Counter(str(record["status"]) for record in records)
    return (
        ", ".join(f"{counts[status]} {status}" for status in map(str, Status) if counts[status])
        or "nothing ran"
    )


def red(records: Iterable[Record]) -> list[Record]:
    """Cases whose text must be read, differences first; not the green and the unsupported ones."""
    order = [str(status) for status in (Status.DIFFER, Status.ERROR, Status.MISTRUSTED)]
    failed = [record for record in records if record["status"] in order]
    return sorted(failed, key=lambda record: (order.index(str(record["status"])), str(record["case"])))


def refusals(records: Iterable[Record]) -> Counter[str]:
    """Reasons why cases were unsupported, with the number of cases."""
    return Counter(str(record["reason"]) for record in records if record["status"] == Status.UNSUPPORTED)


def alike(failed: Iterable[Record]) -> list[tuple[Record, int]]:
    """Failures with how many more have the same cause, which are not listed again."""
    first: dict[tuple[str, str], Record] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for record in failed:
        key = (str(record["status"]), likeness(record))
        first.setdefault(key, record)
        counts[key] += 1
    return [(record, counts[key] - 1) for key, record in first.items()]


def likeness(record: Record) -> str:
    """What two failures share when one text serves for both: an error's reason, a finding's place."""
    if record["status"] == Status.ERROR:
        return str(record["reason"])
    if record["layer"] == "finding":
        return " ".join(sorted(f"{item['kind']} {item['location']}" for item in record["findings"]))
    return str(record["case"])


def findings(records: Iterable[Record], ledger: Ledger) -> list[Found]:
    """Findings of a run, one for each kind, kernel, operand and place; new ones first."""
    first: dict[tuple[str, ...], tuple[Finding, str | None]] = {}
    cases: dict[tuple[str, ...], list[str]] = {}
    for record in records:
        known, new = ledger.split(
            (Finding(**item) for item in record.get("findings") or ()), str(record["path"])
        )
        for finding, reason in [(finding, entry.reason) for finding, entry in known] + [
            (item, None) for item in new
        ]:
            key = (finding.kind, finding.kernel, finding.operand, finding.location)
            first.setdefault(key, (finding, reason))
            cases.setdefault(key, []).append(str(record["case"]))
    found = [Found(finding, tuple(cases[key]), known) for key, (finding, known) in first.items()]
    return sorted(found, key=lambda item: (item.known is not None, item.finding.kind, item.finding.location))


def stale(records: Iterable[Record], ledger: Ledger) -> list[str]:
    """Ledger entries that a whole run should have met and did not. Pass whole listings of suites only."""
    return [entry.key for entry in ledger.stale(map(Verdict.from_record, records))]


def table(records: Sequence[Record]) -> Table:
    """The counts as a table, a row a suite (and path, where there are several) and a last row of sums."""
    shown = Table(show_edge=False, pad_edge=False, header_style="bold")
    several = len({str(record["path"]) for record in records}) > 1
    for column in ("suite", "path") if several else ("suite",):
        shown.add_column(column)
    for column in ("cases", *GRADES, *NOT_GREEN, "seconds"):
        shown.add_column(column, justify="right", style=STYLES["agree"] if column in GRADES else None)
    rows = grouped(records)
    for (suite, path), members in rows.items():
        shown.add_row(*((suite, path) if several else (suite,)), *_cells(members))
    if len(rows) > 1:
        shown.add_section()
        shown.add_row(*(("all", "") if several else ("all",)), *_cells(records))
    return shown


def grouped(records: Sequence[Record]) -> dict[tuple[str, str], list[Record]]:
    """(suite, path) to its records: suites in their fixed order, paths as they first occur."""
    paths = list(dict.fromkeys(str(record["path"]) for record in records))
    found: dict[tuple[str, str], list[Record]] = {
        (suite, path): [] for suite in tally(records) for path in paths
    }
    for record in records:
        found[str(record["suite"]), str(record["path"])].append(record)
    return {key: members for key, members in found.items() if members}


def subjects(records: Sequence[Record]) -> list[str]:
    """Who answered which stage, a line a suite and path, where it was not the path alone."""
    lines = []
    several = len({str(record["path"]) for record in records}) > 1
    for (suite, path), members in grouped(records).items():
        answered: dict[str, list[str]] = {}
        for record in members:
            for request, subject in dict((record.get("facts") or {}).get(SUBJECTS) or {}).items():
                asked = answered.setdefault(str(subject), [])
                asked.extend([str(request)] if request not in asked else [])
        if several or any(subject.split(" (")[0] != path for subject in answered):
            said = "; ".join(f"{subject}: {', '.join(asked)}" for subject, asked in answered.items())
            lines.extend([f"{suite} on {path}: {said}"] if said else [])
    return lines


def planted(records: Sequence[Record]) -> list[str]:
    """A line a fault that was planted on purpose: how many cases reached it, how many of them differ."""
    lines = []
    for name, reached in planted_cases(records).items():
        seen = sum(
            record["status"] == Status.DIFFER and bool(record["facts"].get(FAULTS, {}).get(name))
            for record in records
        )
        told = f"reached in {reached} of {_cases(len(records))}, {seen} of these differ"
        lines.append(f"fault {name} was planted on purpose: {told}")
    return lines


def _cells(records: Sequence[Record]) -> list[Text]:
    counts: Counter[str] = Counter()
    for counted in tally(records).values():
        counts.update(counted)
    numbers = [counts[f"agree {grade}"] for grade in GRADES] + [counts[status] for status in NOT_GREEN]
    if sum(numbers) != len(records):
        raise ValueError(
            f"status or grade outside the closed lists in {len(records)} records: {dict(counts)}"
        )
    styles = ("green",) * len(GRADES) + tuple(STYLES[status] for status in NOT_GREEN)
    cells = [
        Text(str(n) if n else "-", style=style if n else "dim")
        for n, style in zip(numbers, styles, strict=True)
    ]
    seconds = sum(float(record["seconds"]) for record in records)
    return [Text(str(len(records))), *cells, Text(f"{seconds:.1f}")]


def plain(records: Sequence[Record], ledger: Ledger, *, stale: Sequence[str] = ()) -> str:
    """The summary without the failures' texts, as text."""
    stream = io.StringIO()
    show(Console(file=stream, width=100, highlight=False), records, ledger, stale=stale, texts=False)
    return stream.getvalue().rstrip()


def show(
    console: Console,
    records: Sequence[Record],
    ledger: Ledger,
    *,
    stale: Sequence[str] = (),
    texts: bool = True,
) -> None:
    """Print the table, then what was unsupported, the failures' ``texts``, the findings and stale entries."""
    if not records:
        console.print("nothing ran")
        return
    console.print(table(records))
    for line in planted(records):
        console.print(Text(f"\n{line}", style="bold red"), soft_wrap=True)
    _show_subjects(console, records)
    stages.show(console, stages.sections(records, ledger))
    _show_unsupported(console, records)
    failed = alike(red(records)) if texts else []
    for record, others in failed[:TEXTS_SHOWN]:
        console.print()
        console.print(Text(Verdict.from_record(record).text()), soft_wrap=True)
        if others:
            console.print(f"  and {_cases(others)} like it")
    if len(failed) > TEXTS_SHOWN:
        console.print(
            f"\n{len(failed) - TEXTS_SHOWN} more not shown; 'harness report last --all' prints every text"
        )
    show_findings(console, findings(records, ledger))
    for entry in stale:
        mend = "take it out of harness/judge/ledger.toml if it is mended"
        said = f"stale ledger entry: no case met {entry}; {mend}"
        console.print(Text(f"\n{said}", style="red"), soft_wrap=True)


def _show_subjects(console: Console, records: Sequence[Record]) -> None:
    lines = subjects(records)
    if lines:
        console.print("\nwho answered what")
    for line in lines:
        console.print(Text(f"  {line}"), soft_wrap=True)


def _show_unsupported(console: Console, records: Sequence[Record]) -> None:
    reasons = refusals(records)
    if reasons:
        console.print()
    for reason, count in reasons.most_common():
        console.print(Text(f"unsupported, {_cases(count)}: {reason}", style="blue"), soft_wrap=True)


def show_findings(console: Console, found: Sequence[Found]) -> None:
    """One paragraph a new finding, one for all places of known ones that share a reason."""
    shared: dict[tuple[str, ...], list[Found]] = {}
    for item in found:
        finding = item.finding
        key = (finding.kernel, finding.what, item.known or finding.location)
        shared.setdefault(key, []).append(item)
    for places in shared.values():
        _show_finding(console, places)


def _show_finding(console: Console, places: Sequence[Found]) -> None:
    finding, reason = places[0].finding, places[0].known
    cases = tuple(dict.fromkeys(case for item in places for case in item.cases))
    head = f"{'NEW' if reason is None else 'known'} finding in {_cases(len(cases))}: {finding.what}"
    lines = [("kernel", finding.kernel), *(("at", item.finding.location) for item in places)]
    where = ", ".join(f"{key} {value}" for key, value in finding.first.items())
    lines += [("first", f"{where} (one of {finding.count} in this case)")]
    lines += [("case", cases[0])] if reason is None else [("reason", reason)]
    console.print(Text(f"\n{head}", style="bold red" if reason is None else "yellow"), soft_wrap=True)
    for label, content in lines:
        console.print(Text(f"  {label:<8}{content}"), soft_wrap=True)


def _cases(count: int) -> str:
    return f"{count} case" if count == 1 else f"{count} cases"
