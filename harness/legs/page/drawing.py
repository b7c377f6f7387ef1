"""The one door to matplotlib: figures as inline SVG that follow the page's light or dark colours.

Contract: the same picture gives the same bytes (no date, no random id), its text stays text, and nothing
in it refers outside the page. Ids carry the picture's name, since all pictures share one document: two with
the same id would silently clip and mark each other's curves. Texts are never read as mathematics, whatever
a leg is called.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import matplotlib
from markupsafe import Markup
from matplotlib.axes import Axes as Axes
from matplotlib.figure import Figure as Figure

INK, SOFT, LINE, GROUND = "#1d2329", "#66707a", "#c9ced2", "#fffffe"
"""Text, lesser text, rules, and the ground behind a mark: replaced by the page's own colours."""

VARIABLES = {INK: "var(--ink)", SOFT: "var(--soft)", LINE: "var(--line)", GROUND: "var(--card)"}

GAINED, LOST = "#2f8fd0", "#c8561b"
"""Answers that became right and wrong: apart for every kind of colour vision, on light and on dark."""

COLOURS = (GAINED, LOST, "#2a9158", "#a860c8", "#a47a12", "#d04a86", "#17909a", "#7d7f86")
"""Colours of legs in order, used again from the ninth on; each stands out from both grounds."""

WIDTH = 10.4
"""Inches of a picture at 72 units an inch; the page stretches it to its own width."""

SETTINGS: dict[Any, Any] = {
    "font.size": 9,
    "font.family": "DejaVu Sans",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "axes.unicode_minus": False,
    "path.simplify": False,
    "text.color": INK,
    "axes.labelcolor": SOFT,
    "axes.titlecolor": INK,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": LINE,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "none",
    "figure.constrained_layout.use": True,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": SOFT,
    "ytick.labelcolor": INK,
    "grid.color": LINE,
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "savefig.facecolor": "none",
}
_FONT = re.compile(r"""['"]?DejaVu Sans['"]?""")
_NUMBER = re.compile(r"-?\d+\.\d{3,}")


@dataclass(frozen=True)
class Picture:
    """What to draw: ``name`` is its id in the page, ``label`` what a reader who cannot see it is told.

    ``height``: inches. ``paint`` fills an empty figure.
    """

    name: str
    label: str
    height: float
    paint: Callable[[Figure], None]


def svg(picture: Picture) -> Markup:
    """The picture as an ``<svg>`` element."""
    stream = io.BytesIO()
    with matplotlib.rc_context({**SETTINGS, "svg.hashsalt": picture.name}), warnings.catch_warnings():
        # A name in a script that the font lacks is only measured with it; the browser draws the text.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        figure = painted(picture)
        figure.savefig(stream, format="svg", metadata={"Date": None})
    return Markup(_inline(stream.getvalue(), picture))


def painted(picture: Picture) -> Figure:
    """The figure, under whatever settings are in force."""
    figure = Figure(figsize=(WIDTH, picture.height))
    picture.paint(figure)
    return figure


def text(name: str, limit: int = 30, lines: int = 3) -> str:
    """A name as a label: unprintable letters marked, broken into lines, cut only after ``lines`` of them."""
    clean = "".join(letter if letter.isprintable() else "?" for letter in name)
    pieces = [clean[at : at + limit] for at in range(0, len(clean), limit)] or [""]
    if len(pieces) > lines:
        pieces = [*pieces[: lines - 1], pieces[lines - 1][:-1] + "…"]
    return "\n".join(pieces)


def colour(index: int) -> str:
    """The colour of leg ``index``."""
    return COLOURS[index % len(COLOURS)]


def segments(spans: Sequence[tuple[float, float, float]]) -> tuple[list[float], list[float]]:
    """Upright strokes (x, from y, to y) as one broken line (x, y): one element of the page, not hundreds."""
    nan = float("nan")
    return [value for x, _, _ in spans for value in (x, x, nan)], [
        value for _, low, high in spans for value in (low, high, nan)
    ]


def _inline(content: bytes, picture: Picture) -> str:
    root = ElementTree.fromstring(content)
    for metadata in [one for one in root if one.tag.endswith("metadata")]:
        root.remove(metadata)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.attrib = {
            name.rpartition("}")[2]: _attribute(name, value, picture.name)
            for name, value in element.attrib.items()
        }
    root.attrib.pop("width")
    root.attrib.pop("height")
    root.attrib.pop("version", None)
    root.attrib |= {"class": "plot", "role": "img", "aria-label": picture.label}
    return ElementTree.tostring(root, encoding="unicode")


def _attribute(name: str, value: str, prefix: str) -> str:
    if name == "id":
        return f"{prefix}-{value}"
    if name.endswith("href"):
        return value.replace("#", f"#{prefix}-", 1)
    if name in ("d", "x", "y", "transform", "points"):
        return _NUMBER.sub(lambda found: f"{float(found[0]):.2f}", value)
    value = value.replace("url(#", f"url(#{prefix}-")
    for drawn, shown in VARIABLES.items():
        value = value.replace(drawn, shown)
    return _FONT.sub("system-ui, sans-serif", value)
