"""Exit codes of ``harness legs``: what each code of each of its commands means, in one table.

Contract: a command ends with the codes that stand here and with no other, and every help text is made from
here. The failure to fear is a script that takes 0 for "certified" where it only means "written".
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.exits import AGREE, DIFFER, ERROR, INTERRUPTED, UNPROVEN, USAGE

BAD, BROKE, CUT = "bad usage or input", "something could not run", "interrupted; what had ended is kept"
COMMON = {USAGE: BAD, ERROR: BROKE, INTERRUPTED: CUT}
LEFT = "a leg is not certified, or not measured (a known-bad one need not be)"

CODES: Mapping[str, Mapping[int, str]] = {
    "init": {AGREE: "written", **COMMON},
    "run": {
        AGREE: "all samples are finished and their legs certified (a known-bad one need not be)",
        **COMMON,
        ERROR: "a server crashed, a sample is not finished, or something could not run",
        UNPROVEN: LEFT,
    },
    "status": {AGREE: "shown, whatever it says", **COMMON},
    "import": {AGREE: "taken in", **COMMON},
    "certify": {
        AGREE: "every leg is certified, except what its campaign does not ask (a known-bad one need not be)",
        **COMMON,
        UNPROVEN: f"{LEFT}, also where its server crashed",
    },
    "pool": {
        AGREE: "every leg is measured, and certified where a campaign was driven",
        **COMMON,
        UNPROVEN: f"{LEFT}; of past runs only the latter",
    },
    "report": {AGREE: "written, whatever it says", **COMMON},
    "reproduce": {
        AGREE: "reproduced",
        DIFFER: "not reproduced",
        **COMMON,
        ERROR: "a server crashed, a sample is not finished, or something could not run",
        UNPROVEN: "cannot tell",
    },
    "demo": {
        AGREE: "all legs but the control are certified, and the control was seen",
        **COMMON,
        ERROR: "something is missing, a server crashed, or something could not run",
        UNPROVEN: "otherwise",
    },
}
"""Command to exit code to what it means."""


def said(command: str) -> str:
    """The codes of ``command`` as the end of its help."""
    lines = [f"  {code:<4}{text}" for code, text in sorted(CODES[command].items())]
    return "exit codes:\n" + "\n".join(lines)


def table() -> str:
    """What differs between the commands, for ``harness legs --help``."""
    lines = [f"  {'all':<11}{code:<4}{COMMON[code]}" for code in sorted(COMMON)]
    for command, codes in CODES.items():
        own = [(code, text) for code, text in sorted(codes.items()) if COMMON.get(code) != text]
        lines += [f"  {'' if at else command:<11}{code:<4}{text}" for at, (code, text) in enumerate(own)]
    return "exit codes:\n" + "\n".join(lines)
