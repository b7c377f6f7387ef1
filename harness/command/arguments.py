"""Types of command-line arguments.

Python takes an empty path as the current folder, so that a variable that was never set would have another
tree judged than the one that was meant.
"""

from __future__ import annotations

import argparse
from pathlib import Path

EMPTY = "is '', allowed is the name of a file or folder"


def named_path(text: str) -> Path:
    """A file or folder. Raises what argparse turns into a sentence that begins with the argument."""
    if not text:
        raise argparse.ArgumentTypeError(EMPTY)
    return Path(text)
