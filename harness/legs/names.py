"""What a campaign and a leg may be called: a name that is one folder of every file system.

Contract: a name that is taken can be the folder's own name as it stands. The failure to fear is one that
leads elsewhere, or that a table tears in two.
"""

from __future__ import annotations

import re

LONGEST = 100
"""Letters of a name at most; a folder's name has 255 bytes, and a sample set aside adds some."""

PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._+-]*$"
ALLOWED = f"a name of letters, digits and ._+-, at most {LONGEST}, not ending in .json"
FILES = ".json"
"""How the files beside the legs' folders end."""


def allowed(name: str) -> bool:
    """Whether ``name`` is one."""
    whole = re.fullmatch(PATTERN.strip("^$"), name, re.ASCII)
    return bool(whole) and len(name) <= LONGEST and not name.endswith(FILES)
