"""Suite gate turns red for every fault of the gate, and only then; both paths with a gate are right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from harness.case import cases
from harness.case.case_limits import CaseError
from harness.case.case_lists import listed
from harness.case.cases import Case
from harness.checks import gate as check_gate
from harness.judge.verdict import Status, Verdict
from harness.paths import base
from harness.paths.base import Outcome, Unsupported
from harness.paths.flydsl import gating
from harness.paths.oracle import OraclePath
from harness.paths.oracle.gating import predicate, refusal
from harness.paths.requests.gating import Gated, Predicate, Refusal
from oracles import gate

Broken = Callable[[Any, Any], Any]
RIGHT = "gate-ruledsa-askfp4-k2048-d128-h64-kpool0-chipgfx950"


@dataclass
class GatePath(base.Path):
    """The oracle's gate by ``rules``, and what ``broken`` makes of a value."""

    rules: dict[str, gate.Rule]
    broken: Broken = lambda request, value: value
    name = "faulty"

    @property
    def executor(self) -> str:
        return "torch"

    def answers(self) -> base.Answers:
        return {Predicate: self._predicate, Refusal: self._refusal}

    def _predicate(self, request: Predicate) -> Outcome:
        return Outcome(self.broken(request, predicate(self.rules, request).value))

    def _refusal(self, request: Refusal) -> Outcome:
        return Outcome(self.broken(request, refusal(request).value))


def ruled(**wrong: Any) -> GatePath:
    return GatePath({**gate.RULES, "dsa": replace(gate.DSA, **wrong)})


def broken(kind: type, wrong: Broken) -> GatePath:
    return GatePath(
        gate.RULES, lambda request, value: wrong(request, value) if isinstance(request, kind) else value
    )


def on_layers(request: Predicate, value: Gated) -> Gated:
    return replace(value, taken=(value.taken[0], *(not taken for taken in value.taken[1:])))


FAULTS: dict[str, tuple[GatePath, str]] = {
    "kpool-accepted": (ruled(unpooled=False), "FP4 is taken in spite of kpool"),
    "headdim-accepted": (ruled(head_dim=None), "FP4 is taken in spite of head_dim"),
    "heads-accepted": (ruled(heads=None), "FP4 is taken in spite of heads"),
    "heads of 8 accepted": (ruled(heads=8), "FP4 is taken in spite of heads"),
    "heads of 32 only": (ruled(heads=32), "FP4 is not taken"),
    "topk-ignored": (ruled(topk=False), "FP4 is taken in spite of topk"),
    "chip-ignored": (ruled(chips=cases.WORDS["chip"]), "FP4 is taken in spite of gfx942"),
    "chips by exclusion": (
        ruled(chips=("gfx950", "gfx1250", "gfx90a")),
        "FP4 is taken in spite of gfx1250",
    ),
    "chips by the start of their name": (
        ruled(chips=tuple(chip for chip in cases.WORDS["chip"] if chip.startswith("gfx95"))),
        "FP4 is taken in spite of gfx951",
    ),
    "chip-probed-for-fp8": (ruled(probes_for_others=True), "the chip is looked up for nothing"),
    "kpool of 2 and 4 refused only": (
        broken(Predicate, lambda it, value: given(value) if it.config.get("index_kpool") == 3 else value),
        "FP4 is taken in spite of kpool",
    ),
    "kpool of 1 refused": (
        broken(Predicate, lambda it, value: untaken(value) if it.config.get("index_kpool") == 1 else value),
        "FP4 is not taken",
    ),
    "unset-by-None refused": (
        broken(Predicate, lambda it, value: untaken(value) if None in it.config.values() else value),
        "FP4 is not taken",
    ),
    "taken for fp8": (
        broken(
            Predicate, lambda it, value: replace(value, taken=(True,) * 4) if it.asked == "fp8" else value
        ),
        "FP4 is taken in spite of another dtype asked for",
    ),
    "layers-decide-otherwise": (broken(Predicate, on_layers), "not by all who ask"),
    "warns-per-layer": (
        broken(Predicate, lambda it, value: replace(value, warnings=value.warnings * 4)),
        "not as many warnings",
    ),
    "never-warns": (broken(Predicate, lambda it, value: replace(value, warnings=())), "not as many warnings"),
    "warns-of-nothing": (
        broken(Predicate, lambda it, value: replace(value, warnings=("FP8",) * len(value.warnings))),
        "the warning does not name what blocks",
    ),
    "verdict-is-no-bool": (
        broken(Predicate, lambda it, value: replace(value, taken=(None, *value.taken[1:]))),
        "no verdicts",
    ),
    "one verdict short": (
        broken(Predicate, lambda it, value: replace(value, taken=value.taken[1:])),
        "a question",
    ),
    "refusal-silent": (broken(Refusal, lambda it, value: None), "accepted FP4 in spite of"),
    "refuses-always": (broken(Refusal, lambda it, value: "no fused writer"), "refused what it serves"),
    "refusal-nameless": (
        broken(Refusal, lambda it, value: value and "unsupported"),
        "the refusal does not name what blocks",
    ),
    "page of 32 accepted": (
        broken(Refusal, lambda it, value: None if it.page == 32 else value),
        "accepted FP4 in spite of page",
    ),
}


def accepting(by: str, request: Refusal, value: str | None) -> str | None:
    return None if request.by == by else value


def given(value: Gated) -> Gated:
    return replace(value, taken=(True,) * len(value.taken), warnings=())


def untaken(value: Gated) -> Gated:
    return replace(value, taken=(False,) * len(value.taken), warnings=("index_kpool",))


def verdicts(path: base.Path, which: str = "smoke") -> list[Verdict]:
    return [check_gate.check(case, path) for case in listed("gate", which)]


class InTree(base.Path):
    """The in-tree gate without the kernels beside it."""

    name = "flydsl"
    executor = "python"

    def answers(self) -> base.Answers:
        return gating.answers(self)


@pytest.mark.parametrize("path", [OraclePath(), InTree(), GatePath(gate.RULES)])
def test_right_gates_agree_with_the_whole_table(path: base.Path) -> None:
    assert {verdict.status for verdict in verdicts(path, "full")} == {Status.AGREE}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_turns_a_smoke_case_red(fault: str) -> None:
    """And says which: the reason is looked for in the cases that it turns red."""
    path, reason = FAULTS[fault]
    red = [verdict for verdict in verdicts(path) if verdict.status is Status.DIFFER]
    assert any(reason in verdict.reason for verdict in red), [verdict.reason for verdict in red]
    assert all(verdict.status in (Status.AGREE, Status.DIFFER) for verdict in verdicts(path))


def test_each_refusal_that_is_silent_is_found_by_its_own_case() -> None:
    for rule, refusals in gate.REFUSALS.items():
        for by in refusals:
            silent = broken(Refusal, partial(accepting, by))
            red = [verdict.case for verdict in verdicts(silent) if verdict.status is Status.DIFFER]
            assert f"gate-rule{rule}-by{by}" in red


@pytest.mark.parametrize("chips", [("gfx950",), ("gfx950", "gfx1250", "gfx90a")])
def test_what_a_rule_leaves_open_is_noted_and_holds_for_all_who_ask(chips: tuple[str, ...]) -> None:
    """Both generations of DeepSeek-V4's rule are right; one that is not of one mind is not."""
    case = cases.parse("gate-rulev4-askfp4-k2048-d128-h64-kpool0-chipgfx1250")
    path = GatePath({**gate.RULES, "v4": replace(gate.V4, chips=chips)})
    verdict = check_gate.check(case, path)
    word = "taken" if "gfx1250" in chips else "not taken"
    assert verdict.status is Status.AGREE
    assert verdict.notes == (f"FP4 is {word} on gfx1250, which rule v4 leaves open",)
    path.broken = lambda request, value: on_layers(request, value)
    assert "not by all who ask" in check_gate.check(case, path).reason
    path.broken = lambda request, value: replace(value, warnings=("gfx1250",) * (1 - len(value.warnings)))
    assert "warnings" in check_gate.check(case, path).reason


def test_the_first_who_decides_otherwise_is_named() -> None:
    verdict = check_gate.check(cases.parse(RIGHT), broken(Predicate, on_layers))
    assert verdict.reason == "FP4 is not taken, and not by all who ask"
    assert verdict.where["asked by"] == "indexer 0" and verdict.count == check_gate.LAYERS
    assert (verdict.got, verdict.want, verdict.layer) == ("False", "True", "bits")


def test_every_way_to_say_not_set_is_asked() -> None:
    """Absent, None and 0 of what a case leaves out; nothing more of a case that leaves nothing out."""
    case = cases.parse("gate-ruledsa-askfp4-k0-d128-h64-kpool0-chipgfx950")
    asked = dict(check_gate.spellings(case))
    assert asked["absent"] == {"index_head_dim": 128, "index_n_heads": 64}
    assert asked["None"]["index_topk"] is None and asked["None"]["index_kpool"] is None
    assert asked["0"] == {"index_topk": 0, "index_kpool": 0, "index_head_dim": 128, "index_n_heads": 64}
    full = cases.parse("gate-ruledsa-askfp4-k1-d64-h8-kpool2-chipgfx950")
    assert list(check_gate.spellings(full)) == [
        ("", {"index_topk": 1, "index_head_dim": 64, "index_n_heads": 8, "index_kpool": 2})
    ]


def test_an_unsupported_refusal_is_no_refusal() -> None:
    """A path that lacks the function has refused nothing."""

    def absent(request: Any, value: Any) -> Any:
        raise Unsupported("no such function")

    with pytest.raises(Unsupported):
        check_gate.check(cases.parse("gate-ruledsa-bypage"), broken(Refusal, absent))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("gate-rulev4-bypage", "field by is 'page', allowed with rule v4 are transfer"),
        ("gate-ruledsa-byluck", "field by is 'luck', allowed are nowriter, prefillcp"),
        ("gate-rulev5-bytransfer", "field rule is 'v5', allowed are dsa, v4"),
        (
            "gate-ruledsa-askfp4-k2048-d9999-h64-kpool0-chipgfx950",
            "field d is 9999, allowed in suite gate are 0",
        ),
        ("gate-ruledsa-askfp4-k2048-d128-h64-kpool0-chipgfx1", "field chip is 'gfx1', allowed are gfx950"),
        ("gate-ruledsa", "takes field ask"),
    ],
)
def test_a_bad_id_is_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(CaseError, match=sentence):
        cases.parse(text)


def test_the_lists_hold_every_word_and_both_sides_of_every_edge() -> None:
    smoke: tuple[Case, ...] = listed("gate", "smoke")
    assert {case.chip for case in smoke if case.chip} == set(cases.WORDS["chip"])
    assert {case.ask for case in smoke if case.ask} == set(cases.WORDS["ask"])
    assert {case.by for case in smoke if case.by} == set(cases.WORDS["by"])
    for field, right in (("d", 128), ("h", 64), ("kpool", 1), ("k", 2048)):
        values = {getattr(case, field) for case in smoke}
        assert right in values and {value for value in values if value != right}
    assert len(listed("gate", "full")) > 600
