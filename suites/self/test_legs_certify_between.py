"""What samples and legs say of each other: settings that must be the same, and what repeats tell."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from harness.exits import InputError
from harness.legs import journal
from harness.legs.certify import certifying
from harness.legs.certify.certificate import Verdict
from suites.self.legs_folders import IDENTITY, answers, asks, failed, point, record, sample

HOLDS, FAILS, UNKNOWN, NOT_ASKED = Verdict.HOLDS, Verdict.FAILS, Verdict.UNKNOWN, Verdict.NOT_ASKED


# settings


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"shots": 5}, "shots 5 against 20"),
        ({"prompts": "q"}, "the prompts differ (their hashes do)"),
        ({"model_args": {"model": "n"}}, "model 'n' against 'm'"),
    ],
)
def test_what_was_asked_must_be_the_same_everywhere(
    change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    """Against the base leg and within a leg, each difference named."""
    asks(tmp_path, {"a": {}, "b": {}, "c": {}})
    sample(tmp_path, "a")
    sample(tmp_path, "b", identity={**IDENTITY, **change})
    sample(tmp_path, "c", 1)
    sample(tmp_path, "c", 2, identity={**IDENTITY, **change})
    found = point(tmp_path, "settings", "b")
    assert (found.verdict, found.said) == (FAILS, f"cannot be compared with a: {said}")
    within = point(tmp_path, "settings", "c")
    assert within.said == f"samples of the leg differ: {said}; cannot be compared with a: {said}"
    assert point(tmp_path, "settings", "a").said == "prompts and settings are the same (1 sample)"


def test_the_server_differs_between_legs_but_not_within_one(tmp_path: Path) -> None:
    """It is what is compared; a leg is one configuration. Its address is none."""
    other = {**IDENTITY, "server": {"command": ["serve", "--fp8"], "version": "1"}, "indexer": "fp8"}
    moved = {**IDENTITY, "model_args": {"model": "m", "base_url": "http://127.0.0.1:2"}}
    asks(tmp_path, {"a": {}, "b": {}, "c": {}})
    sample(tmp_path, "a", 1)
    sample(tmp_path, "a", 2, identity=moved)
    sample(tmp_path, "b", identity=other)
    sample(tmp_path, "c", 1)
    sample(tmp_path, "c", 2, identity=other)
    assert point(tmp_path, "settings", "a").verdict is HOLDS
    assert point(tmp_path, "settings", "b").said == "prompts and settings are those of a (1 sample)"
    found = point(tmp_path, "settings", "c")
    assert found.verdict is FAILS
    assert found.said.startswith("samples of the leg differ: indexer 'fp8' against 'fp4'; server {")


def test_prompts_are_compared_question_by_question(tmp_path: Path) -> None:
    """A manifest says what was planned; the records say what was sent."""
    asks(tmp_path, {"a": {}, "b": {}})
    sample(tmp_path, "a")
    sample(tmp_path, "b", records=[record(0), record(1, prompt_hash="other")])
    found = point(tmp_path, "settings", "b")
    assert found.said == (
        "cannot be compared with a: another prompt for 1 question in b sample 1 than in a sample 1; other "
        "questions in b sample 1 than in a sample 1 (0 only here, 2 only there, 2 in both)"
    )
    sample(tmp_path, "a", 2, records=[record(0, prompt_hash="other")])
    assert point(tmp_path, "settings").said.startswith(
        "samples of the leg differ: another prompt for 1 question"
    )


def test_legs_with_other_questions_are_not_compared(tmp_path: Path) -> None:
    """Questions 0 to 3 against 2 to 5; of a sample that was cut short that is told elsewhere."""
    asks(tmp_path, {"a": {}, "b": {}, "c": {}})
    sample(tmp_path, "a")
    sample(tmp_path, "b", records=[record(question) for question in range(2, 6)])
    sample(tmp_path, "c", records=[record(0)], status="crashed", expected=4)
    found = point(tmp_path, "settings", "b")
    assert (found.verdict, found.said) == (
        FAILS,
        "cannot be compared with a: other questions in b sample 1 than in a sample 1 "
        "(2 only here, 2 only there, 2 in both)",
    )
    assert point(tmp_path, "settings", "c").verdict is HOLDS


@pytest.mark.parametrize(
    ("base", "other", "verdict", "said"),
    [
        ({}, {"shots": None}, UNKNOWN, "cannot be compared with a: shots is not known"),
        ({"shots": None}, {"shots": None}, UNKNOWN, "cannot be compared with a: shots is not known"),
        ({"model_args": None}, {}, UNKNOWN, "cannot be compared with a: model is not known"),
        ({"model_args": {"base_url": "x"}}, {}, UNKNOWN, "cannot be compared with a: model is not known"),
        ({"prompts": None}, {"prompts": None}, UNKNOWN, "cannot be compared with a: prompts is not known"),
        ({"seed": 1}, {}, UNKNOWN, "cannot be compared with a: seed is not known"),
        *(
            ({name: None}, {name: None}, UNKNOWN, f"cannot be compared with a: {name} is not known")
            for name in ("stops", "fewshot_seed", "lm_eval", "task", "seed", "max_length", "filters")
        ),
        *(
            ({name: None}, {name: None}, HOLDS, "prompts and settings are those of a (1 sample)")
            for name in ("chat_template", "gen_kwargs")
        ),
        ({"limit": None}, {"limit": 50}, FAILS, "cannot be compared with a: limit 50 against None"),
        ({"limit": None}, {"limit": None}, HOLDS, "prompts and settings are those of a (1 sample)"),
        ({"limit": 50}, {}, UNKNOWN, "cannot be compared with a: limit is not known"),
        ({"model_args": "model=m,base_url=y"}, {}, HOLDS, "prompts and settings are those of a (1 sample)"),
        ({"seed": 1}, {"shots": 5}, FAILS, "cannot be compared with a: shots 5 against 20"),
    ],
)
def test_what_is_not_known_is_not_the_same(
    base: dict[str, Any], other: dict[str, Any], verdict: Verdict, said: str, tmp_path: Path
) -> None:
    """Nor is it a difference; null is a value only where it says that there is none."""
    asks(tmp_path, {"a": {}, "b": {}})
    sample(tmp_path, "a", identity={**IDENTITY, **base})
    sample(tmp_path, "b", identity={**IDENTITY, **other})
    found = point(tmp_path, "settings", "b")
    assert (found.verdict, found.said) == (verdict, said)


@pytest.mark.parametrize(
    "name", ["fewshot_seed", "lm_eval", "model_args", "prompts", "shots", "stops", "task"]
)
def test_what_nobody_wrote_down_of_either_is_not_the_same(name: str, tmp_path: Path) -> None:
    """An entry that both lack is in neither, and would be passed over."""
    asks(tmp_path, {"a": {}, "b": {}})
    for leg in "ab":
        sample(tmp_path, leg, identity={key: one for key, one in IDENTITY.items() if key != name})
    found = point(tmp_path, "settings", "b")
    assert found.verdict is UNKNOWN
    assert found.said.startswith(f"cannot be compared with a: {name.removesuffix('_args')} is not known")


@pytest.mark.parametrize(
    ("base", "other", "said"),
    [
        ("v1", "v1", ""),
        (None, None, "; whether the servers are of one version is not known"),
        ("v1", None, "; whether the servers are of one version is not known"),
        (None, "v1", "; whether the servers are of one version is not known"),
        ("v1", "v2", "; the servers' versions differ ('v2' against 'v1')"),
    ],
)
def test_versions_of_the_servers_are_told_unless_they_are_one(
    base: str | None, other: str | None, said: str, tmp_path: Path
) -> None:
    """They may be what is compared, so it is no verdict; unknown twice is not the same."""
    asks(tmp_path, {"a": {}, "b": {}, "c": {}})
    one, two = ({**IDENTITY, "server": {"command": [], "version": version}} for version in (base, other))
    sample(tmp_path, "a", identity=one)
    sample(tmp_path, "b", identity=two)
    sample(tmp_path, "c", identity={**IDENTITY, "server": None})
    found = point(tmp_path, "settings", "b")
    assert (found.verdict, found.said) == (HOLDS, f"prompts and settings are those of a (1 sample){said}")
    assert point(tmp_path, "settings", "c").said.endswith(
        "; whether the servers are of one version is not known"
    )


def test_two_samples_of_servers_without_a_version_may_be_of_two(tmp_path: Path) -> None:
    """Within a leg too, where one sample alone is held against nothing."""
    nameless = {**IDENTITY, "server": {"command": [], "version": None}}
    asks(tmp_path, {"a": {}, "b": {}})
    sample(tmp_path, "a", 1, identity=nameless)
    assert point(tmp_path, "settings").said == "prompts and settings are the same (1 sample)"
    sample(tmp_path, "a", 2, identity=nameless)
    assert point(tmp_path, "settings").said == (
        "prompts and settings are the same (2 samples); whether the servers are of one version is not known"
    )


def test_every_sample_is_held_against_every_other(tmp_path: Path) -> None:
    """The second does not say its shots, so that only the first and the third are known to differ."""
    for number, shots in enumerate((20, None, 5), 1):
        sample(tmp_path, number=number, identity={**IDENTITY, "shots": shots})
    found = point(tmp_path, "settings")
    assert (found.verdict, found.said) == (FAILS, "samples of the leg differ: shots 5 against 20")


def test_a_base_leg_of_which_nothing_is_known_is_like_none(tmp_path: Path) -> None:
    """Nor is a leg whose prompts nobody kept; by itself it lacks what any comparison would need."""
    asks(tmp_path, {"a": {}, "b": {}, "c": {}})
    sample(tmp_path, "a", identity={})
    sample(tmp_path, "b")
    sample(tmp_path, "c", records=[record(question, prompt_hash=None) for question in range(4)])
    found = point(tmp_path, "settings", "b")
    assert found.verdict is UNKNOWN
    assert found.said == (
        "cannot be compared with a: fewshot_seed, lm_eval, model, prompts, shots, stops, task are not known"
    )
    found = point(tmp_path, "settings", "c", base="b")
    assert (found.verdict, found.said) == (
        UNKNOWN, "cannot be compared with b: the prompt of 4 questions in c sample 1 is not known",
    )  # fmt: skip
    sample(tmp_path / "alone", identity={**IDENTITY, "shots": None})
    assert point(tmp_path / "alone", "settings").said == "shots of sample 1 is not known"


def test_settings_that_nobody_wrote_down_are_not_the_same(tmp_path: Path) -> None:
    """No identity, or no base leg to be held against: nobody can tell."""
    asks(tmp_path, {"a": {}, "b": {}})
    sample(tmp_path, "b")
    found = point(tmp_path, "settings", "b")
    assert (found.verdict, found.said) == (UNKNOWN, "the base leg has no sample to be compared with")
    assert point(tmp_path, "settings", "b", base="b").verdict is HOLDS
    sample(tmp_path, "a", identity={})
    found = point(tmp_path, "settings", "a")
    assert (found.verdict, found.said) == (UNKNOWN, "sample 1 does not say what it was asked")


# probe and flips


def probed(where: journal.Place, replies: list[list[str | None]]) -> None:
    (where.folder / "probe.json").write_text(json.dumps({"replies": replies}), encoding="utf-8")


@pytest.mark.parametrize(
    ("replies", "verdict", "said"),
    [
        (["abc", "def", "ghi"], FAILS,
         "3 prompts asked 3 times gave 9 different replies: comparing texts tells nothing on this server"),
        (["aaa", "bbb", "ccc"], HOLDS,
         "3 of 3 prompts always the same (9 replies): a different text is a difference"),
        (["aaa", "bbc", "ddd"], FAILS,
         "3 prompts asked 3 times gave 4 different replies, 2 of 3 always the same: "
         "a different text may be chance"),
        (["aa-", "bb-", "cc-"], HOLDS,
         "3 of 3 prompts always the same (6 replies): a different text is a difference (3 requests failed)"),
        (["aaa", "b--", "ccc"], UNKNOWN,
         "2 of 3 prompts always the same (7 replies), but only 2 of 3 have two replies in every sample: "
         "whether the others are is not known (2 requests failed)"),
        (["aaa", "b--", "ccd"], FAILS,
         "3 prompts asked 3 times gave 4 different replies, 1 of 2 always the same: "
         "a different text may be chance (2 requests failed)"),
        (["a--", "b--", "---"], UNKNOWN,
         "no prompt of the probe has two replies to compare (7 requests failed)"),
    ],
)  # fmt: skip
def test_the_probe_says_what_texts_are_worth(
    replies: list[str], verdict: Verdict, said: str, tmp_path: Path
) -> None:
    """A letter is a hash, - a request that failed: one reply alone repeats nothing."""
    where = sample(tmp_path)
    probed(where, [[None if letter == "-" else letter for letter in one] for one in replies])
    found = point(tmp_path, "probe")
    assert (found.verdict, found.said, found.binding) == (verdict, said, False)


def test_a_restart_that_changes_texts_is_seen(tmp_path: Path) -> None:
    """Alike within each sample, and not between them."""
    for number in (1, 2):
        probed(sample(tmp_path, number=number), [[f"{number}"] * 2])
    found = point(tmp_path, "probe")
    assert (found.verdict, found.figures["distinct"], found.figures["asked"]) == (FAILS, [2], 4)


def test_a_server_that_was_not_probed_is_told(tmp_path: Path) -> None:
    """Asked for and absent, or unreadable, is not the same as not asked for."""
    where = sample(tmp_path)
    assert (point(tmp_path, "probe").verdict, point(tmp_path, "probe").said) == (
        UNKNOWN, "the server was not probed",
    )  # fmt: skip
    probed(where, [])
    assert point(tmp_path, "probe").verdict is UNKNOWN
    asks(tmp_path)
    assert point(tmp_path, "probe").verdict is NOT_ASKED


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (None, "2 of 2 prompts always the same (4 replies), but only 1 of 2 samples were probed"),
        ([["a", "a"]], "2 of 2 prompts always the same (6 replies), but only 1 of 2 have two replies"),
        ([["a", "a"], ["b", None]], "2 of 2 prompts always the same (7 replies), but only 1 of 2 have two"),
    ],
)
def test_one_sample_does_not_speak_for_all(
    second: list[list[str | None]] | None, said: str, tmp_path: Path
) -> None:
    """Alike where it was looked at; the other sample's server may be another."""
    probed(sample(tmp_path, number=1), [["a", "a"], ["b", "b"]])
    where = sample(tmp_path, number=2)
    if second is not None:
        probed(where, second)
    found = point(tmp_path, "probe")
    assert (found.verdict, found.said[: len(said)]) == (UNKNOWN, said)


def test_flips_are_counted_over_all_pairs_of_samples(tmp_path: Path) -> None:
    """Three samples of four questions: pairs counted one by one; a failed request is in no pair."""
    rights = [[1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 0, 1]]
    for number, one in enumerate(rights, 1):
        sample(tmp_path, number=number, records=answers(one))
    differing = sum(x != y for one, two in combinations(rights, 2) for x, y in zip(one, two, strict=True))
    found = point(tmp_path, "flips")
    assert found.figures["strict"] == {"differing": differing, "compared": 12}
    assert found.said == (
        "answers flip between samples of the leg: strict 33.33 % (4 of 12), flexible 33.33 % (4 of 12), "
        "over 3 pairs of samples"
    )
    sample(tmp_path, "b", 1, records=answers([1, 0]))
    sample(tmp_path, "b", 2, records=[failed(0), record(1)])
    assert point(tmp_path, "flips", "b").figures["strict"] == {"differing": 1, "compared": 1}


def test_one_sample_has_no_flip_rate(tmp_path: Path) -> None:
    """Nor has a leg without an answer; it is not called a rate of 0."""
    sample(tmp_path, "a")
    sample(tmp_path, "b", records=[], status="crashed", expected=4)
    assert (point(tmp_path, "flips").verdict, point(tmp_path, "flips", "b").verdict) == (UNKNOWN, UNKNOWN)
    assert point(tmp_path, "flips").said == (
        "how many answers flip from run to run is not known: there are no two samples to compare"
    )


# reading


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "campaign.json is no JSON, allowed is the file as the harness wrote it"),
        ("[" * 100_000, "campaign.json is no JSON, allowed is the file as the harness wrote it"),
        ("[]", "campaign.json is no campaign: campaign is no table"),
        ('{"campaign": 5}', "campaign.json is no campaign: campaign is no table"),
        ('{"campaign": {}, "file": 5}', "campaign.json is no campaign: "),
        ('{"campaign": {"name": "x", "base": "a", "legs": {}}, "file": ""}', "is no campaign: legs is {}"),
    ],
)
def test_a_campaign_that_cannot_be_read_asks_nothing_silently(
    text: str, sentence: str, tmp_path: Path
) -> None:
    """Its patterns and limits would be gone."""
    sample(tmp_path)
    (tmp_path / "campaign.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=sentence):
        certifying.certify(tmp_path)
    (tmp_path / "campaign.json").unlink()
    (tmp_path / "campaign.json").mkdir()
    with pytest.raises(InputError, match=r"campaign\.json cannot be read: is a directory"):
        certifying.certify(tmp_path)
