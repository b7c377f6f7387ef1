"""Lengths and windows that several suites share: one either side of every edge (16, 64, 256, 2048)."""

from __future__ import annotations

SHORT = "0,1,15,16,17,63,64,65,255,256,257"
LONG = "2047,2048,2049,3"
SPEC = "700,437,0,64"
MIXED = "513,1,512,511,0,130"

WINDOWS = (
    "0@0:1,0@37:41,0@5:5,0@100:357+3,0@255:257,0@256:512,0@640:700,"
    "1@17:300+3,1@433:437,2@63:64,2@0:0,2@0:64,2@16:33"
)
"""Over lengths 700, 437, 64: starts off and on multiples of 16, shorter than a tile, empty."""
EDGES = "0@0:2047+3,0@2040:2049,0@1791:1793,1@0:16,1@1:17,1@15:16,1@240:257,2@0:0"
"""Over lengths 2049, 257, 0."""

ROUND_FILLS = ("bytes", "natural", "address", "wide", "boundary", "ties")
ROUND_TABLES = ("shuffled", "strided", "shuffled", "wide")
ROUND_LENGTHS = (SHORT, SPEC, LONG, MIXED)
"""What the full lists go through in turn."""
