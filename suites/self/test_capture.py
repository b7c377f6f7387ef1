"""Captures are judged as cases are: green when right, red with coordinates, and the captured parts too."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from harness import cli, exits
from harness.capture import format as capture_format
from harness.capture import loading, running, writing
from harness.judge.verdict import OUT_OF_SCOPE, Grade, Status
from harness.paths.base import Outcome
from harness.paths.flydsl import FlydslPath
from harness.paths.oracle import OraclePath
from harness.record import store
from suites.self import captures, faulty
from suites.self.captures import DECODE, NATURAL, OPTIONAL, PREFILL, WIDE, Tensors


@pytest.mark.parametrize(
    ("text", "grade", "visible", "entries"),
    [(DECODE, Grade.EXACT, 299 + 300 + 64 + 65, 4), (PREFILL, Grade.ORDERED, 285 + 286 + 287 + 288 + 54, 6)],
)
def test_an_example_comes_back_and_agrees(
    text: str, grade: Grade, visible: int, entries: int, tmp_path: Path
) -> None:
    """Written, read, equal to the bit; oracle, in-tree kernels and the captured parts agree on it."""
    folder = captures.written(tmp_path / "cap", text)
    manifest, tensors = captures.made(text)
    capture = loading.load(folder)
    assert capture.manifest == manifest
    assert capture.tensors.keys() == tensors.keys() >= set(OPTIONAL)
    for name, tensor in tensors.items():
        assert torch.equal(capture.tensors[name], tensor), name
    storages = {tensor.untyped_storage().data_ptr() for tensor in capture.tensors.values()}
    assert len(storages) == len(tensors)  # each its own: nothing lies behind an operand
    found = captures.ran(folder, OraclePath(), FlydslPath())
    assert list(found) == ["captured", "oracle", "flydsl"]
    rows = len(tensors["q_codes"])
    own = visible + entries * len(tensors["schedule"]) + rows * (manifest.index_topk or 0)
    for name, verdict in found.items():
        assert verdict.status is Status.AGREE, verdict.text()
        assert (verdict.case, verdict.suite, verdict.grade) == (capture.id, "capture", grade)
        assert verdict.total == (own if name == "captured" else 3 * visible)
    assert found["flydsl"].rerun == f"python -m harness check --capture {folder} --path flydsl"


def test_a_capture_without_optional_parts(tmp_path: Path) -> None:
    """Nothing of the engine's own is there, so only the paths are judged."""
    folder = captures.written(tmp_path / "cap", PREFILL, without=OPTIONAL)
    found = captures.ran(folder, OraclePath())
    assert list(found) == ["oracle"]
    assert found["oracle"].green, found["oracle"].text()


def test_the_id_is_the_digest_of_both_files(tmp_path: Path) -> None:
    """16 hex digits; another note or another bit is another capture, a copy is the same one."""
    first, copy = (captures.written(tmp_path / name, DECODE) for name in ("a", "b"))
    ident = loading.load(first).id
    assert len(ident) == len("capture-") + 16
    for name in ("manifest.toml", "tensors.safetensors"):
        (copy / name).write_bytes((first / name).read_bytes())
    assert loading.load(copy).id == ident
    with open(copy / "manifest.toml", "a", encoding="utf-8") as stream:
        stream.write("# seen\n")
    assert loading.load(copy).id != ident

    def flip(tensors: Tensors) -> None:
        tensors["k_codes"][0, 0, 0, 0, 0] ^= 1

    assert loading.load(captures.written(tmp_path / "c", DECODE, flip)).id != ident


def test_a_flipped_bit_of_the_logits_is_red_with_coordinates(tmp_path: Path) -> None:
    """Row 1 is token 1 of sequence 0; column 257 is page 4, slot 1. The paths stay green."""

    def flip(tensors: Tensors) -> None:
        tensors["logits"].view(torch.int32)[1, 257] ^= 1

    found = captures.ran(captures.written(tmp_path / "cap", DECODE, flip), OraclePath())
    verdict, block = found["captured"], int(captures.made(DECODE)[1]["block_tables"][0, 4])
    assert (verdict.status, verdict.layer, verdict.count) == (Status.DIFFER, "bits", 1)
    wanted = {"row": 1, "column": 257, "sequence": 0, "token": 1, "page": 4, "slot": 1, "block": block}
    assert {name: verdict.where[name] for name in wanted} == wanted
    assert verdict.ulps == 1
    assert verdict.rerun.endswith("--path oracle")
    assert found["oracle"].green


def test_logits_outside_the_windows_may_hold_anything(tmp_path: Path) -> None:
    """The engine hands over a buffer it never cleared."""

    def soil(tensors: Tensors) -> None:
        tensors["logits"][0, 299:] = torch.nan
        tensors["logits"][4:] = 7.0

    found = captures.ran(captures.written(tmp_path / "cap", DECODE, soil))
    assert found["captured"].green, found["captured"].text()


def test_dots_outside_the_budget_leave_the_logits_to_the_bound(tmp_path: Path) -> None:
    """Nobody publishes how the matrix unit rounds there: one ulp is in the bound, twice is not."""
    logits = captures.made(WIDE)[1]["logits"]
    normal = logits.isfinite() & (logits.abs() > 1e-20) & (logits.abs() < 1e20)
    row, column = normal.nonzero()[0].tolist()

    def nudge(tensors: Tensors) -> None:
        tensors["logits"].view(torch.int32)[row, column] += 1

    def double(tensors: Tensors) -> None:
        tensors["logits"][row, column] *= 2

    close = captures.ran(captures.written(tmp_path / "close", WIDE, nudge))["captured"]
    assert (close.status, close.grade) == (Status.AGREE, Grade.BOUNDED), close.text()
    assert "outside the exact budget" in " ".join(close.notes)
    far = captures.ran(captures.written(tmp_path / "far", WIDE, double))["captured"]
    assert (far.status, far.layer, far.count) == (Status.DIFFER, "bound", 1)
    assert (far.where["row"], far.where["column"]) == (row, column)


WRONG_IDS = {
    "keys-selected-twice": (1, lambda ids: ids[1, 1:2].fill_(int(ids[1, 0]))),
    "keys-selected-wrongly": (0, lambda ids: ids[0, :1].fill_(299)),
    "keys-not-selected": (1, lambda ids: ids[1, :1].fill_(-1)),
}


@pytest.mark.parametrize("reason", WRONG_IDS)
@pytest.mark.parametrize("without", [(), ("logits",)], ids=["captured logits", "oracle scores"])
def test_one_wrong_id_is_red(reason: str, without: tuple[str, ...], tmp_path: Path) -> None:
    """A key twice, a key one past the window (row 0 sees 299), a key left out: row and key are named."""
    row, change = WRONG_IDS[reason]
    best = int(captures.made(DECODE)[1]["topk_ids"][row, 0])
    folder = captures.written(tmp_path / "cap", DECODE, lambda tensors: change(tensors["topk_ids"]), without)
    verdict = captures.ran(folder)["captured"]
    assert (verdict.status, verdict.reason) == (Status.DIFFER, reason), verdict.text()
    assert (verdict.where["row"], verdict.where["sequence"], verdict.where["rows"]) == (row, 0, 1)
    assert verdict.where["key"] == (299 if reason == "keys-selected-wrongly" else best)
    assert (verdict.where["page"], verdict.where["slot"]) == divmod(int(verdict.where["key"]), 64)


def test_selections_are_sets_and_padding_lies_anywhere(tmp_path: Path) -> None:
    """Order within a row is nobody's business."""

    def reverse(tensors: Tensors) -> None:
        tensors["topk_ids"] = tensors["topk_ids"].flip(1).contiguous()

    found = captures.ran(captures.written(tmp_path / "cap", DECODE, reverse))
    assert found["captured"].green, found["captured"].text()


def test_ids_are_judged_over_the_logits_they_were_made_from(tmp_path: Path) -> None:
    """Wrong logits with the selection they lead to: the logits are wrong, the selection is not."""

    def raise_one(tensors: Tensors) -> None:
        unseen = next(key for key in range(300) if key not in tensors["topk_ids"][1].tolist())
        tensors["logits"][1, unseen] = 2.0**20
        tensors["topk_ids"][1, -1] = unseen

    verdict = captures.ran(captures.written(tmp_path / "cap", DECODE, raise_one))["captured"]
    assert (verdict.layer, verdict.count, verdict.where["row"]) == ("bits", 1, 1)
    assert not [note for note in verdict.notes if note.startswith("differs too")]


@pytest.mark.parametrize(
    ("change", "reason"),
    [(faulty.chunk_lost, "chunks-not-covered"), (faulty.chunk_twice, "chunks-covered-twice")],
)
def test_a_wrong_schedule_is_the_engines_and_not_the_paths(change: Any, reason: str, tmp_path: Path) -> None:
    """A hole or an overlap is red; the paths get the oracle's schedule instead and stay green."""

    def spoil(tensors: Tensors) -> None:
        long = torch.tensor([[0, 0, 2, 300], [1, 0, 1, 300], [1, 1, 1, 300], [0, 0, 1, 0]], dtype=torch.int32)
        short = torch.tensor([[2, 0, 1, 65], [3, 0, 1, 65]], dtype=torch.int32)
        tensors["schedule"] = change(torch.cat([long, short]))

    found = captures.ran(captures.written(tmp_path / "cap", DECODE, spoil), OraclePath())
    verdict = found["captured"]
    assert (verdict.status, verdict.reason) == (Status.DIFFER, reason), verdict.text()
    assert {"row", "sequence", "chunk"} <= set(verdict.where)
    assert found["oracle"].green
    assert any("oracle's was given" in note for note in found["oracle"].notes)


def test_a_schedule_that_contradicts_the_lengths_is_red(tmp_path: Path) -> None:
    """An entry that was not republished after the lengths advanced."""

    def stale(tensors: Tensors) -> None:
        tensors["schedule"][0, 3] -= 1

    verdict = captures.ran(captures.written(tmp_path / "cap", DECODE, stale))["captured"]
    assert (verdict.status, verdict.reason) == (Status.DIFFER, "entries-contradict-their-row")
    assert verdict.where["entry"] == 0


def test_table_entries_not_in_use_may_hold_anything(tmp_path: Path) -> None:
    """Engines pad with -1 or leave old pages; hints about a wrong value do not stumble over them."""

    def pad(tensors: Tensors) -> None:
        tensors["block_tables"][1, 2:] = -1
        tensors["block_tables"][2] = 1 << 30
        tensors["weights"][4:] = torch.nan
        tensors["logits"].view(torch.int32)[1, 257] ^= 1

    found = captures.ran(captures.written(tmp_path / "cap", DECODE, pad), OraclePath(), FlydslPath())
    assert found["oracle"].green and found["flydsl"].green, found["flydsl"].text()
    assert not [note for note in found["captured"].notes if "no hint" in note]


FAULTS = [
    (text, name)
    for text in (NATURAL, PREFILL)
    for name, (_, suites) in faulty.FAULTS.items()
    if text.split("-", 1)[0] in suites and (text is NATURAL or name != "k-tile-order")
]


@pytest.mark.parametrize(("text", "fault"), FAULTS)
def test_every_scoring_fault_turns_a_capture_red(text: str, fault: str, tmp_path: Path) -> None:
    """The faults of the catalogue, each in a path that is right but for it."""
    verdict = captures.ran(
        captures.written(tmp_path / "cap", text, without=OPTIONAL), faulty.FAULTS[fault][0]
    )
    assert verdict["faulty"].status is Status.DIFFER, verdict["faulty"].text()


class Spilling(OraclePath):
    """Stores one cell past the last window of a given schedule."""

    def run(self, request: Any) -> Outcome:
        outcome = super().run(request)
        if request.schedule is not None:
            outcome.value[3, 65] = 0.0
        return outcome


def test_a_store_outside_the_windows_is_seen(tmp_path: Path) -> None:
    """The buffer of the given schedule is poison outside."""
    verdict = captures.ran(captures.written(tmp_path / "cap", DECODE), Spilling())["oracle"]
    assert (verdict.layer, verdict.where["row"], verdict.where["column"]) == ("mask", 3, 65)


def test_what_was_captured_does_not_vouch_for_a_path() -> None:
    """A path that was never asked leaves the capture unproven though the captured logits agree."""
    agrees = {"suite": "capture", "path": "captured", "status": "agree"}
    refuses = {"suite": "capture", "path": "atom", "status": "unsupported", "facts": {OUT_OF_SCOPE: True}}
    path = {"suite": "capture", "path": "oracle", "status": "agree"}
    assert running.exit_code([agrees, refuses]) == exits.UNPROVEN
    assert running.exit_code([agrees, path]) == exits.AGREE
    assert running.exit_code([{**agrees, "status": "differ"}, path]) == exits.DIFFER
    assert running.exit_code([agrees, {**path, "status": "error"}]) == exits.ERROR
    assert running.exit_code([path]) == exits.AGREE
    assert running.exit_code([agrees]) == exits.UNPROVEN


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """capture-spec writes, check prints and verify records; a red capture exits 1 in both."""
    folder = tmp_path / "cap"
    assert cli.main(["capture-spec", "--example", str(folder), DECODE]) == exits.AGREE
    assert cli.main(["check", "--capture", str(folder), "--path", "oracle"]) == exits.AGREE
    said = capsys.readouterr().out
    assert said.count("PASSED  capture-") == 2
    results, listed = tmp_path / "results", tmp_path / "v.json"
    line = ["verify", "--path", "oracle", "--results", str(results), "--json", str(listed), "--capture"]
    assert cli.main([*line, str(folder)]) == exits.AGREE
    run = store.find(results, "last")
    assert [record["path"] for record in store.load(run).records] == ["captured", "oracle"]
    assert run.manifest()["complete"] and run.manifest()["exit_code"] == exits.AGREE
    document = json.loads(listed.read_text(encoding="utf-8"))
    assert document["provenance"]["arguments"]["versions"] == {"engine": "none, an example"}

    def flip(tensors: Tensors) -> None:
        tensors["logits"].view(torch.int32)[0, 0] ^= 1

    red = captures.written(tmp_path / "red", DECODE, flip)
    capsys.readouterr()
    assert cli.main([*line, str(red)]) == exits.DIFFER
    assert "bits-differ" in capsys.readouterr().out
    assert cli.main(["check", "--capture", str(red), "--path", "oracle"]) == exits.DIFFER


def test_the_printed_format_names_every_field_and_tensor(capsys: pytest.CaptureFixture[str]) -> None:
    """The text is made of the loader's own tables."""
    assert cli.main(["capture-spec"]) == exits.AGREE
    said = capsys.readouterr().out
    for name in (*capture_format.FIELDS, *capture_format.PARTS):
        assert f"  {name} " in said


def test_a_manifest_reads_back_as_it_was_written() -> None:
    """Quotes, line ends and other alphabets in notes; a scale that decimal text would round."""
    manifest = replace(captures.made(DECODE)[0], note='say "é\\n\n\t\x7f🙂"', weight_scale=0.1 + 2.0**-56)
    manifest = replace(manifest, versions={"chip id": "gfx950", "a.b": 'x"y'})
    assert capture_format.read_manifest(writing.manifest_text(manifest)) == manifest
