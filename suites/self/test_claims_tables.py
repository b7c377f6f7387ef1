"""Figures in Markdown: what is read, what is only told, and withdrawn ones however they are spelled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness import cli, exits
from harness.exits import InputError
from harness.legs.claims import cells, reported, sources, withdrawn
from harness.legs.claims.arithmetic import printed
from harness.legs.claims.audit import FAILS, HOLDS, UNCLEAR
from harness.legs.claims.cited import Cited, Unread
from harness.legs.claims.reported import Score


def read(tmp_path: Path, text: str, n: int | None = None) -> tuple[list[Cited], list[Unread]]:
    file = tmp_path / "t.md"
    file.write_text(text, encoding="utf-8")
    return sources.read(file, n)


def row(
    tmp_path: Path, cell: str, n: str = "1319", given: int | None = None
) -> tuple[list[Cited], list[Unread]]:
    """What is read of one row, beside one that is always read."""
    text = f"| leg | n | accuracy |\n|---|---|---|\n| other | 1319 | 0.9682 |\n| a | {n} | {cell} |\n"
    cited, unread = read(tmp_path, text, given)
    return cited[1:], unread


TABLE = """
| leg | n | flexible | strict |
|---|---|---|---|
| FP4 | 1,319 | 0.9704 +/- 0.0047 | 96.82% |
| FP8 | 1323 | 0.9682 ± 0.0048 | 0.5 |

| leg | accuracy |
|---|---|
| other | 0.9682 |
"""


def test_tables_are_read_with_their_n(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Figures of a Markdown table, over the n of its row; withdrawn ones and impossible ones are told."""
    file = tmp_path / "table.md"
    file.write_text(TABLE, encoding="utf-8")
    cited, unread = sources.read(file)
    assert not unread
    assert [(one.score.figure.text, one.n) for one in cited] == [
        ("0.9704", 1319), ("96.82%", 1319), ("0.9682", 1323), ("0.5", 1323), ("0.9682", None),
    ]  # fmt: skip
    assert [one.which for one in cited] == ["flexible", "strict", "flexible", "strict", "accuracy"]
    assert cited[0].score.error == printed("0.0047")
    assert cli.main(["claims", "audit", str(file), "--json", str(tmp_path / "out.json")]) == exits.DIFFER
    said = capsys.readouterr().out
    assert "0.9704 is a withdrawn figure" in said
    assert "give --n" in said
    found = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["remarks"]
    assert {one["verdict"] for one in found} == {HOLDS, FAILS, UNCLEAR}
    file.write_text("| n | score |\n|---|---|\n| 1319 | 0.9682 |\n", encoding="utf-8")
    assert cli.main(["claims", "audit", str(file)]) == exits.AGREE


LM_EVAL = """
|Tasks|Version|     Filter     |n-shot|  Metric   |   |Value |   |Stderr|
|-----|------:|----------------|-----:|-----------|---|-----:|---|-----:|
|gsm8k|      3|flexible-extract|    20|exact_match|↑  |0.9666|±  |0.0049|
|     |       |strict-match    |    20|exact_match|↑  |0.9674|±  |0.0049|
|     |       |strict-match    |    20|bleu       |↑  |0.4321|±  |0.0049|
"""


def test_the_table_that_lm_eval_prints_is_read(tmp_path: Path) -> None:
    """Its filter names the score, its column Stderr the error, and another metric is none."""
    cited, unread = read(tmp_path, LM_EVAL, 1319)
    assert [(one.which, one.score.figure.text, one.n) for one in cited] == [
        ("flexible", "0.9666", 1319), ("strict", "0.9674", 1319),
    ]  # fmt: skip
    assert [one.score.error for one in cited] == [printed("0.0049")] * 2
    assert [one.said for one in unread] == ["0.4321 is of a metric that is not known to be an accuracy"]


@pytest.mark.parametrize(
    ("cell", "figure", "error", "k"),
    [
        ("95.53% ± 0.57%", "95.53%", "0.57%", None),
        ("0.9530 (± 0.0058)", "0.9530", "0.0058", None),
        ("95.53 ± 0.57", "95.53%", "0.57%", None),
        ("95.53 ± 0.57 %", "95.53%", "0.57%", None),
        ("0.9553 +- 0.57%", "0.9553", "0.57%", None),
        ("**0.9666** (1275)", "0.9666", None, 1275),
        ("0.9704 +/- 0.0047 (1280)", "0.9704", "0.0047", 1280),
        ("0.9689 (1278) ± 0.0048", "0.9689", "0.0048", 1278),
        (".9531", ".9531", None, None),
        ("95.5", "95.5%", None, None),
        ("0.9", "0.9", None, None),
        ("1", "1", None, None),
        ("`97.04 %`", "97.04%", None, None),
        ("97.04\u202f%", "97.04%", None, None),
    ],
)
def test_a_cell_is_a_figure_with_its_error_and_its_count(
    cell: str, figure: str, error: str | None, k: int | None, tmp_path: Path
) -> None:
    """One figure a cell: its error is no second one, and each is in the unit that it is printed in."""
    (one,), unread = row(tmp_path, cell)
    assert one.score == Score(printed(figure), k, printed(error) if error else None)
    assert not unread


@pytest.mark.parametrize(
    "cell",
    [
        "95,30 %",
        "-0.45",
        "+0.45",
        "−0.45",
        "1275",
        "1275/1319",
        "0.9682*",
        "0.96 to 0.98",
        "0.\u0669\u0666",
        "1e-1",
    ],
)
def test_a_cell_that_is_no_figure_is_told(cell: str, tmp_path: Path) -> None:
    """No part of it is taken for one."""
    cited, unread = row(tmp_path, cell)
    assert not cited
    assert [one.said for one in unread] == [f"accuracy {cell} is no figure as it is read here"]


def test_an_error_of_no_known_unit_is_told(tmp_path: Path) -> None:
    """Beside a percentage an error without a sign may be a proportion or in points."""
    (one,), unread = row(tmp_path, "95.53% ± 0.57")
    assert (one.score.figure, one.score.error) == (printed("95.53%"), None)
    assert "does not tell the unit of the error of 95.53% ± 0.57" in unread[0].said
    assert cells.error("0.57", "95.53%") is None


@pytest.mark.parametrize("cell", ["-", "n/a", "", "pending"])
def test_a_cell_without_a_number_is_nothing(cell: str, tmp_path: Path) -> None:
    """Neither a figure nor one that is told."""
    assert row(tmp_path, cell) == ([], [])


@pytest.mark.parametrize(
    ("cell", "n"),
    [("1319", 1319), ("**1319**", 1319), ("1 319", 1319), ("1\u2009319", 1319), ("1,319", 1319),
     ("1319.0", 1319), ("1'319", 1319), ("", 50), ("-", 50), ("1e3", None), ("1.319", None), ("²", None),
     ("1319 of 1323", None)],
)  # fmt: skip
def test_an_n_that_cannot_be_read_is_not_replaced(cell: str, n: int | None, tmp_path: Path) -> None:
    """What is given is the n of rows that name none, and of no other."""
    (one,), _ = row(tmp_path, "0.9682", cell, given=50)
    assert one.n == n
    assert n is not None or one.why == f"its n is {cell}, which is no whole number"


@pytest.mark.parametrize(("cell", "n"), [("1,000,001", 1000001), ("0", 0)])
def test_an_n_that_nobody_can_have_is_refused(cell: str, n: int, tmp_path: Path) -> None:
    """With its line."""
    with pytest.raises(InputError, match=f"t.md:4 has n {n}, allowed are 1 to 1000000"):
        row(tmp_path, "0.9682", cell)


@pytest.mark.parametrize(
    "table",
    [
        "leg | n | flexible\n--|--|--\na | 1319 | 0.9682",
        "||n|flexible|\n|--|--|--|\n||1319|0.9682|",
        "| leg | n | flexible |\n|--|--|--|\n| a \\| b | 1319 | 0.9682 |",
        "> | leg | n | flexible |\n> |--|--|--|\n> | a | 1319 | 0.9682 |",
        "| flexible | n |\n|--|--|\n| 0.9682 | 1319 |\n\n```\n| n | flexible |\n|--|--|\n| 7 | 0.9999 |\n```",
        "| flexible | n |\n|--|--|\n| 0.9682 | 1319 |\n\n    | flexible |\n    |--|\n    | 0.9999 |",
    ],
)
def test_a_table_is_what_markdown_shows_as_one(table: str, tmp_path: Path) -> None:
    """Without bars at its ends, with empty cells, with a bar in a cell, quoted; code is none."""
    (one,), unread = read(tmp_path, table)
    assert (one.score.figure.text, one.which, one.n) == ("0.9682", "flexible", 1319)
    assert not unread


def test_columns_that_are_no_scores_are_told(tmp_path: Path) -> None:
    """A margin in a leg's name, a column of differences or p values is not audited."""
    cited, unread = read(
        tmp_path,
        "| leg | n | score | strict difference | p | accuracy gain |\n|---|---|---|---|---|---|\n"
        "| fp8 margin 5% | 1319 | 0.9682 | 0.0045 | 0.65 | -0.15 |\n"
        "| b | 1319 | 0.9666 | 0.0038 | 0.5 | 0.2 |\n",
    )
    assert [one.score.figure.text for one in cited] == ["0.9682", "0.9666"]
    assert [(one.where, one.said.partition(", not read")[0]) for one in unread] == [
        ("t.md:3", "5% in column 'leg'"),
        ("t.md:3", "2 figures such as 0.0045 in column 'strict difference'"),
        ("t.md:3", "0.65 in column 'p'"),
    ]


def test_errors_in_columns_of_their_own_are_of_the_score_they_name(tmp_path: Path) -> None:
    """By the filter, wherever the column stands; one that names none is of the score before it."""
    cited, unread = read(
        tmp_path,
        "| n | flexible | strict | flexible stderr | strict error |\n|---|---|---|---|---|\n"
        "| 1319 | 0.9666 | 0.9674 | 0.0050 | ±0.0049 |\n\n"
        "| n | accuracy | se | score ± error |\n|---|---|---|---|\n"
        "| 1319 | 0.9666 | 0.0051 | 0.9674 ± 0.0048 |\n",
    )
    assert [(one.score.figure.text, one.score.error) for one in cited] == [
        ("0.9666", printed("0.0050")), ("0.9674", printed("0.0049")),
        ("0.9666", printed("0.0051")), ("0.9674", printed("0.0048")),
    ]  # fmt: skip
    assert not unread


@pytest.mark.parametrize("name", ["stderr (strict)", "accuracy (stderr)"])
def test_a_column_of_errors_is_none_of_scores(name: str, tmp_path: Path) -> None:
    """Whatever its name has in parentheses; what it is the error of is not known, so it is told."""
    cited, unread = read(
        tmp_path, f"| {name} | n | flexible |\n|-|-|-|\n| 0.9666 (0.0048) | 1319 | 0.9682 |\n"
    )
    assert [one.score.error for one in cited] == [None]
    assert unread[0].said.startswith(f"0.9666 in column {name!r}, not read")


def test_figures_in_text_are_told(tmp_path: Path) -> None:
    """Once a file, with the first of them; links, versions and differences are none."""
    cited, unread = read(
        tmp_path,
        "Version 0.4.13 of 3 % more.\n\nIt was 0.9531, then\n+0.45.\n\n| n | score |\n|-|-|\n| 9 | 1.0 |",
    )
    assert len(cited) == 1
    assert [one.where for one in unread] == ["t.md:1"]
    assert unread[0].said.startswith("2 figures such as 3 % in text, not read; figures are read in tables")


def test_figures_in_html_are_told(tmp_path: Path) -> None:
    """A table of tags is none of bars; widths and comments are no figures."""
    table = (
        '<!-- 0.9704 -->\n<table width="50%"><tr><td>0.9531</td></tr></table>\n\n|n|score|\n|-|-|\n|9|1.0|'
    )
    cited, unread = read(tmp_path, table)
    assert len(cited) == 1
    assert [one.said.partition(" in text")[0] for one in unread] == ["0.9531"]


def test_what_is_not_read_is_in_the_audit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a thing that cannot be told; it is no reason to fail."""
    file = tmp_path / "t.md"
    file.write_text(
        "| n | score |\n|-|-|\n| 1319 | 0.9682 |\n| 1319 | 95,30 % |\n| 1e3 | 0.5 |\n", encoding="utf-8"
    )
    assert cli.main(["claims", "audit", str(file), "--n", "7"]) == exits.AGREE
    said = " ".join(capsys.readouterr().out.split())
    assert "score 95,30 % is no figure as it is read here" in said
    assert "score 0.5: its n is 1e3, which is no whole number" in said


def told_of(figure: str, n: int | None) -> list[tuple[str, str]]:
    one = Cited("a", "flexible", Score(printed(figure)), n)
    return [(found.verdict, found.claim) for found in withdrawn.remarks(reported.load(), [one])]


@pytest.mark.parametrize("figure", ["0.9704", "97.04%", "97.04 %", ".97043", "0.9704321456"])
@pytest.mark.parametrize("n", [1319, None])
def test_a_withdrawn_figure_is_found_however_it_is_spelled(figure: str, n: int | None) -> None:
    """1280 of 1319, which is no other leg's."""
    assert told_of(figure, n) == [(FAILS, "a")]


def test_a_figure_that_need_not_be_the_withdrawn_one_is_not_accused() -> None:
    """What another leg has, what another count may be, and other questions; 0.970 may be it, and no other."""
    assert told_of("0.9682", 1319) == told_of("0.97", 1319) == told_of("0.9704", 10_000) == []
    assert told_of("0.970", 1319) == [(UNCLEAR, "a")]
    assert told_of("0.9704", 1323) == [(FAILS, "a")]  # it is no figure over 1323 questions


def test_a_leg_that_is_reported_in_part_is_not_withdrawn(tmp_path: Path) -> None:
    """A figure that a partial leg has too is nobody's fault; neither is one that its spread leaves."""
    text = reported.FILE.read_text(encoding="utf-8")
    for more in ('flexible = "0.9704"', 'base = "base-fp4-20"\nplus_flexible = "0.38"'):
        leg = f'[[leg]]\nid = "more"\nn = 1319\n{more}\nstanding = "partial"\nwhy = "w"\nsource = "s"\n'
        file = tmp_path / "reported.toml"
        file.write_text(f"{text}\n{leg}", encoding="utf-8")
        one = Cited("a", "flexible", Score(printed("0.9704")), 1319)
        assert not list(withdrawn.remarks(reported.load(file), [one]))
