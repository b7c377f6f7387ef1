"""Past lm-eval runs become legs, once each, with nothing filled in; legs that differ are not compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness import cli, exits
from harness.exits import InputError
from harness.legs import comparable, credentials, importing, journal, kept_prompts
from harness.legs.certify.certificate import Verdict
from suites.self.legs_folders import point


def sample(question: int, which: str, reply: str, extracted: str, right: bool, shots: str = "") -> str:
    """One line as lm-eval 0.4 writes it."""
    content = {
        "doc_id": question,
        "target": "#### 18",
        "arguments": {
            "gen_args_0": {"arg_0": f"{shots}Question: {question}\nAnswer:", "arg_1": {"until": []}}
        },
        "resps": [[reply]],
        "filtered_resps": [extracted],
        "filter": which,
        "exact_match": 1.0 if right else 0.0,
    }
    return json.dumps(content) + "\n"


def run(folder: Path, rights: list[tuple[bool, bool]], *, shots: int = 20, salt: str = "") -> Path:
    """A folder of lm-eval results: (strict, flexible) right for each question."""
    folder.mkdir(parents=True)
    lines = [
        sample(question, which, f"It is 18{salt}", "18" if right else "[invalid]", right, "x" * shots)
        for question, both in enumerate(rights)
        for which, right in zip(("strict-match", "flexible-extract"), both, strict=True)
    ]
    (folder / "samples_gsm8k_2026-08-20.jsonl").write_text("".join(lines), encoding="utf-8")
    results: dict[str, Any] = {
        "results": {},
        "n-shot": {"gsm8k": shots},
        "n-samples": {"gsm8k": {"original": 1319, "effective": len(rights)}},
        "config": {
            "model": "local-completions",
            "model_args": {"base_url": folder.name},
            "fewshot_seed": 1234,
        },
        "configs": {"gsm8k": {"generation_kwargs": {"until": ["Question:"]}}},
        "lm_eval_version": "0.4.13",
        "date": 1796136024.4,
    }
    (folder / "results_2026-08-20.json").write_text(json.dumps(results), encoding="utf-8")
    return folder


BOTH_OF_0 = "".join(sample(0, which, "x", "18", True) for which in ("strict-match", "flexible-extract"))
BOTH = [(True, True), (False, True), (False, False), (True, True)]


def test_both_filters_of_a_question_are_one_answer(tmp_path: Path) -> None:
    """What lm-eval kept is there; what it did not keep is unknown, not invented."""
    where = importing.import_run(run(tmp_path / "out", BOTH), "fp8", tmp_path / "camp")
    records, torn = journal.read(where.samples)
    assert (len(records), torn) == (4, 0)
    assert [(one["strict_correct"], one["flexible_correct"]) for one in records] == BOTH
    first = records[0]
    assert (first["reply"], first["strict"], first["status"], first["prompt_chars"]) == (
        "It is 18", "18", "answered", 39,
    )  # fmt: skip
    assert {first[key] for key in ("finish_reason", "prompt_tokens", "latency", "http_status")} == {None}
    manifest = where.manifest()
    assert (manifest["status"], manifest["expected"]) == ("finished", 4)
    assert manifest["started"].startswith("2026-12-01T")
    assert manifest["identity"]["shots"] == 20
    assert manifest["identity"]["stops"] == ["Question:"]


@pytest.mark.parametrize("reply", ["", " \n"])
def test_an_empty_reply_is_not_an_answer(reply: str, tmp_path: Path) -> None:
    """lm-eval scores a request that failed and an empty reply alike; both are told apart from answers."""
    folder = run(tmp_path / "out", [(False, False)])
    lines = [sample(0, which, reply, "[invalid]", False) for which in ("strict-match", "flexible-extract")]
    (folder / "samples_gsm8k_2026-08-20.jsonl").write_text("".join(lines), encoding="utf-8")
    records, _ = journal.read(importing.import_run(folder, "a", tmp_path / "camp").samples)
    assert [one["status"] for one in records] == ["empty"]


def test_one_run_is_one_sample(tmp_path: Path) -> None:
    """Imported twice, also under another name, it would count twice."""
    out, camp = run(tmp_path / "out", BOTH), tmp_path / "camp"
    importing.import_run(out, "fp8", camp)
    for leg in ("fp8", "fp4"):
        with pytest.raises(InputError, match="is sample 1 of leg fp8 already; it would count twice"):
            importing.import_run(out, leg, camp)
    second = importing.import_run(run(tmp_path / "again", BOTH, salt="!"), "fp8", camp)
    assert (second.sample, len(journal.table(camp))) == (2, 8)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{}\n", "line 1 is no lm-eval sample"),
        (sample(0, "strict-match", "x", "18", True), "question 0 under one filter only"),
        ("not json\n", "line 1 is no lm-eval sample"),
        (sample(0, "strict-match", "x", "", False).replace('[["x"]]', "[[null]]"), "question 0 has no reply"),
        ("", "holds no answer under strict-match or flexible-extract"),
        (BOTH_OF_0 + sample(0, "strict-match", "x", "18", True, "other"),
         "question 0 comes twice, with another prompt"),
        (BOTH_OF_0 + sample(0, "strict-match", "y", "18", True), "comes twice, with another reply"),
        (BOTH_OF_0 + sample(0, "strict-match", "x", "18", True), "question 0 comes twice under strict"),
        (BOTH_OF_0.replace('[["x"]]', '[["x", "y"]]'), "question 0 has 2 replies, allowed is one"),
        (BOTH_OF_0.replace('"doc_id": 0', '"doc_id": 0.5'), "doc_id is 0.5, allowed is a whole number"),
        (BOTH_OF_0.replace('"doc_id": 0', f'"doc_id": {10**16}'),
         "doc_id is 10000000000000000, allowed is a whole number of 0 to 1000000000000000"),
        (BOTH_OF_0.replace('"doc_id": 0', f'"doc_id": {"1" * 5000}'), "line 1 is no lm-eval sample"),
        (BOTH_OF_0.replace("#### 18", "#### 18\\ud800"), "target has half of a surrogate pair"),
        (BOTH_OF_0 + sample(0, "strict-match", "x", "18", True).replace("#### 18", "#### 19"),
         "question 0 comes twice, with another target"),
        (BOTH_OF_0.replace('["18"]', '["17"]'),
         "question 0: strict_correct is True, allowed is false: strict is '17' and target is '#### 18'"),
        (BOTH_OF_0.replace("1.0}", "0.5}"), "question 0 has exact_match 0.5, allowed are 0 and 1"),
        (BOTH_OF_0.replace('[["x"]]', '[["\\ud83d"]]'), "resps has half of a surrogate pair"),
        (BOTH_OF_0.replace('"filter": "strict-match"', '"filter": []'), "filter is"),
        ("[" * 100_000, "line 1 is no lm-eval sample: RecursionError"),
        (sample(0, "other", "x", "18", True), "holds no answer under strict-match or flexible-extract"),
    ],
)  # fmt: skip
def test_a_file_that_is_not_lm_evals_leaves_nothing(text: str, sentence: str, tmp_path: Path) -> None:
    """One sentence, and the campaign folder is as it was."""
    folder = run(tmp_path / "out", [])
    (folder / "samples_gsm8k_2026-08-20.jsonl").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=sentence):
        importing.import_run(folder, "a", tmp_path / "camp")
    assert not list((tmp_path / "camp").rglob("*"))


def test_a_torn_line_is_no_answer(tmp_path: Path) -> None:
    """What a kill left behind is skipped, and what is written next does not join it."""
    where = importing.import_run(run(tmp_path / "out", BOTH), "a", tmp_path / "camp")
    records, _ = journal.read(where.samples)
    with open(where.samples, "ab") as stream:
        stream.write(b'{"question": 4, "rep')
    with journal.Writer(where) as writer:
        writer.add({**records[0], "question": 5})
    again, torn = journal.read(where.samples)
    assert ([one["question"] for one in again], torn) == ([0, 1, 2, 3, 5], 1)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"status": "splendid"}, "status is 'splendid', allowed are answered"),
        ({"more": 1}, "has or lacks more"),
        ({"status": "failed"}, "is failed and judged True"),
        ({"strict_correct": None}, "is answered and judged False"),
    ],
)
def test_a_record_outside_the_closed_lists_is_refused(
    change: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    """A failed request is never judged, and an answer always is."""
    where = importing.import_run(run(tmp_path / "out", BOTH), "a", tmp_path / "camp")
    records, _ = journal.read(where.samples)
    with journal.Writer(where) as writer, pytest.raises(ValueError, match=sentence):
        writer.add({**records[0], **change})


def test_legs_that_differ_in_a_setting_are_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Shots and prompts are named; the server may differ, that is what is compared."""
    camp = tmp_path / "camp"
    importing.import_run(run(tmp_path / "a", BOTH), "fp8", camp)
    importing.import_run(run(tmp_path / "b", BOTH, salt="!"), "fp4", camp)
    importing.import_run(run(tmp_path / "c", BOTH, shots=5), "short", camp)
    of = {leg: [one for one in journal.places(camp) if one.leg == leg] for leg in ("fp8", "fp4", "short")}
    assert comparable.differences(of["fp8"], of["fp4"])[0] == []
    assert comparable.differences(of["fp8"], of["short"])[0] == [
        "the prompts differ (their hashes do)", "shots 5 against 20",
    ]  # fmt: skip
    line = ["legs", "pool", str(camp), "--base", "fp8", "--json", str(tmp_path / "pooled.json")]
    assert cli.main([*line, "--write", str(tmp_path / "written")]) == exits.UNPROVEN
    said = capsys.readouterr().out
    assert "short is not measured: cannot be compared with fp8: the prompts differ" in said
    assert "fp4 against fp8, strict: no question of 4 was answered differently" in said
    found = json.loads((tmp_path / "pooled.json").read_text(encoding="utf-8"))
    words = {one["other"]: one["verdict"] for one in found["comparisons"]}
    assert words == {"fp4": "not seen", "short": "not measured"}
    assert (tmp_path / "written" / "pooled.md").is_file()


def test_commands_refuse_bad_input_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 2 and one line each; a run that is taken in says what came of it."""
    monkeypatch.chdir(tmp_path)
    run(tmp_path / "out", BOTH)
    assert cli.main(["legs", "import", "out", "--leg", "fp8", "--into", "camp"]) == exits.AGREE
    assert "sample 1 of leg fp8: strict 2/4, flexible 3/4" in capsys.readouterr().out
    for line, sentence in {
        "legs pool camp --base fp4": "--base is 'fp4', allowed are fp8",
        "legs pool camp --margin 0": "--margin is 0.0, allowed are points above 0 and below 100",
        "legs pool camp --margin nan": "--margin is nan",
        "legs pool absent": "absent is no folder",
        "legs pool camp --write out/results_2026-08-20.json": "--write out/results_2026-08-20.json is not a",
        "legs pool out": "out holds no sample of a leg",
        "legs import absent --leg a --into camp": "absent does not exist",
        "legs import camp --leg a --into camp": "holds no samples_gsm8k_*.jsonl",
        "legs import out --leg ../a --into camp": "leg is '../a', allowed is a name",
    }.items():
        assert cli.main(line.split()) == exits.USAGE
        said = capsys.readouterr().err
        assert sentence in said
        assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"config": []}', "the results have config that is no table"),
        ('{"configs": {"gsm8k": 5}}', "the results have gsm8k that is no table"),
        ('{"n-shot": [20]}', "the results have n-shot that is no table"),
        (
            '{"n-samples": {"gsm8k": {"effective": "4"}}}',
            "has 4 questions, and the results beside it say '4'",
        ),
        (
            f'{{"n-samples": {{"gsm8k": {{"effective": {10**16}}}}}}}',
            "has 4 questions, and the results beside it say 10000000000000000",
        ),
        ('{"config": {"model": "\\ud800"}}', "results_2026-08-20.json has half of a surrogate pair"),
        ('{"configs": {"gsm8k": {"generation_kwargs": {"until": ["\\ud800"]}}}}', "half of a surrogate pair"),
        ('{"n-samples": {"gsm8k": {"effective": 3}}}', "has 4 questions, and the results beside it say 3"),
        ("[" * 100_000, "is no JSON"),
        ("", "is no JSON"),
    ],
)
def test_results_of_wrong_types_are_refused(text: str, sentence: str, tmp_path: Path) -> None:
    """Settings that cannot be read must not count as settings that nobody wrote down."""
    folder = run(tmp_path / "out", BOTH)
    (folder / "results_2026-08-20.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as refused:
        importing.import_run(folder, "a", tmp_path / "camp")
    assert sentence in str(refused.value)
    assert journal.places(tmp_path / "camp") == []


@pytest.mark.parametrize("leg", ["a" * 101, "a\nb", "../a", "a/b", "", "a b", ".a", "campaign.json", "a\0b"])
def test_a_leg_has_the_name_of_one_folder(leg: str, tmp_path: Path) -> None:
    """What a table would tear, or what would lie elsewhere, is refused before anything is written."""
    with pytest.raises(InputError, match="allowed is a name of letters, digits"):
        importing.import_run(run(tmp_path / "out", BOTH), leg, tmp_path / "camp")
    assert not (tmp_path / "camp").exists()


def test_what_lies_where_a_folder_should_is_told(tmp_path: Path) -> None:
    """A file as target, a file with the leg's name, a folder with a samples file's name, another task's."""
    out, file = run(tmp_path / "out", BOTH), tmp_path / "file"
    file.write_text("", encoding="utf-8")
    with pytest.raises(InputError, match=r"--into .*file is not a directory"):
        importing.import_run(out, "a", file)
    (tmp_path / "camp").mkdir()
    (tmp_path / "camp" / "a").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match=r"leg is 'a', allowed is a name that no file in .*camp has"):
        importing.import_run(out, "a", tmp_path / "camp")
    with pytest.raises(InputError, match=r"--task is '\*', allowed is the name of an lm-eval task"):
        importing.import_run(out, "b", tmp_path / "camp", "*")
    samples = out / "samples_gsm8k_2026-08-20.jsonl"
    samples.rename(out / "samples_gsm8k_cot_2026-08-20.jsonl")
    samples.mkdir()
    with pytest.raises(InputError, match=r"holds no samples_gsm8k_\*"):
        importing.import_run(out, "b", tmp_path / "camp")
    with pytest.raises(InputError, match="is no file or folder"):
        importing.import_run(Path("/dev/null"), "b", tmp_path / "camp")


def test_the_newest_run_is_the_one_with_the_latest_date(tmp_path: Path) -> None:
    """Not the one whose folder comes last."""
    run(tmp_path / "out" / "z", BOTH)
    newer = run(tmp_path / "out" / "a", BOTH, salt="!") / "samples_gsm8k_2026-08-20.jsonl"
    newer.rename(newer.with_name("samples_gsm8k_2026-08-21.jsonl"))
    where = importing.import_run(tmp_path / "out", "a", tmp_path / "camp")
    assert where.manifest()["imported"] == "samples_gsm8k_2026-08-21.jsonl"


def test_another_tasks_file_is_not_taken(tmp_path: Path) -> None:
    """A task's name may begin another's, with a number too; also a file that is named itself has one."""
    newer = run(tmp_path / "out", BOTH, salt="!") / "samples_gsm8k_2026-08-20.jsonl"
    eight = newer.rename(newer.with_name("samples_gsm8k_8shot_2026-08-20.jsonl"))
    with pytest.raises(InputError, match=r"out holds no samples_gsm8k_\*\.jsonl"):
        importing.import_run(tmp_path / "out", "a", tmp_path / "camp")
    with pytest.raises(InputError, match=r"--task is 'gsm8k', allowed is gsm8k_8shot, the task of .*jsonl"):
        importing.import_run(eight, "a", tmp_path / "camp")
    where = importing.import_run(tmp_path / "out", "a", tmp_path / "camp", "gsm8k_8shot")
    assert where.manifest()["imported"] == eight.name
    assert importing.import_run(eight.rename(tmp_path / "mine.jsonl"), "a", tmp_path / "new").sample == 1


def test_blank_lines_are_no_samples(tmp_path: Path) -> None:
    """Nor do they change the number of the line that is told."""
    folder = run(tmp_path / "out", BOTH)
    file = folder / "samples_gsm8k_2026-08-20.jsonl"
    text = file.read_text(encoding="utf-8")
    file.write_text(f"\n{text} \n\n", encoding="utf-8")
    assert len(journal.read(importing.import_run(folder, "a", tmp_path / "camp").samples)[0]) == 4
    file.write_text(f"\n{text}5\n", encoding="utf-8")
    with pytest.raises(InputError, match="line 10 is no lm-eval sample"):
        importing.import_run(folder, "a", tmp_path / "camp")


def test_questions_that_lm_eval_lost_are_missing(tmp_path: Path) -> None:
    """It was to ask 5 and kept 4: the sample is not whole."""
    folder = run(tmp_path / "out", BOTH)
    results = json.loads((folder / "results_2026-08-20.json").read_text(encoding="utf-8"))
    results["n-samples"]["gsm8k"]["effective"] = 5
    (folder / "results_2026-08-20.json").write_text(json.dumps(results), encoding="utf-8")
    importing.import_run(folder, "a", tmp_path / "camp")
    found = point(tmp_path / "camp", "answers")
    assert (found.verdict, found.said.split(";")[0]) == (Verdict.FAILS, "sample 1 has 4 of 5 questions")


def test_an_import_that_fails_leaves_the_folder_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever stops it: no part of a sample stays, and the next import is the first."""
    folder = run(tmp_path / "out", BOTH)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(kept_prompts, "write", full)
        importing.import_run(folder, "a", tmp_path / "camp")
    assert [one for one in (tmp_path / "camp").rglob("*") if one.is_file()] == []
    assert importing.import_run(folder, "a", tmp_path / "camp").sample == 1


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("model=m,api-key=WORD,token=WORD", "model=m,api-key=***,token=***"),
        ("hf_token=WORD x,AUTH_HEADER=WORD,a=1", "hf_token=***,AUTH_HEADER=***,a=1"),
        ("base_url=http://h/v1?access_key=WORD,model=m", "base_url=http://h/v1?access_key=***,model=m"),
        ("my-secret-word=WORD,db.password=WORD", "my-secret-word=***,db.password=***"),
        ({"api-key": "WORD", "in": [{"Proxy-Authorization": "WORD"}]},
         {"api-key": "***", "in": [{"Proxy-Authorization": "***"}]}),
        ("max_tokens=512,tokenizer=t,tokenized_requests=False",
         "max_tokens=512,tokenizer=t,tokenized_requests=False"),
        ({"max_tokens": 512, "token": None}, {"max_tokens": 512, "token": None}),
    ],
)  # fmt: skip
def test_what_nobody_else_should_read_is_hidden(given: Any, kept: Any) -> None:
    """By its name, however it is spelled; a number of tokens is none, since two hidden ones look alike."""
    assert credentials.hidden(given) == kept


def test_logins_of_past_runs_are_not_taken_over(tmp_path: Path) -> None:
    """lm-eval writes its arguments down as they were given, in a text or a table."""
    for number, given in enumerate((
        "api-key=word,model=m,base_url=http://me:word@h/v1/completions,header=word",
        {"model": "m", "base_url": "http://me:word@h/v1", "header": {"Authorization": "word"}},
    )):  # fmt: skip
        folder = run(tmp_path / str(number), BOTH, salt=str(number))
        results = json.loads((folder / "results_2026-08-20.json").read_text(encoding="utf-8"))
        results["config"]["model_args"] = given
        (folder / "results_2026-08-20.json").write_text(json.dumps(results), encoding="utf-8")
        where = importing.import_run(folder, "a", tmp_path / "camp")
        text = (where.folder / "manifest.json").read_text(encoding="utf-8")
        assert ("word" in text, "***@h/v1" in text) == (False, True)


def test_another_model_is_another_setting(tmp_path: Path) -> None:
    """Its name is compared, the rest of what lm-eval was given for it is the server's address."""
    places = [importing.import_run(run(tmp_path / leg, BOTH, salt=leg), leg, tmp_path / "c") for leg in "ab"]
    assert "model" in comparable.differences(places[:1], places[1:])[1]  # nobody wrote it down
    for where, name in zip(places, "mn", strict=True):
        where.update(identity={**where.manifest()["identity"], "model_args": {"model": name}})
    assert comparable.differences(places[:1], places[1:])[0] == ["model 'n' against 'm'"]


def test_results_that_are_no_table_are_refused(tmp_path: Path) -> None:
    """One sentence, nothing stored."""
    folder = run(tmp_path / "out", BOTH)
    (folder / "results_2026-08-20.json").write_text("null", encoding="utf-8")
    with pytest.raises(InputError, match="holds no table"):
        importing.import_run(folder, "a", tmp_path / "camp")
    assert journal.places(tmp_path / "camp") == []
