"""Every opcode that maps values to values, with its meaning."""

from __future__ import annotations

from collections.abc import Mapping

from harness.emulator import operations
from harness.emulator.bits import BITS
from harness.emulator.nearly import NEAR
from harness.emulator.operations import Evaluate

EVALUATE: Mapping[str, Evaluate] = {**operations.EVALUATE, **BITS, **NEAR}
