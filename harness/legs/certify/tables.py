"""Certificates as a table for the console and as Markdown for a pull request, from the same rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich import box
from rich.table import Table

from harness.legs.certify import control
from harness.legs.certify.certificate import Certificate
from harness.legs.pool.tables import lines

COLUMNS = ("leg", "point", "verdict", "found")


def console(certificates: Mapping[str, Certificate]) -> Table:
    """A row for each point, a rule below each leg."""
    shown = Table(*COLUMNS, box=box.SIMPLE, show_edge=False, pad_edge=False)
    for certificate in certificates.values():
        for number, row in enumerate(_rows(certificate)):
            shown.add_row(*(row if not number else ("", *row[1:])))
        shown.add_section()
    return shown


def markdown(certificates: Mapping[str, Certificate]) -> list[str]:
    """Lines of a Markdown table, a row for each point."""
    return lines(COLUMNS, [row for one in certificates.values() for row in _rows(one)])


def limits(certificates: Mapping[str, Certificate]) -> list[str]:
    """A sentence for each leg of which nobody can tell whether it counts, then that of the control.

    Legs that are certified except the same points share one.
    """
    said = [
        f"{leg} is {one.word}: {'; '.join(point.said for point in (*one.unknown, *one.unshown))}"
        for leg, one in certificates.items()
        if one.unknown and not one.fails
    ]
    alike: dict[tuple[str, str], list[str]] = {}
    for leg, one in certificates.items():
        if one.certified and one.unshown:
            why = "; ".join(point.said for point in one.unshown)
            alike.setdefault((one.word, why), []).append(leg)
    said += [
        f"{' and '.join(legs)} {'is' if len(legs) == 1 else 'are'} {word}: {why}"
        for (word, why), legs in alike.items()
    ]
    points = [point for one in certificates.values() for point in one.points]
    return said + [point.said for point in points if point.name == control.NAME]


def _rows(certificate: Certificate) -> Iterator[tuple[str, str, str, str]]:
    name = certificate.leg
    yield name, "", certificate.word, "known bad: a positive control" if certificate.known_bad else ""
    for one in certificate.points:
        yield name, one.name, str(one.verdict), one.said
