"""Write the script of a failing case: the request that went wrong, its tensors, and what the oracle wants.

    FOLDER/repro.py               the script; needs torch and safetensors, without a gfx950 the emulator too
    FOLDER/tensors.safetensors    what it wants, and tensors that are in no capture
    FOLDER/capture/               the inputs as a capture, where the request scores decode or prefill rows

Contract: the request written is the one that `blaming` names. A case of which no request can be told wrong by
itself gets a sentence and no script, since a script that compared it with one answer out of several would
accuse a kernel that is right.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from pprint import pformat
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from harness import runner
from harness.case.cases import Case
from harness.exits import InputError
from harness.judge.ledger import Ledger
from harness.judge.verdict import Grade, Verdict
from harness.paths import base, registry
from harness.paths.requests import scoring
from harness.reduce import template
from harness.reduce.blaming import Want, again, failing, parts
from harness.reduce.choice import Choice
from harness.reduce.recording import Asked, Recording, has_buffer

SCORES = (scoring.DecodeScores, scoring.PrefillScores)
REPRO, TENSORS, CAPTURE = "repro.py", "tensors.safetensors", "capture"


def write(
    folder: Path, case: Case, path: base.Path, choice: registry.Choice, ledger: Ledger
) -> tuple[Verdict, str]:
    """Run ``case`` once more and write its script into ``folder``: (verdict, why none was written, or "")."""
    verdict = runner.run(case, path, ledger)
    for old in (folder / REPRO, folder / TENSORS):
        old.unlink(missing_ok=True)
    shutil.rmtree(folder / CAPTURE, ignore_errors=True)
    if verdict.grade is Grade.BOUNDED:
        return verdict, "what is right here is a range and not one value"
    with tempfile.TemporaryDirectory(prefix="harness-reduce-") as record:
        recording = Recording(path, record)
        seen = runner.run(case, recording, ledger)
        every = recording.every()
    if (seen.status, seen.reason) != (verdict.status, verdict.reason):
        return verdict, f"run once more the case is {seen.status} ({seen.reason or 'nothing differs'})"
    asked, want, why = failing(every, verdict, ledger)
    if asked is None:
        return verdict, why
    _, new = ledger.split(verdict.findings, path.name)
    finding = [new[0].kind, new[0].operand] if verdict.layer == "finding" else []
    _write(folder, case, choice, asked, want, finding, verdict)
    return verdict, ""


def _write(
    folder: Path,
    case: Case,
    choice: registry.Choice,
    asked: Asked,
    want: Want,
    finding: list[str],
    verdict: Verdict,
) -> None:
    names, rule, held = _held(want)
    captured = _capture(folder / CAPTURE, case, asked)
    call = asked.calls[0] if len(asked.calls) == 1 and not finding else None
    direct = call is not None and (call.returned is not None or asked.error is not None)
    spec = call.spec if direct and call else asked.spec
    rest = {name: asked.store.tensors[name] for name in used(spec) if name not in captured}
    save_file({**rest, **held}, folder / TENSORS)
    (folder / TENSORS).chmod(0o644)
    what = f"{call.module}.{call.function}" if direct and call else f"{type(asked.request).__name__}"
    options = [] if direct else list(choice.trees.given())
    usage = " ".join(["python", REPRO, *(f"--{name} DIR" for name in (["aiter"] if direct else options))])
    facts = (
        [f"first at {dict(verdict.where)}", f"got {verdict.got}, want {verdict.want}"] if verdict.got else []
    )
    head = template.HEAD.format(
        title=f"{what} goes wrong: {verdict.reason or verdict.status}.",
        about="\n".join([f"Made from case {case.id}.", *facts]).replace("\\", "/"),
        usage=usage,
        files=pformat(tuple([TENSORS, f"{CAPTURE}/{TENSORS}"] if captured else [TENSORS])),
        want=pformat(names),
        finding=pformat(finding),
        choice=pformat(rule, sort_dicts=False),
        spec=pformat(spec, width=100, sort_dicts=False),
    )
    out = has_buffer(asked.request)
    if direct and call:
        place = call.returned if isinstance(call.returned, int) else None
        body = template.CALL.format(
            module=repr(call.module), function=repr(call.function), place=place, out=out
        )
    else:
        body = template.ASK.format(path=repr(choice.name), trees=repr(options), out=out)
    (folder / REPRO).write_text(head + body, encoding="utf-8")


def _held(want: Want) -> tuple[list[str] | None, dict[str, Any], dict[str, Tensor]]:
    """(names of the tensors that are wanted, the rule of a choice, the tensors of either)."""
    if isinstance(want, Choice):
        parts = {f"choice.{name}": getattr(want, name).contiguous() for name in ("names", "scores")}
        rule = {**vars(want), "names": "choice.names", "scores": "choice.scores"}
        return [], rule, parts
    if want is None:
        return None, {}, {}
    held = {f"want{place or ''}": part.contiguous() for place, part in enumerate(want)}
    return list(held), {}, held


def used(spec: Any) -> Iterator[str]:
    """Names of the tensors in ``spec``."""
    if isinstance(spec, list) and spec and spec[0] == "tensor":
        yield spec[1]
    elif isinstance(spec, list | dict):
        for part in spec.values() if isinstance(spec, dict) else spec:
            yield from used(part)


def _capture(folder: Path, case: Case, asked: Asked) -> frozenset[str]:
    """Write the request as a capture that `harness check --capture` judges: names of the tensors in it."""
    from harness.capture import format as capture_format
    from harness.capture import loading, writing

    request = asked.request
    if not isinstance(request, SCORES):
        return frozenset()
    before = again(asked)
    tensors = {name: getattr(before.planes, name) for name in loading.PLANES}
    kind = "decode" if isinstance(before, scoring.DecodeScores) else "prefill"
    for name in (*capture_format.parts_of(kind, optional=False), "schedule"):
        if name not in tensors and isinstance(getattr(before, name, None), Tensor):
            tensors[name] = getattr(before, name)
    if asked.outcome is not None:
        tensors["logits"] = parts(asked.answer)[0].clone()
    note = f"the failing request of case {case.id}; logits are what came"
    next_n = before.next_n if kind == "decode" else 0
    manifest = capture_format.Manifest(
        kind, before.max_seq_len, before.weight_scale, next_n, versions={}, note=note
    )
    try:
        writing.write(folder, manifest, tensors)
        loading.load(folder)
    except InputError:  # a fill that a capture may not hold; the script has its own file
        shutil.rmtree(folder, ignore_errors=True)
        return frozenset()
    return frozenset(name for name in tensors if name in asked.store.tensors)
