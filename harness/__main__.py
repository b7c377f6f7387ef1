"""``python -m harness``: the same as the ``harness`` script."""

from __future__ import annotations

import sys

from harness.cli import main

if __name__ == "__main__":
    sys.exit(main())
