"""``harness legs reproduce``: a reported figure measured again, and what that comes to."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from harness import exits
from harness.command.arguments import named_path
from harness.command.console import console_for_people
from harness.exits import InputError
from harness.legs.claims import reported
from harness.record import document

if TYPE_CHECKING:
    from harness.legs.campaign import Campaign
    from harness.legs.claims.reproduce import Answer, Finding

EPILOG = """\
examples:
  harness legs init --atom campaign.toml
  harness legs reproduce base-fp4-20 --campaign campaign.toml --leg fp4 --margin 2.5
  harness legs reproduce dcp-fp4-against-fp8 --campaign campaign.toml --leg fp4-dcp4 --base fp8-dcp4
  harness legs reproduce base-fp8-20 --dir results/legs/august --tokenizer /models/glm --margin 2.5

CLAIM is a leg or a claim of results/reported.toml. With --campaign its legs are run, or gone on with, as by
'harness legs run'; with --read, or --dir alone, what is on disk is read. Shots, task and number of questions
must be the claim's; model and topology are taken on your word.

reproduced      equivalent to the reported figure within the margin (two one-sided tests), under every filter
not reproduced  a difference that test and interval resolve, larger than the run-to-run spread
cannot tell     neither: with what could be seen, and how many answers would be needed
A leg that is not certified ('harness legs certify') is not measured, so its claim is 'cannot tell'. What a
claim does not rest on is told as its limit: how replies of past lm-eval runs ended (a figure can be
reproduced from them, a loss may be replies that were cut), and long prompts where it is about few shots.
Prompts must be as long as the claim's: above index_topk where those were, at most that where those were.
Reported counts are compared as independent samples. Claims about two legs are compared by question.

One leg against its figure needs a wide margin, fixed before measuring: the reported count carries the error
of its own 1319 answers, so that within 1.41 points (1.45 for base-fp4-20) nothing that is measured can
reproduce it; within 2.5 one sample of 1319 does in 9 of 10 cases where nothing differs. The margin of 1.0
that a campaign starts with is for legs compared by question.
"""


@dataclass(frozen=True)
class Result:
    """What a claim came to; ``answer`` is the findings' unless a leg is ``refused``."""

    claim: str
    says: str
    legs: tuple[str, ...]
    answer: Answer
    findings: tuple[Finding, ...]
    refused: Mapping[str, str]
    remarks: tuple[str, ...]

    def to_record(self) -> dict[str, Any]:
        """JSON-able: undefined numbers are null."""
        return {**asdict(self), "findings": [_plain(asdict(one)) for one in self.findings]}


def add_reproduce(what: Any) -> None:
    """``reproduce``; what measures and judges is loaded only when it is asked for."""
    found = what.add_parser(
        "reproduce",
        help="measure a reported figure again",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = found.add_argument
    add("claim", metavar="CLAIM", help="leg or claim of the reported figures")
    add("--campaign", type=named_path, metavar="FILE", help="campaign that measures the legs")
    add("--dir", type=named_path, metavar="DIR", help="campaign folder (default: results/legs/<name>)")
    add("--read", action="store_true", help="only read what has been measured")
    add("--leg", metavar="LEG", help="leg that is meant (default: the only one of the claim's indexer)")
    add("--base", metavar="LEG", help="leg that the claim is held against, where it is about two")
    add(
        "--margin",
        type=float,
        metavar="POINTS",
        help="margin (default: the campaign's, else 1.0; one leg against its figure needs more, see below)",
    )
    add("--data", type=named_path, metavar="DIR", help="folder with train.jsonl and test.jsonl")
    add("--index-topk", type=int, metavar="N", help="as for 'harness legs certify'")
    add("--tokenizer", type=named_path, metavar="DIR_OR_FILE", help="as for 'harness legs certify'")
    add("--reported", type=named_path, default=reported.FILE, metavar="F", help="file of reported figures")
    add("--json", type=named_path, metavar="F", help="also write the answer to this file")


def reproduce(args: argparse.Namespace) -> int:
    """Measure or read, judge, print. Raises `InputError`, `CannotRun`."""
    from harness.command import legs_run
    from harness.legs import campaign
    from harness.legs.certify import measured
    from harness.legs.claims import matching

    document.check_output("--json", args.json)
    if args.campaign is None and args.dir is None:
        raise InputError("--campaign is missing, allowed is a campaign file, or --dir with what was measured")
    if args.index_topk is not None and args.index_topk < 0:
        raise InputError(f"--index-topk is {args.index_topk}, allowed is 0 or more")
    told = reported.load(args.reported)
    claim = matching.find(told, args.claim)
    asked = campaign.load(args.campaign, data=args.data) if args.campaign else None
    directory = args.dir or legs_run.ROOT / (asked.name if asked else "")
    if not (asked and not args.read) and not directory.is_dir():
        raise InputError(f"{directory} is no folder; give a campaign folder with --dir")
    driven = asked or measured.campaign_of(directory)
    margin = args.margin if args.margin is not None else driven.margin if driven else 1.0
    if not 0 < margin < 100:
        raise InputError(f"--margin is {margin}, allowed are points above 0 and below 100")
    wanted = roles(args, told, claim, matching.offered(driven, measured.legs(directory, driven)))
    if driven is not None:
        for one in wanted.values():
            matching.check_campaign(driven, one, told.task)
    if isinstance(claim, reported.Leg):
        warn(claim, told, margin / 100)
    if asked is not None and not args.read:
        ended = legs_run.drive_legs(asked, directory, list(wanted))
        wrong = [where for where, status in ended.items() if status != "finished"]
        if wrong:
            legs_run.show(directory)
            console_for_people().print(f"exit 3: {len(wrong)} of {len(ended)} samples are not finished")
            return exits.ERROR
    result = judged(args, told, claim, wanted, driven, directory, margin / 100)
    show(result)
    if args.json:
        document.write_text(args.json, json.dumps(result.to_record(), indent=1) + "\n")
    code = {"reproduced": exits.AGREE, "not reproduced": exits.DIFFER}.get(result.answer, exits.UNPROVEN)
    console_for_people().print(f"exit {code}: {claim.id} {result.answer}", soft_wrap=True)
    return code


def warn(leg: reported.Leg, told: reported.Report, margin: float) -> None:
    """Say before anything is measured that ``margin`` cannot be met, where it cannot."""
    from harness.legs.claims import reproduce

    said = reproduce.beforehand(leg, told, margin)
    if said:
        console_for_people().print(Text(said), soft_wrap=True)


def roles(
    args: argparse.Namespace, told: reported.Report, claim: reported.Leg | reported.Claim, legs: list[Any]
) -> dict[str, reported.Leg]:
    """Measured leg to the reported leg that it stands for; the base leg of a claim first."""
    from harness.legs.claims import matching

    if not legs:
        raise InputError(f"--dir {args.dir} holds no sample of a leg")
    if isinstance(claim, reported.Leg) or not claim.base:
        if args.base is not None:
            raise InputError(f"--base is {args.base!r}, allowed is none: {claim.id} is about one leg")
        one = claim if isinstance(claim, reported.Leg) else told.legs[claim.leg]
        return {matching.match(one, legs, args.leg, "--leg"): one}
    base, other = told.legs[claim.base], told.legs[claim.leg]
    names = matching.match(base, legs, args.base, "--base"), matching.match(other, legs, args.leg, "--leg")
    if names[0] == names[1]:
        raise InputError(f"--leg and --base are both {names[0]!r}, allowed are two legs")
    return dict(zip(names, (base, other), strict=True))


def judged(
    args: argparse.Namespace,
    told: reported.Report,
    claim: reported.Leg | reported.Claim,
    wanted: Mapping[str, reported.Leg],
    driven: Campaign | None,
    directory: Path,
    margin: float,
) -> Result:
    """The claim held against what lies in ``directory``."""
    from harness.legs import journal
    from harness.legs.certify import certifying, measured, tokens
    from harness.legs.claims import compared, matching, reproduce, resting

    names = list(wanted)
    there = {leg.name: leg for leg in measured.legs(directory, driven)}
    about: list[reported.Leg | reported.Claim] = list(wanted.values())
    remarks = _standing(told, [*about, claim] if isinstance(claim, reported.Claim) else about)
    remarks.append("model and topology are taken on your word: the reports do not tell them well enough")
    for name, one in wanted.items():
        if name in there:
            unknown = matching.check_measured(there[name], one, told.task)
            remarks += [f"{what} of leg {name} is not known, and taken on your word" for what in unknown]
    count = tokens.tokenizer(args.tokenizer) if args.tokenizer else None
    certificates = certifying.certify(directory, base=names[0], index_topk=args.index_topk, count=count)
    carried = {
        name: resting.standing(certificates.get(name), there.get(name), one, told)
        for name, one in wanted.items()
    }
    refused = {name: one.refused for name, one in carried.items() if one.refused}
    remarks += [said for one in carried.values() for said in one.limits]
    table = journal.table(directory)
    if any(name not in there or table[table["leg"] == name].empty for name in names):
        findings = []
    elif isinstance(claim, reported.Leg):
        findings = reproduce.of_leg(claim, told, table, names[0], margin)
    else:
        findings = compared.of_claim(claim, told, table, (names[0], names[-1]), margin)
    answer, why = resting.answered(reproduce.overall(findings), findings, list(carried.values()))
    remarks += [why] if why else []
    if not findings and not refused:
        remarks.append(f"the report gives {claim.id} no figure, so there is nothing to hold it against")
    says = claim.says if isinstance(claim, reported.Claim) else _of_leg(claim)
    return Result(claim.id, says, tuple(names), answer, tuple(findings), refused, tuple(remarks))


def _standing(told: reported.Report, entries: Sequence[reported.Leg | reported.Claim]) -> list[str]:
    """How ``entries`` stand, where not simply so, and what cannot be in their reports."""
    from harness.legs.claims import audit
    from harness.legs.claims.told import standing

    found = [f"{one.id}: {remark.text}" for one in entries for remark in standing(one)]
    ids = {one.id for one in entries}
    return found + [
        f"{remark.claim}, {remark.check}: {remark.text}"
        for remark in audit.report(told)
        if remark.claim in ids and remark.verdict == audit.FAILS
    ]


def _of_leg(leg: reported.Leg) -> str:
    figures = [f"{which} {score.figure.text}" for which, score in leg.scores.items()]
    figures += [f"{which} {leg.base} + {plus.text} points" for which, plus in leg.plus.items()]
    words = [leg.indexer, f"{leg.shots} shots" if leg.shots is not None else "", leg.topology]
    return f"{', '.join(filter(None, words))}, {leg.n} questions: {', '.join(figures)}"


def show(result: Result) -> None:
    """A row a filter, then every sentence."""
    console = console_for_people()
    console.print(Text(f"{result.claim}  {result.says}\nlegs  {', '.join(result.legs)}\n"), soft_wrap=True)
    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    for column in ("filter", "claimed", "measured", "p", "equivalence p", "detectable", "answer"):
        table.add_column(column)
    for one in result.findings:
        numbers = [
            "undefined" if value != value else f"{value:.4g}"
            for value in (one.p, one.equivalence, 100 * one.detectable)
        ]
        table.add_row(one.which, one.claimed, one.measured, *numbers, str(one.answer))
    console.print(table)
    alone = "by the figures alone, " if result.refused else ""
    said = [f"{one.which}: {alone}{one.answer}: {one.said}" for one in result.findings]
    said += [f"leg {leg} is {why}" for leg, why in result.refused.items()]
    for sentence in (*said, *result.remarks):
        console.print(Text(sentence), soft_wrap=True)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value != value:
        return None
    return {name: _plain(inner) for name, inner in value.items()} if isinstance(value, dict) else value
