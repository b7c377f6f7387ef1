"""The page of a campaign: whole, self-contained, escaped, and honest about what is not measured."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from harness import cli
from harness.legs import journal, pooling
from harness.legs.certify import certifying
from harness.legs.page import drawing, flips, forest, latency, page, replies, tokens
from suites.self.legs_folders import IDENTITY, answers, asks, failed, record, sample

VOID = {"meta", "br"}
NASTY = "<script>$x^2$ & é</script>"


class Balance(HTMLParser):
    """Follows open tags and ids; ``wrong`` lists tags that were closed out of turn."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.ids: list[str] = []
        self.references: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(str(value))
            self.references |= set(re.findall(r"url\(#([^)]*)\)", str(value)))
            if name == "href":
                self.references.add(str(value).removeprefix("#"))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()
        else:
            self.wrong.append(tag)


def timed(rights: list[int], hour: int, **changes: Any) -> list[dict[str, Any]]:
    rows = answers(rights, **changes)
    return [
        {**row, "latency": 1.0 + at, "time": f"2026-12-01T{hour:02}:00:{at:02}.000+00:00"}
        for at, row in enumerate(rows)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two legs measured twice, one with failed requests, one that crashed before its first answer."""
    where = tmp_path_factory.mktemp("legs") / "campaign"
    asks(where, {"base": {}, "new": {}, "bad": {}, "dead": {}})
    sample(where, "base", 1, timed([1, 1, 0, 1, 1, 1], 10))
    sample(where, "new", 1, timed([1, 0, 1, 1, 1, 1], 11))
    sample(where, "new", 2, timed([1, 0, 1, 1, 0, 1], 12))
    odd = record(1, strict="[invalid]", strict_correct=False, reply=NASTY, target="#### 9")
    sample(where, "base", 2, [*timed([1], 13), odd, *[record(at) for at in range(2, 6)]])
    sample(where, "bad", 1, [failed(0), *[record(at) for at in range(1, 6)]])
    crash = {
        "ended": "exit code -6", "digest": "feedface", "signature": ["HIP error <x>"], "lines": ["E <y>"],
        "compared": "no other sample has this crash", "time": "2026-12-01T14:00:00Z",
    }  # fmt: skip
    sample(where, "dead", 1, [], status="crashed", expected=6, crashes=[crash])
    return where


@pytest.fixture(scope="module")
def html(folder: Path) -> str:
    return made(folder)


def made(folder: Path) -> str:
    certificates = certifying.certify(folder)
    table = journal.table(folder)
    return page.render(folder, table, pooling.pool(folder, table, certificates), certificates)


def test_the_command_writes_one_whole_page_that_fetches_nothing(folder: Path, tmp_path: Path) -> None:
    """Tags are closed in turn, ids are unique, references stay in the page, nothing is loaded."""
    file = tmp_path / "page.html"
    assert cli.main(["legs", "report", str(folder), "--html", str(file)]) == 0
    html = file.read_text(encoding="utf-8")
    balance = Balance()
    balance.feed(html)
    assert (balance.open, balance.wrong) == ([], [])
    assert len(balance.ids) == len(set(balance.ids)) > 100
    assert balance.references
    assert balance.references <= set(balance.ids)
    told = html.replace("http://127.0.0.1:1", "")  # the address of the server, as text
    for word in ("http://", "https://", "src=", "<link", "<script", "@import", "url(h", "xmlns"):
        assert word not in told
    assert html.count("<svg") == html.count('role="img"') == html.count("</svg>") == 5


def test_the_same_folder_gives_the_same_bytes(folder: Path, html: str) -> None:
    """No date and no random id in the pictures."""
    assert made(folder) == html


def test_every_leg_has_its_verdict_first(html: str) -> None:
    """What may be said comes before any figure, with the reason of each leg that is not measured."""
    said = html.split("<h2>Certificates</h2>")[0]
    assert "new against base, strict:" in said
    assert "bad is not measured: sample 1 has 1 failed request" in said
    assert "dead is not measured: sample 1 is crashed" in said
    certificates = html.split("<h2>Certificates</h2>")[1].split("<h2>Accuracy</h2>")[0]
    for leg in ("base", "new", "bad", "dead"):
        assert f'<th scope="row">{leg}</th>' in certificates
    assert certificates.count(">not measured</span>") == 2


def test_crashes_and_disagreements_are_shown_and_escaped(html: str) -> None:
    """Signatures, log lines and replies are text, whatever they hold."""
    assert "signature feedface" in html
    assert "HIP error &lt;x&gt;" in html
    assert "E &lt;y&gt;" in html
    assert "base: 1 questions; 1 answers right under flexible only, 0 under strict only" in html
    assert "&lt;script&gt;$x^2$ &amp; é&lt;/script&gt;" in html
    assert NASTY not in html


def test_a_leg_of_any_name_is_drawn_as_text(tmp_path: Path) -> None:
    """Mark-up, mathematics and letters without a glyph are letters of a folder's name."""
    for leg in ("$a_b$ <i>&", "模型"):
        sample(tmp_path, "plain", 1).folder.parent.rename(tmp_path / leg)
    html = made(tmp_path)
    drawn = html.split("<h2>Accuracy</h2>")[1].split("</svg>")[0]
    assert "$a_b$ &lt;i&gt;&amp;</text>" in drawn
    assert "模型" in drawn


def test_a_campaign_without_an_answer_still_has_its_page(tmp_path: Path) -> None:
    """Nothing is drawn, the crash of the base leg is told."""
    asks(tmp_path, {"a": {}})
    sample(tmp_path, "a", 1, [], status="crashed", expected=6)
    html = made(tmp_path)
    assert "<svg" not in html
    assert "a is not measured: sample 1 is crashed" in html
    assert "No question was answered." in html
    assert "There are no two samples to compare." in html


def test_unknown_counts_and_times_are_told_as_unknown(tmp_path: Path) -> None:
    """Imported runs: no histogram and no latency, and a sentence for each."""
    sample(tmp_path, "a", 1, [record(0, prompt_tokens=None, completion_tokens=None)])
    html = made(tmp_path)
    assert "Nobody counted the tokens of a prompt" in html
    assert "No latency is known." in html
    assert "There are no two samples to compare" in html
    assert "<td>0</td><td>unknown</td><td>unknown</td><td>unknown</td><td>unknown</td>" in html
    assert 'class="word mistrusted">not certified' in html


def test_the_commits_of_the_harness_are_settings(tmp_path: Path) -> None:
    """At the top and among the settings, each commit that measured a part; where they differ, by leg."""
    sample(tmp_path, "a", 1, harness=["abc", "def with changes"])
    html = made(tmp_path)
    assert "<dt>harness.commit</dt><dd>abc, then def with changes</dd>" in html
    assert "; harness.commit abc, then def with changes;" in html.split("<section>")[0]
    sample(tmp_path, "b", 1, harness=["abc"])
    assert "<td>abc, then def with changes</td>" in made(tmp_path).split("<h3>Settings that differ</h3>")[1]


def test_settings_that_differ_are_told_by_leg(tmp_path: Path) -> None:
    """One row a leg for what differs, one line for what all share."""
    sample(tmp_path, "a", 1)
    sample(tmp_path, "b", 1, identity={**IDENTITY, "indexer": "fp8"})
    html = made(tmp_path)
    differing = html.split("<h3>Settings that differ</h3>")[1].split("</table>")[0]
    assert re.findall(r"<t[dh][^>]*>(\w+)</t[dh]>", differing) == ["leg", "indexer", "a", "fp4", "b", "fp8"]
    assert "<dt>shots</dt><dd>20</dd>" in html


@pytest.mark.parametrize(
    ("directory", "file", "said"),
    [
        ("nowhere", "f.html", "is no folder; give a campaign folder"),
        ("empty", "f.html", "holds no sample of a leg"),
        ("campaign", "no/f.html", "--html {file} lies in a directory that does not exist"),
        ("campaign", "empty", "--html {file} is a directory, a file name is wanted"),
    ],
)
def test_bad_input_is_one_sentence(
    folder: Path, directory: str, file: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, the field and what is wanted."""
    (folder.parent / "empty").mkdir(exist_ok=True)
    target = folder.parent / file
    assert cli.main(["legs", "report", str(folder.parent / directory), "--html", str(target)]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert said.format(file=target) in lines[0]


def test_flips_are_counted_by_pair_and_by_mean(folder: Path) -> None:
    """By hand: base 110111 and 111111 (strict 101111), new 101111 and 101101."""
    certificates, table = certifying.certify(folder), journal.table(folder)
    found = {
        one.leg: one for one in flips.of_legs(pooling.pool(folder, table, certificates), table, "flexible")
    }
    new = found["new"]
    assert new.gained == {2: ("1/2", "2/2", 0.5)}
    assert new.lost == {1: ("2/2", "0/2", -1.0), 4: ("2/2", "1/2", -0.5)}
    assert sorted(new.against) == pytest.approx([1 / 6, 2 / 6, 2 / 6, 3 / 6])
    assert (new.within, new.unsteady) == ((1 / 6,), (4,))
    assert found["base"].against == ()
    bad = found["bad"]
    assert (bad.measured, bad.compared, bad.changes, bad.against, bad.within) == (False, False, {}, (), ())
    assert (new.measured, new.compared) == (True, True)


def test_a_refused_leg_has_a_row_and_no_mark(folder: Path, html: str) -> None:
    """The forest's rows: base first; legs that are not measured say so in both panels, and why once above."""
    certificates, table = certifying.certify(folder), journal.table(folder)
    rows = forest.rows(pooling.pool(folder, table, certificates), table)
    assert [row.label for row in rows if row.leg] == ["base", "bad", "new", "dead"]
    assert [row.measured for row in rows if row.leg] == [True, False, True, False]
    assert [row.label for row in rows if not row.marks] == ["bad", "dead"]
    assert not any(row.marks for row in rows if not row.measured)
    picture = html.split("<h2>Accuracy</h2>")[1].split("</svg>")[0]
    assert picture.count(">not measured</text>") == 4
    assert "sample 1 is crashed" not in picture
    assert html.split("<h2>Certificates</h2>")[0].count("sample 1 has 1 failed request") == 1


def test_no_table_has_a_figure_of_a_refused_leg(tmp_path: Path) -> None:
    """Three of seven, told nowhere: neither as a share, nor as counts, nor as questions lost."""
    asks(tmp_path, {"a": {}, "bad": {}})
    for number in (1, 2):
        sample(tmp_path, "a", number, answers([1] * 8))
        sample(tmp_path, "bad", number, [failed(7), *answers([1, 1, 1, 0, 0, 0, 0])])
    html = made(tmp_path)
    figures = html.split("<h2>Accuracy</h2>")[1].split("<h2>Prompt lengths")[0]
    assert figures.count("<td>not measured</td>") == 2 + 2 + 2 * 2  # legs, comparisons, flips
    for told in ("0.4286", "57.14", "3/7", "-57", "2/2 to"):
        assert told not in html, told


def test_decode_steps_are_counted_one_by_one() -> None:
    """A reply of n tokens to p prompt tokens has steps at p, p + 1, ... p + n - 1."""
    found = tokens.steps(np.array([10.0, 3.0]), np.array([3.0, 1.0]))
    assert found.tolist() == [10, 11, 12, 3]


def test_legs_with_the_same_lengths_share_a_curve(tmp_path: Path) -> None:
    """Other lengths make another curve; answers without counts are counted."""
    sample(tmp_path, "a", 1)
    sample(tmp_path, "b", 1)
    sample(tmp_path, "c", 1, [record(0, prompt_tokens=7), record(1, prompt_tokens=None)])
    found = tokens.of_legs(journal.table(tmp_path))
    assert [(one.legs, len(one.prompts), one.unknown) for one in found] == [
        (("a", "b"), 4, 0),
        (("c",), 1, 1),
    ]


def test_latencies_stand_in_order_of_time(tmp_path: Path) -> None:
    """Within a sample and between samples; failed requests are left out."""
    rows = timed([1, 1, 1, 1], 12)
    sample(tmp_path, "a", 1, [rows[3], rows[1], rows[0], rows[2]])
    sample(tmp_path, "b", 1, [{**failed(0), "latency": 99.0}, *timed([1, 1], 9)[1:]])
    found = latency.of_samples(journal.table(tmp_path))
    assert [(one.leg, one.seconds.tolist()) for one in found] == [("b", [2.0]), ("a", [1.0, 2.0, 3.0, 4.0])]
    assert (found[1].quarter(last=False), found[1].quarter(last=True)) == (1.0, 4.0)


def test_replies_that_are_left_out_are_counted() -> None:
    """Beyond `SHOWN` questions the numbers are named, beyond `LETTERS` letters the rest is counted."""
    rows = [
        {
            "leg": "a", "sample": 1, "question": at, "strict_correct": False, "flexible_correct": True,
            "strict": "x", "flexible": "1", "reply": "y" * (replies.LETTERS + 5), "target": "1",
        }
        for at in range(replies.SHOWN + 2)
    ]  # fmt: skip
    (found,) = replies.of_legs(pd.DataFrame(rows))
    assert (found.questions, found.others) == (replies.SHOWN + 2, (replies.SHOWN, replies.SHOWN + 1))
    assert found.shown[0].replies[0]["reply"].endswith("y ... (5 letters more)")


def test_every_colour_stands_out_from_both_grounds() -> None:
    """Contrast 3 at least, as graphics need it, on the light card and on the dark one."""
    style = (Path(page.__file__).parents[2] / "report" / "style.css.j2").read_text(encoding="utf-8")
    grounds = re.findall(r"--card: (#\w{6})", style)
    assert len(grounds) == 2
    for tint in drawing.COLOURS:
        for ground in grounds:
            light, dark = sorted((luminance(tint), luminance(ground)), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 3, (tint, ground)


def luminance(colour: str) -> float:
    """Relative luminance of an sRGB colour, as WCAG defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_a_long_name_is_broken_before_it_is_cut() -> None:
    """Three lines of 30 letters; what is cut says so."""
    assert drawing.text("a" * 65) == "\n".join(["a" * 30, "a" * 30, "a" * 5])
    assert drawing.text("a" * 99).endswith("…")
    assert drawing.text("a\x01b") == "a?b"
