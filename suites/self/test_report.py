"""The page of a run: whole, self-contained, and honest about what did not end."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.findings import Finding
from harness.judge.verdict import Grade, Status, Verdict
from harness.record import store
from harness.report import heat, page

VOID = {"meta", "input", "br", "link", "img", "hr"}


class Balance(HTMLParser):
    """Follows open tags; ``wrong`` lists those that were closed out of turn."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()
        else:
            self.wrong.append(tag)


def verdict(seed: int, status: Status, **more: object) -> Verdict:
    case = f"decode-n1-h16-d128-ctx9-tshuffled-u0-l0-fbytes-s{seed}"
    return Verdict(case, "decode", "oracle", "torch", status, Grade.EXACT, total=9).but(**more)


@pytest.fixture
def run(tmp_path: Path) -> store.Run:
    found = Finding("out-of-bounds-load", "some_kernel", "block_tables", "k/some.py:12", 4, {"lane": 3})
    made = store.create(tmp_path, {"path": "oracle", "torch": {"version": "2"}, "arguments": {"suite": []}})
    journal = store.Journal(made, "gw0")
    journal.plan(4)
    journal.verdict(verdict(0, Status.AGREE, findings=(found,)).to_record())
    differ = verdict(
        1, Status.DIFFER, reason="<script>x</script>", layer="bits", heat=((0, 3), (0, 0)), where={"row": 4}
    )
    journal.verdict(differ.to_record())
    journal.verdict(verdict(2, Status.MISTRUSTED, reason="few codes").to_record())
    journal.close()
    return made


def test_the_page_is_well_formed(run: store.Run) -> None:
    """Every tag is closed, in its turn."""
    balance = Balance()
    balance.feed(page.render(run))
    assert (balance.open, balance.wrong) == ([], [])


def test_the_page_fetches_nothing(run: store.Run) -> None:
    """It can be mailed and opened without a network."""
    html = page.render(run)
    for word in ("http://", "https://", "src=", "<link", "@import", "url("):
        assert word not in html


def test_the_page_shows_each_case_failure_and_finding(run: store.Run) -> None:
    """A tile for every case; text, coordinates and map for a failure; findings with their place."""
    html = page.render(run)
    for seed in range(3):
        assert f'data-case="decode-n1-h16-d128-ctx9-tshuffled-u0-l0-fbytes-s{seed}"' in html
    assert "row <b>4</b>" in html
    assert html.count('<svg class="heat"') == 1
    assert "k/some.py:12" in html
    assert ">new<" in html
    assert "torch.version" in html


def test_texts_of_records_are_escaped(run: store.Run) -> None:
    """A reason is text, whatever it holds."""
    html = page.render(run)
    assert "<script>x" not in html
    assert "&lt;script&gt;x" in html


def test_a_run_cut_short_says_so(run: store.Run) -> None:
    """Until the manifest says complete, the page tells how much ended."""
    assert "3 of 4 cases ended" in page.render(run)
    store.finish(run, complete=True, exit_code=1)
    assert "cut short" not in page.render(run)


def test_a_run_with_nothing_in_it_is_no_pass(tmp_path: Path) -> None:
    """An empty run shows that nothing ran, and no green."""
    html = page.render(store.create(tmp_path, {}))
    assert "nothing ran" in html
    assert "No case failed" not in html


def test_a_map_is_xml_with_a_square_for_each_count() -> None:
    """The drawing has one rectangle a cell, and a title where something differs."""
    drawing = ElementTree.fromstring(heat.svg(((0, 1, 0), (0, 0, 9)), label="x"))
    squares = list(drawing.iter("rect"))
    assert len(squares) == 6
    assert [title.text for title in drawing.iter("title")] == ["1 differ", "9 differ"]


def test_a_single_differing_cell_is_not_pale() -> None:
    """One cell among a million is drawn as clearly as the palest of many."""
    assert heat.shade(0, 10**6) != heat.shade(1, 10**6)
    assert heat.shade(1, 10**6).startswith("hsl(26 92% 60%") or heat.shade(1, 10**6).startswith("hsl(27")
    assert heat.shade(1, 1) == heat.shade(10**6, 10**6)


def test_no_counts_no_map() -> None:
    """A verdict without a map gets no empty picture."""
    assert heat.svg((), label="x") == ""
