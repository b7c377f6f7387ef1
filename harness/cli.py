"""The command line: commands, their help, and the one place where exceptions become exit codes.

``harness`` and ``python -m harness`` both come here. Each command lives in a module of its own
that is imported only when it is asked for, so that ``--help`` and ``list`` load no torch. How
this would fail silently: an exception that ends in exit code 0 or 1, which mean "agrees" and
"differs"; so every exception gets a code here, and only the expected ones a sentence.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from harness import exits
from harness.case.case_limits import CaseError
from harness.judge.ledger import LedgerError

DESCRIPTION = """\
Checks FP4 sparse-attention indexer kernels bit for bit against an oracle, on any machine:
the real kernels are run by an emulator unless the chip is there.
"""

EXAMPLES = """\
examples:
  harness verify                                  the in-tree kernels, smoke cases, all cores
  harness verify --path aiter --aiter ../aiter    the production kernels of a checkout
  harness verify --suite decode --cases full      one suite, every listed case
  harness check decode-n4-h32-d128-ctx700,437-tshuffled-u0-l0-fbytes-s1
  harness list cases --suite decode               ids; any of their fields can be changed
  harness report last --html last.html            a past run as one page
"""

COMMANDS = {
    "verify": "run the suites on a path and sum up",
    "check": "run one case, listed or custom, and print its verdict",
    "capture-spec": "the format of captured real tensors, and an example of it",
    "localize": "run each stage of a pipeline case on the oracle's inputs, and name the first that differs",
    "list": "cases, paths, suites, fills or faults",
    "ab": "the same inputs through two source trees, every output byte compared",
    "faults": "plant every fault of the catalogue on its smallest case, which must be red",
    "power": "plant every mechanical fault in a kernel, and count those that the cases see",
    "bisect": "the first commit at which a case that was right is red",
    "history": "the verdict of every commit that has something, as a table",
    "diagnose": "which fault, or pair of faults, of the catalogue gives the answers of a case that differs",
    "reveal-order": "the order of a scorer's additions, by probing, beside the declared one",
    "reduce": "shrink a failing case to a smallest one that fails in the same way, and write a script of it",
    "report": "past runs: list them, show one again, write its page",
    "legs": "accuracy legs: driven through lm-eval, certified, pooled, held against what was reported",
    "claims": "audit reported accuracy figures by arithmetic",
    "bench": "speed of the emulator and of the oracles beside a bare matmul, of legs beside lm-eval",
}


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one sentence."""

    def error(self, message: str) -> NoReturn:
        text = (
            message.removeprefix("argument ").replace(": ", " ", 1)
            if message.startswith("argument ")
            else message
        )
        raise exits.InputError(f"{text} (see '{self.prog} --help')")


def build_parser(command: str | None = None) -> Parser:
    """The parser; only ``command`` gets its arguments, since the others' modules need not be loaded."""
    parser = Parser(
        prog="harness",
        description=DESCRIPTION,
        epilog=f"{EXAMPLES}\nexit codes:\n{exits.table()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    for name, about in COMMANDS.items():
        sub = commands.add_parser(
            name,
            help=about,
            description=f"{about[0].upper()}{about[1:]}.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if name == command:
            importlib.import_module(module_of(name)).add_arguments(sub)
    return parser


def module_of(command: str) -> str:
    return f"harness.command.cli_{command.replace('-', '_')}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (see `harness.exits`)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(arguments)
    except (exits.InputError, CaseError) as error:
        return _say(str(error), exits.USAGE)
    except (exits.CannotRun, LedgerError) as error:
        return _say(str(error), exits.ERROR)
    except ModuleNotFoundError as error:
        return _say(
            f"the package {error.name} is not installed here; see README.md for the install", exits.ERROR
        )
    except KeyboardInterrupt:
        return _say("interrupted", exits.INTERRUPTED)
    except BrokenPipeError:  # `harness list cases | head`: nobody is left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.ERROR
    except Exception:  # left to Python it would end with 1, which means that something differs
        traceback.print_exc()
        return exits.ERROR


def _dispatch(arguments: list[str]) -> int:
    command = next((word for word in arguments if not word.startswith("-")), None)
    args = build_parser(command if command in COMMANDS else None).parse_args(arguments)
    code = importlib.import_module(module_of(args.command)).main(args)
    sys.stdout.flush()
    return int(code)


def _say(sentence: str, code: int) -> int:
    print(f"harness: {sentence}", file=sys.stderr)
    return code
