"""Write the script of a failing case: the request that went wrong, its tensors, and what the oracle wants.

    FOLDER/repro.py               the script; needs torch and safetensors, without a gfx950 the emulator too
    FOLDER/tensors.safetensors    what it wants, and tensors that are in no capture
    FOLDER/capture/               the inputs as a capture, where the request scores decode or prefill rows

Contract: the request written is the first that differs from the oracle's answer to it (that raises; that has
the finding). Requests with several right answers are not written, since a script that compared them with one
would accuse a kernel that is right.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from pprint import pformat
from typing import Any

from safetensors.torch import save_file
from torch import Tensor, tensor

from harness import runner
from harness.case.cases import Case
from harness.exits import InputError
from harness.judge.bits import bits_of
from harness.judge.ledger import Ledger
from harness.judge.verdict import Grade, Status, Verdict
from harness.paths import base, registry
from harness.paths.oracle import OraclePath
from harness.paths.requests import scoring, writing
from harness.reduce import template
from harness.reduce.recording import Asked, Recording, has_buffer

SCORES = (scoring.DecodeScores, scoring.PrefillScores)
ONE_ANSWER = (
    *SCORES,
    scoring.VarqlenScores,
    scoring.DecodeSchedule,
    scoring.PrefillSchedule,
    scoring.VarqlenWindows,
    writing.Quantise,
    writing.WriteKeys,
)
"""Requests whose right answer is one; top-k sets, rounded keys and merges may be several."""
REPRO, TENSORS, CAPTURE = "repro.py", "tensors.safetensors", "capture"


def write(
    folder: Path, case: Case, path: base.Path, choice: registry.Choice, ledger: Ledger
) -> tuple[Verdict, str]:
    """Run ``case`` once more and write its script into ``folder``: (verdict, why none was written, or "")."""
    verdict, recording = runner.run(case, path, ledger), Recording(path)
    for old in (folder / REPRO, folder / TENSORS):
        old.unlink(missing_ok=True)
    shutil.rmtree(folder / CAPTURE, ignore_errors=True)
    if verdict.grade is Grade.BOUNDED:
        return verdict, "what is right here is a range and not one value"
    seen = runner.run(case, recording, ledger)
    if (seen.status, seen.reason) != (verdict.status, verdict.reason):
        return verdict, "the ranks of the case are processes that hand over no tensors"
    asked, want, why = failing(recording.asked, verdict, ledger)
    if asked is None:
        return verdict, why
    _, new = ledger.split(verdict.findings, path.name)
    finding = [new[0].kind, new[0].operand] if verdict.layer == "finding" else []
    _write(folder, case, choice, asked, want, finding, verdict)
    return verdict, ""


def failing(
    every: list[Asked], verdict: Verdict, ledger: Ledger
) -> tuple[Asked | None, list[Tensor] | None, str]:
    """(the request, the answer that is wanted, why there is none)."""
    why = "no request of the case fails by itself"
    for asked in every:
        if verdict.status is Status.ERROR:
            if asked.error is not None:
                return _whole(asked, [])
            continue
        if asked.outcome is None:
            continue
        if verdict.layer == "finding":
            if ledger.split(asked.outcome.findings, verdict.path)[1]:
                return _whole(asked, [])
            continue
        if not isinstance(asked.request, ONE_ANSWER) or asked.spec is None:
            why = "what differs comes from requests that may have several right answers"
            continue
        want = wanted(asked)
        if want is None or not _equal(_parts(asked.answer), want):
            return _whole(asked, want)
    return None, None, why


def _whole(asked: Asked, want: list[Tensor] | None) -> tuple[Asked | None, list[Tensor] | None, str]:
    return (asked, want, "") if asked.spec is not None else (None, None, asked.why)


def wanted(asked: Asked) -> list[Tensor] | None:
    """The oracle's answer to the same request; None where it refuses."""
    try:
        return _parts(OraclePath().run(again(asked)).value)
    except ValueError:
        return None


def again(asked: Asked) -> Any:
    """The request, built by the code that the script has."""
    space: dict[str, Any] = {"__name__": "repro", "__file__": REPRO}
    head = template.HEAD.format(title="", about="", usage="", files=(), want=(), finding=[], spec=[])
    exec(head, space)
    return space["build"](asked.spec, {name: one.clone() for name, one in asked.store.tensors.items()}, "cpu")


def _parts(value: Any) -> list[Tensor]:
    parts = value if isinstance(value, tuple | list) else (value,)
    return [part if isinstance(part, Tensor) else tensor(part) for part in parts]


def _equal(got: list[Tensor], want: list[Tensor]) -> bool:
    def same(one: Tensor, other: Tensor) -> bool:
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        both = one.isnan() & other.isnan()
        left, right = (bits_of(part) if part.dtype.itemsize == 4 else part for part in (one, other))
        return bool(((left == right) | both).all())

    return len(got) == len(want) and all(map(same, got, want))


def _write(
    folder: Path,
    case: Case,
    choice: registry.Choice,
    asked: Asked,
    want: list[Tensor] | None,
    finding: list[str],
    verdict: Verdict,
) -> None:
    names = None if want is None else [f"want{place or ''}" for place in range(len(want))]
    held = {name: part.contiguous() for name, part in zip(names or (), want or (), strict=True)}
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
        tensors["logits"] = _parts(asked.answer)[0].clone()
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
