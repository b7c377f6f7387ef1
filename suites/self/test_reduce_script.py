"""The command from id to script: the script alone catches a tree with a fault, and clears one without."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from harness import runner
from harness.case.cases import parse
from harness.judge.ledger import Ledger
from harness.judge.verdict import Status
from harness.paths import base, registry
from harness.paths.oracle import OraclePath
from harness.paths.requests.writing import Quantise
from harness.reduce import blaming, script
from harness.reduce.recording import NoScript, Recording, Store
from oracles.formats import PRODUCTION
from suites.self import faulty
from suites.self.planted import ROOT

HOST = "aiter/ops/flydsl/kernels/mqa_logits/pa_mqa_logits_fp4.py"
SOURCE = """
import torch

from oracles import score, windows


def flydsl_pa_mqa_logits_fp4(
    q_fp4, q_scale, kv_cache, kv_scale, block_tables, weights, context_lens, next_n, parallel_unit_num,
    max_seq_len, weight_scale, block_k, out, stream, cta_info=None, total_ctas=None,
):
    rows = windows.decode_windows(context_lens, next_n)
    weights = weights.clone()
    weights[:, 16:32] *= FACTOR
    made = score.score_windows(
        q_fp4.flatten(0, 1), q_scale.flatten(0, 1), kv_cache, kv_scale, block_tables, weights, weight_scale,
        rows, max_seq_len, how="decode",
    ).value
    if out is None:
        out = torch.empty_like(made)
    if cta_info is None:
        out.fill_(-torch.inf)
    visible = windows.visible(rows, max_seq_len)
    out[visible] = made[visible]
    return out
"""
"""A decode scorer in torch; with factor 0 it drops the second tile of heads."""


def tree(root: Path, factor: int) -> Path:
    file = root / HOST
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(SOURCE.replace("FACTOR", str(factor)))
    return root


def run(*arguments: object, folder: Path | None = None, **environment: str) -> tuple[int, str]:
    """Exit code and output of ``python ARGUMENTS``."""
    paths = os.pathsep.join([*([str(folder)] if folder else []), str(ROOT)])
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_wrong_tree_reduces_and_its_script_tells_it_from_a_right_one(tmp_path: Path) -> None:
    """Smallest case, figures, script and capture; a right tree passes the script."""
    wrong, right = tree(tmp_path / "wrong", 0), tree(tmp_path / "right", 1)
    case = "decode-n2-h64-d128-ctx70,9-tstrided-u8-l300-fbytes-s9"
    asked = ("--path", "aiter", "--aiter", wrong, "--dir", tmp_path / "out")
    code, said = run("-m", "harness", "reduce", case, *asked)
    assert code == 0, said
    assert "smallest  decode-n1-h32-d128-ctx1-tshuffled-u0-l0-fbytes-s1" in said
    assert "sequences 2 to 1, rows 4 to 1, keys 79 to 1, cells 1200 to 256" in said
    (repro,) = (tmp_path / "out").rglob("repro.py")
    assert f"script    python {repro} --aiter {wrong}" in said
    text = repro.read_text()
    assert "harness.checks" not in text and "suites" not in text and str(tmp_path) not in text

    code, said = run(repro, "--aiter", wrong)
    assert code == 1 and "DIFFERS: want[0, 0], 1 of 256 elements differ" in said, said
    code, said = run(repro, "--aiter", right)
    assert code == 0 and "agrees: 256 elements" in said, said
    code, said = run("-m", "harness", "check", "--capture", repro.parent / "capture", "--path", "oracle")
    assert code == 1 and "PASSED" in said and "captured" in said, said


RULE = """
import dataclasses
from harness.paths.oracle import path

path.formats.PRODUCTION = dataclasses.replace(path.formats.PRODUCTION, ties="away")
"""


def test_a_script_of_another_path_asks_the_path_and_no_suite(tmp_path: Path) -> None:
    """The same script differs where the path has the fault and agrees where it has not."""
    path = faulty.FaultyPath(rule=replace(PRODUCTION, ties="away"))
    case = parse("quantise-r2-d128-fboundary-s1")
    verdict, without = script.write(tmp_path, case, path, registry.Choice("oracle"), Ledger())
    assert verdict.status is Status.DIFFER and without == ""
    assert not (tmp_path / "capture").exists()
    code, said = run(tmp_path / "repro.py")
    assert code == 0 and "agrees: 136 elements" in said, said
    (tmp_path / "overlay").mkdir()
    (tmp_path / "overlay" / "sitecustomize.py").write_text(RULE)
    code, said = run(tmp_path / "repro.py", folder=tmp_path / "overlay")
    assert code == 1 and "DIFFERS: want[" in said, said


class Broken(OraclePath):
    """Raises where it should quantise."""

    def quantise(self, request: Quantise) -> base.Outcome:
        raise RuntimeError("no such rows")


def test_a_script_of_an_error_fails_on_any_exception(tmp_path: Path) -> None:
    """A path that no longer raises passes it."""
    case = parse("quantise-r2-d128-fboundary-s1")
    verdict, without = script.write(tmp_path, case, Broken(), registry.Choice("oracle"), Ledger())
    assert verdict.status is Status.ERROR and without == ""
    code, said = run(tmp_path / "repro.py")
    assert code == 0 and "agrees: no exception" in said, said
    (tmp_path / "overlay").mkdir()
    raising = "from harness.paths.oracle import OraclePath\nOraclePath.run = lambda self, request: 1 / 0\n"
    (tmp_path / "overlay" / "sitecustomize.py").write_text(raising)
    code, said = run(tmp_path / "repro.py", folder=tmp_path / "overlay")
    assert code == 1 and "DIFFERS: ZeroDivisionError" in said, said


def test_a_finding_is_looked_for_by_kind_and_operand(tmp_path: Path) -> None:
    """The request that has it is written; other findings do not make the script fail."""
    path, _ = faulty.FAULTS["table-overread"]
    case = parse("decode-n1-h16-d128-ctx9-tshuffled-u0-l0-fbytes-s1")
    _, without = script.write(tmp_path, case, path, registry.Choice("oracle"), Ledger())
    assert without == "" and "['out-of-bounds-load', 'block_tables']" in (tmp_path / "repro.py").read_text()
    code, said = run(tmp_path / "repro.py")
    assert code == 0 and "no out-of-bounds-load of block_tables" in said, said


def test_what_no_single_answer_decides_gets_a_sentence_and_no_script(tmp_path: Path) -> None:
    """A gate that is wrong has no request that a script could compare with one tensor; stale files go."""

    class Open(OraclePath):
        def run(self, request: object) -> base.Outcome:
            outcome = super().run(request)
            return replace(outcome, value=None)

    (tmp_path / "repro.py").write_text("old")
    case = parse("gate-rulev4-askfp4-k2048-d128-h64-kpool0-chipgfx942")
    verdict, without = script.write(tmp_path, case, Open(), registry.Choice("oracle"), Ledger())
    assert not verdict.green and without
    assert not (tmp_path / "repro.py").exists()


def test_requests_are_kept_as_they_were_before_the_call() -> None:
    """Also the buffer that a path writes to, with its strides."""
    path = Recording(OraclePath())
    verdict = runner.run(parse("decode-n2-h16-d128-ctx9-tstrided-u0-l0-fbytes-s1"), path, Ledger())
    assert verdict.green
    asked = path.asked[-1]
    assert asked.spec is not None and asked.spec[2]["out"][0] == "filled"
    assert asked.spec[2]["out"][3] == list(asked.request.out.stride()) != [256, 1]
    built = blaming.again(asked)
    assert torch.equal(built.planes.k_codes, asked.request.planes.k_codes)
    assert built.planes.k_codes.stride() == asked.request.planes.k_codes.stride()


@pytest.mark.parametrize("value", [object(), float("nan"), {"a": [print]}])
def test_what_no_file_can_hold_is_refused_by_name(value: object) -> None:
    """The sentence names the field."""
    with pytest.raises(NoScript, match=r"^value.* is \w+, which no file can hold"):
        Store().spec(value)
