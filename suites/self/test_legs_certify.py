"""Each point of a certificate: its verdict just either side of what it asks, its figures and its sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.command import legs_certify
from harness.exits import InputError
from harness.legs import journal, logs
from harness.legs.certify import certifying, tables
from harness.legs.certify.certificate import Certificate, Verdict
from suites.self.legs_folders import asks, failed, point, record, sample

HOLDS, FAILS, UNKNOWN, NOT_ASKED = Verdict.HOLDS, Verdict.FAILS, Verdict.UNKNOWN, Verdict.NOT_ASKED
SHORT = "does not exercise the sparse indexer: "
NOTHING = {"strict": "[invalid]", "flexible": "[invalid]", "strict_correct": False, "flexible_correct": False}
"""What is found in a reply without an answer."""


def test_a_good_leg_has_every_point_in_one_order(tmp_path: Path) -> None:
    """Binding ones first; only the base leg tells of the campaign's control."""
    asks(tmp_path, {"a": {}, "b": {}})
    sample(tmp_path, "a")
    sample(tmp_path, "b")
    found = certifying.certify(tmp_path)
    names = ["prompts", "path", "answers", "settings", "probe", "flips"]
    assert {leg: [one.name for one in each.points] for leg, each in found.items()} == {
        "a": [*names, "control"],
        "b": names,
    }
    assert [one.binding for one in found["a"].points] == [True] * 4 + [False] * 3
    assert (found["b"].certified, found["b"].word, found["b"].reason) == (True, "certified except path", "")
    assert found["b"].to_record()["except"] == ["path"]


def test_a_point_that_fails_outranks_one_that_nobody_can_tell(tmp_path: Path) -> None:
    """Not measured with the reason of what fails; not certified where nothing fails."""
    sample(tmp_path, "a", records=[record(0, prompt_tokens=None), record(1, status="empty", reply="")])
    one = certifying.certify(tmp_path)["a"]
    assert (one.word, one.certified) == ("not measured", False)
    assert one.reason == "1 of 2 replies of sample 1 are empty (50.00 %, allowed 0.00 %)"
    only = Certificate("a", tuple(each for each in one.points if each.name != "answers"))
    assert (only.word, only.reason, [each.name for each in only.unknown]) == (
        "not certified",
        "",
        ["prompts"],
    )
    assert not only.certified
    assert only.to_record()["certified"] is False
    assert certifying.uncertified({"a": only}) == ["a"]


# prompts


@pytest.mark.parametrize(
    ("tokens", "topk", "verdict", "said"),
    [
        ([2049, 3000], 2048, HOLDS, "2 of 2 prompts are longer than 2048 tokens (min 2049, p50 2524.5"),
        ([2048, 3000], 2048, FAILS, SHORT + "1 of 2 prompts are at most 2048 tokens"),
        ([900, 2048], 2048, FAILS, SHORT + "2 of 2 prompts are at most 2048 tokens"),
        ([900, None], 2048, FAILS, SHORT + "1 of 2 prompts are at most 2048 tokens"),
        ([3000, None], 2048, UNKNOWN, "1 of 2 prompts have no token count (min 3000, p50 3000, max 3000)"),
        ([None, None], 2048, UNKNOWN, "2 of 2 prompts have no token count"),
        ([11, 12], 10, HOLDS, "2 of 2 prompts are longer than 10 tokens"),
        ([5, 6], 0, NOT_ASKED, "index_topk is 0: no sparse indexer (min 5, p50 5.5, max 6)"),
        ([], 2048, UNKNOWN, "no prompt was asked"),
    ],
)  # fmt: skip
def test_every_prompt_must_exceed_index_topk(
    tokens: list[int | None], topk: int, verdict: Verdict, said: str, tmp_path: Path
) -> None:
    """At index_topk itself every key is still selected; a prompt that nobody counted is not long enough."""
    rows = [record(question, prompt_tokens=one) for question, one in enumerate(tokens)]
    sample(tmp_path, records=rows)
    found = point(tmp_path, "prompts", index_topk=topk)
    assert (found.verdict, found.said[: len(said)]) == (verdict, said)
    known = [one for one in tokens if one is not None]
    assert (found.figures["prompts"], found.figures["counted"]) == (len(tokens), len(known))
    assert found.figures["short"] == sum(one <= topk for one in known)


def test_index_topk_is_the_legs_own_then_the_campaigns(tmp_path: Path) -> None:
    """Else 2048; the command line replaces it."""
    assert_topk = {"a": 4000, "b": 2500, "c": 2500}
    asks(tmp_path, {"a": {"index_topk": 4000}, "b": {}}, index_topk=2500)
    for leg in assert_topk:
        sample(tmp_path, leg)
    assert {leg: point(tmp_path, "prompts", leg).figures["index_topk"] for leg in assert_topk} == assert_topk
    assert point(tmp_path, "prompts", index_topk=7).figures["index_topk"] == 7
    sample(tmp_path / "imported")
    assert point(tmp_path / "imported", "prompts").figures["index_topk"] == 2048


@pytest.mark.parametrize(
    ("prompt", "made"), [(2046, 5), (2048, 5), (2049, 5), (2040, 3), (2043, 5), (2044, 5), (2048, 0)]
)
def test_decode_steps_above_index_topk_are_counted(prompt: int, made: int, tmp_path: Path) -> None:
    """Step j, from 0, has a context of prompt + j: counted one by one."""
    sample(tmp_path, records=[record(0, prompt_tokens=prompt, completion_tokens=made), record(1)])
    found = point(tmp_path, "prompts").figures
    assert found["decode_steps"] == made + 100
    assert found["decode_steps_above"] == 100 + sum(prompt + j > 2048 for j in range(made))


def test_the_share_of_decode_steps_is_told(tmp_path: Path) -> None:
    """Beside a verdict of either kind, and that it is not known where it is not."""
    sample(tmp_path, records=[record(0, prompt_tokens=2047, completion_tokens=4)])
    found = point(tmp_path, "prompts")
    assert (found.verdict, found.said.rsplit("; ", 1)[1]) == (FAILS, "50.00 % of 4 decode steps are above it")
    sample(tmp_path, "b", records=[record(0, completion_tokens=None)])
    assert point(tmp_path, "prompts", "b").said.endswith("; decode steps were not counted")


def test_counts_that_disagree_are_told_and_the_smallest_counts(tmp_path: Path) -> None:
    """The same prompt with 2049 and 2048 tokens was cut in one sample."""
    sample(tmp_path, number=1, records=[record(0, prompt_tokens=2049), record(1)])
    sample(tmp_path, number=2, records=[record(0, prompt_tokens=2048), record(1)])
    found = point(tmp_path, "prompts")
    assert (found.verdict, found.figures["min"], found.figures["disagreeing"]) == (FAILS, 2048, 1)
    assert found.said.endswith("token counts of 1 prompt disagree between samples")


def test_a_prompt_that_failed_in_one_sample_is_counted_in_another(tmp_path: Path) -> None:
    """Tokens are a prompt's, not a request's."""
    sample(tmp_path, number=1, records=[failed(0), record(1)])
    assert point(tmp_path, "prompts").verdict is UNKNOWN
    sample(tmp_path, number=2, records=[record(0), record(1)])
    assert point(tmp_path, "prompts").verdict is HOLDS


# path


def patterns(required: dict[str, int], forbidden: dict[str, int], log: bool = True) -> dict[str, Any]:
    """What a manifest says of a log with one attempt in it."""
    counted = {"required": required, "forbidden": forbidden, "log": log}
    return {"patterns": counted, "log_segments": [{"from": 0, "to": 9, "mark": None}]}


@pytest.mark.parametrize(
    ("manifest", "verdict", "said"),
    [
        (patterns({"fp4": 1}, {"fall": 0}), HOLDS,
         "1 of 1 required patterns are in the log, 0 of 1 forbidden ones are (1 sample)"),
        (patterns({"fp4": 0}, {"fall": 0}), FAILS, "required 'fp4' is not in the log of sample 1"),
        (patterns({"fp4": 2}, {"fall": 3}), FAILS, "forbidden 'fall' is in 3 lines of the log of sample 1"),
        (patterns({"fp4": 0}, {"fall": 0}, log=False), UNKNOWN,
         "the log of sample 1 cannot be read or is empty: nobody can tell the path"),
        ({**patterns({"fp4": 0}, {"fall": 0}), "log_segments": [{"from": 9, "to": 9}]}, UNKNOWN,
         "the log of sample 1 cannot be read or is empty: nobody can tell the path"),
        ({**patterns({"fp4": 1}, {"fall": 0}), "log_segments": [{"from": 9, "to": 9}, {"from": 9, "to": 12}]},
         UNKNOWN, "the log of sample 1 cannot be read or is empty: nobody can tell the path"),
        ({**patterns({"fp4": 1}, {"fall": 2}), "log_segments": [{"from": 9, "to": 9}, {"from": 9, "to": 12}]},
         FAILS, "forbidden 'fall' is in 2 lines of the log of sample 1"),
        ({**patterns({"fp4": 1}, {"fall": 0}),
          "log_segments": [{"from": 0, "to": None}, {"from": 9, "to": 12}]},
         HOLDS, "1 of 1 required patterns are in the log, 0 of 1 forbidden ones are (1 sample)"),
        ({**patterns({"fp4": 1}, {"fall": 0}),
          "log_segments": [{"from": 0, "to": 9}, {"from": 9, "to": None}]},
         UNKNOWN, "the log of sample 1 cannot be read or is empty: nobody can tell the path"),
        ({**patterns({"fp4": 1}, {"fall": 0}), "log_segments": []}, UNKNOWN,
         "the log of sample 1 cannot be read or is empty: nobody can tell the path"),
        ({"patterns": patterns({"fp4": 1}, {"fall": 0})["patterns"]}, UNKNOWN,
         "the log of sample 1 cannot be read or is empty: nobody can tell the path"),
        ({}, UNKNOWN, "the log of sample 1 cannot be read or is empty: nobody can tell the path"),
    ],
)  # fmt: skip
def test_the_log_says_which_path_ran(
    manifest: dict[str, Any], verdict: Verdict, said: str, tmp_path: Path
) -> None:
    """A forbidden line that was never looked for proves nothing."""
    asks(tmp_path, {"a": {"required": ["fp4"]}}, forbidden=["fall"])
    sample(tmp_path, **manifest)
    found = point(tmp_path, "path")
    assert (found.verdict, found.said) == (verdict, said)


def test_one_sample_on_another_path_is_enough(tmp_path: Path) -> None:
    """Every sample must have the line; the one that lacks it is named."""
    asks(tmp_path, required=["fp4"])
    sample(tmp_path, number=1, **patterns({"fp4": 5}, {}))
    sample(tmp_path, number=2, **patterns({"fp4": 0}, {}))
    found = point(tmp_path, "path")
    assert (found.verdict, found.said) == (FAILS, "required 'fp4' is not in the log of sample 2")
    assert found.figures["samples"][1] == {"required": {"fp4": 5}, "forbidden": {}}


def test_without_a_pattern_nothing_proves_the_path(tmp_path: Path) -> None:
    """It is said, and it is no fault of the leg."""
    sample(tmp_path)
    found = point(tmp_path, "path")
    said = "no line of a log is required or forbidden: nothing shows which path ran"
    assert (found.verdict, found.said) == (Verdict.NOT_SHOWN, said)
    whole = certifying.certify(tmp_path)
    assert (whole["a"].certified, whole["a"].word) == (True, "certified except path")
    assert legs_certify.said(whole, []) == "exit 0: 1 leg is certified except path"
    assert tables.limits(whole)[0] == f"a is certified except path: {said}"
    asks(tmp_path, {"a": {}, "b": {"required": ["fp4"]}})
    sample(tmp_path, "b", **patterns({"fp4": 5}, {}))
    whole = certifying.certify(tmp_path)
    assert [whole[leg].word for leg in "ab"] == ["certified except path", "certified"]
    assert legs_certify.said(whole, []) == "exit 0: all 2 legs are certified except path (a)"


def test_a_pattern_asked_later_is_counted_in_the_log_as_it_is(tmp_path: Path) -> None:
    """Patterns are part of no identity: a finished campaign can still be asked."""
    where = sample(tmp_path, **patterns({}, {}))
    log = where.folder / "server.log"
    segment = logs.segment(log)
    log.write_text("start\nuses fp4\n", encoding="utf-8")
    where.update(log_segments=[{**segment, "to": log.stat().st_size}])
    asks(tmp_path, required=["fp4"], forbidden=["fp8"])
    assert point(tmp_path, "path").verdict is HOLDS
    asks(tmp_path, required=["fp8"])
    assert point(tmp_path, "path").verdict is FAILS


@pytest.mark.parametrize("kind", ["required", "forbidden"])
def test_each_kind_that_was_not_counted_is_counted_anew(kind: str, tmp_path: Path) -> None:
    """The other kind's counts are there, and tell nothing of this one."""
    where = sample(tmp_path, **patterns({"fp4": 1}, {"fall": 0}))
    log = where.folder / "server.log"
    log.write_text("uses fp4\nslow\n", encoding="utf-8")
    where.update(log_segments=[{"from": 0, "to": log.stat().st_size, "mark": None}])
    certify: dict[str, Any] = {"required": ["fp4"], "forbidden": ["fall"], kind: ["slow"]}
    asks(tmp_path, **certify)
    found = point(tmp_path, "path")
    assert found.verdict is (HOLDS if kind == "required" else FAILS)
    assert found.figures["samples"][1][kind] == {"slow": 1}


@pytest.mark.parametrize(
    ("written", "verdict"), [(b"", UNKNOWN), (b"uses fp4\n", HOLDS), (b"uses fp4\nfalls back\n", FAILS)]
)
def test_the_log_of_a_killed_attempt_is_counted_anew(
    written: bytes, verdict: Verdict, tmp_path: Path
) -> None:
    """What it wrote after the counts were taken is in no manifest; nothing written tells nothing."""
    where = sample(tmp_path, **patterns({"fp4": 1}, {"fall": 0}))
    log = where.folder / "server.log"
    log.write_bytes(b"uses fp4\n")
    open_one = logs.segment(log)
    where.update(log_segments=[{"from": 0, "to": 9, "mark": None}, open_one])
    log.write_bytes(b"uses fp4\n" + written)
    asks(tmp_path, {"a": {"required": ["fp4"]}}, forbidden=["fall"])
    assert point(tmp_path, "path").verdict is verdict


# answers


@pytest.mark.parametrize("status", ["empty", "truncated", "stopped"])
def test_a_share_of_bad_replies_is_allowed_up_to_its_limit(status: str, tmp_path: Path) -> None:
    """One of four is 25 %: allowed at 0.25, refused at less, each under its own name."""
    rows = [record(0, status=status), *(record(question) for question in range(1, 4))]
    sample(tmp_path, records=rows)
    allowed: dict[str, Any] = {status: 0.25}
    asks(tmp_path, **allowed)
    found = point(tmp_path, "answers")
    assert (found.verdict, found.figures[status], found.figures["answered"]) == (HOLDS, 1, 3)
    assert found.said.startswith("3 of 4 answered, ")
    assert f"1 {status}" in found.said
    allowed = {"empty": 1.0, "truncated": 1.0, "stopped": 1.0, status: 0.249}
    asks(tmp_path, **allowed)
    found = point(tmp_path, "answers")
    assert found.verdict is FAILS
    assert found.said == f"1 of 4 replies of sample 1 are {status} (25.00 %, allowed 24.90 %)"


@pytest.mark.parametrize(
    ("records", "manifest", "said"),
    [
        ([record(0), failed(1)], {}, "sample 1 has 1 failed request"),
        ([record(0)], {"expected": 3}, "sample 1 has 1 of 3 questions"),
        ([record(0), record(1), record(99)], {"expected": 2}, "sample 1 has 3 of 2 questions"),
        ([record(0)], {"status": "crashed", "expected": 3}, "sample 1 is crashed (1 of 3 questions)"),
        ([], {"status": "crashed", "expected": 3}, "sample 1 is crashed (0 of 3 questions)"),
        ([record(0)], {"status": "stopped"}, "sample 1 is stopped (1 of 1 questions)"),
        ([record(0)], {"status": "running"}, "sample 1 is cut short (1 of 1 questions)"),
        ([], {}, "sample 1 has 0 of 0 questions"),
    ],
)
def test_a_sample_that_is_not_whole_is_no_measurement(
    records: list[dict[str, Any]], manifest: dict[str, Any], said: str, tmp_path: Path
) -> None:
    """A request that failed is not a wrong answer, and a crash is not a score."""
    sample(tmp_path, records=records, **manifest)
    found = point(tmp_path, "answers")
    assert (found.verdict, found.said) == (FAILS, said)
    assert not certifying.certify(tmp_path)["a"].certified


@pytest.mark.parametrize(
    ("own", "campaign", "verdict", "said"),
    [
        ({}, 6, FAILS, "sample 1 has 4 of 6 questions"),
        ({"expected": None}, 6, FAILS, "sample 1 has 4 of 6 questions"),
        ({"expected": 0}, 6, FAILS, "sample 1 has 4 of 0 questions"),
        ({}, 4, HOLDS, "4 of 4 answered, 0 empty, 0 truncated, 0 stopped, 0 failed (1 sample)"),
        ({}, None, UNKNOWN, "4 of 4 answered, 0 empty, 0 truncated, 0 stopped, 0 failed (1 sample); "
         "how many questions sample 1 was to have is not known"),
    ],
)  # fmt: skip
def test_a_journal_that_was_cut_at_a_line_is_not_whole(
    own: dict[str, Any], campaign: int | None, verdict: Verdict, said: str, tmp_path: Path
) -> None:
    """Its manifest does not say how many questions there were: the campaign does, else nobody can tell."""
    asks(tmp_path)
    where = sample(tmp_path)
    content = {name: value for name, value in where.manifest().items() if name != "expected"}
    (where.folder / journal.MANIFEST).write_text(json.dumps({**content, **own}), encoding="utf-8")
    file = tmp_path / "campaign.json"
    told = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**told, "expected": campaign}), encoding="utf-8")
    found = point(tmp_path, "answers")
    assert (found.verdict, found.said) == (verdict, said)
    assert certifying.certify(tmp_path)["a"].certified == (verdict is HOLDS)


def test_a_leg_that_no_campaign_drove_has_its_own_number_of_questions(tmp_path: Path) -> None:
    """Another run's, taken into the folder: the campaign does not say how many questions that had."""
    asks(tmp_path)
    file = tmp_path / "campaign.json"
    file.write_text(json.dumps({**json.loads(file.read_text(encoding="utf-8")), "expected": 4}), "utf-8")
    sample(tmp_path)
    sample(tmp_path, "past", expected=None)
    assert point(tmp_path, "answers", "past").verdict is UNKNOWN


@pytest.mark.parametrize("expected", ["6", True, -1, 6.0])
def test_a_campaign_of_no_number_of_questions_is_refused(expected: object, tmp_path: Path) -> None:
    """It would be that of every sample that does not say by itself."""
    asks(tmp_path)
    sample(tmp_path)
    file = tmp_path / "campaign.json"
    told = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**told, "expected": expected}), encoding="utf-8")
    with pytest.raises(InputError, match=r"campaign\.json: expected is .*, allowed is a whole number of 0"):
        certifying.certify(tmp_path)


def test_one_bad_sample_of_three_is_named(tmp_path: Path) -> None:
    """Not averaged with the good ones."""
    for number in (1, 2, 3):
        sample(tmp_path, number=number, records=[record(0), failed(1) if number == 2 else record(1)])
    assert point(tmp_path, "answers").said == "sample 2 has 1 failed request"


def test_how_a_reply_ended_must_be_known(tmp_path: Path) -> None:
    """Past lm-eval runs keep neither finish reason nor tokens; one of the two is enough."""
    sample(tmp_path, "a", records=[record(0, finish_reason=None, completion_tokens=None), record(1)])
    found = point(tmp_path, "answers")
    assert (found.verdict, found.figures["untold"]) == (UNKNOWN, 1)
    assert "how 1 of them ended is not known, so a cut one cannot be told" in found.said
    sample(tmp_path, "b", records=[record(0, finish_reason=None), record(1, completion_tokens=None)])
    assert point(tmp_path, "answers", "b").verdict is HOLDS


def test_a_reply_without_an_answer_and_without_a_finish_reason_may_be_cut(tmp_path: Path) -> None:
    """Its tokens were counted, and nothing says that they were not all that were allowed."""
    nothing = {**NOTHING, "finish_reason": None}
    sample(tmp_path, records=[record(0, **nothing), record(1)])
    found = point(tmp_path, "answers")
    assert (found.verdict, found.figures["untold"]) == (UNKNOWN, 1)


def test_a_stopped_reply_without_a_finish_reason_may_be_cut(tmp_path: Path) -> None:
    """Also where the campaign lets every reply stop before an answer."""
    nothing = {**NOTHING, "status": "stopped"}
    asks(tmp_path, stopped=1.0)
    sample(tmp_path, "a", records=[record(0, **nothing, finish_reason=None)])
    sample(tmp_path, "b", records=[record(0, **nothing)])
    assert point(tmp_path, "answers").verdict is UNKNOWN
    assert point(tmp_path, "answers", "b").verdict is HOLDS


def test_fewer_samples_than_were_asked_for_are_told(tmp_path: Path) -> None:
    """Each of them counts; nothing is told of a leg that has them all, or of past runs."""
    asks(tmp_path, {"a": {}, "b": {}}, repeats=3)
    sample(tmp_path, "a")
    for number in (1, 2, 3):
        sample(tmp_path, "b", number)
    sample(tmp_path / "past")
    found = point(tmp_path, "answers")
    assert (found.verdict, found.said.rsplit("; ", 1)[1]) == (
        HOLDS, "it has 1 of the 3 samples that are asked for",
    )  # fmt: skip
    assert "asked for" not in point(tmp_path, "answers", "b").said + point(tmp_path / "past", "answers").said


def test_one_reply_to_many_questions_is_told(tmp_path: Path) -> None:
    """It may be right, so it is no verdict; a server that answers a neighbour's question shows so."""
    same = [
        record(question, reply=text) for question, text in enumerate((" #### 18\n", "#### 18", "#### 18 "))
    ]
    sample(tmp_path, number=1)
    sample(tmp_path, number=2, records=[*same, record(3)])
    found = point(tmp_path, "answers")
    assert found.verdict is HOLDS
    assert found.said.endswith("; one reply was given to 3 different questions (sample 2)")
    sample(tmp_path, "b")
    assert "one reply" not in point(tmp_path, "answers", "b").said
