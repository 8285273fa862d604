"""Figures of a report: their common style, and how they become PNG or SVG."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from firstsight._io.files import write_atomically

INK, MUTED, FAINT, GRID, PAPER = "#1a1a1a", "#595959", "#bbbbbb", "#dddddd", "#ffffff"
RIGHT, WRONG = "#0072b2", "#d55e00"
# Okabe and Ito's colours, which people with any common colour blindness can tell apart (black is left for text).
COLOURS = ("#e69f00", "#56b4e9", "#009e73", "#cc79a7", "#0072b2", "#d55e00", "#f0e442", "#7f7f7f")
# For maps of more classes: the same, then others, each as far as may be from all before it in CIELAB, neither so light
# nor so dark that a white or a dark page hides it.
MANY_COLOURS = (
    *COLOURS, "#8661e7", "#e71855", "#616d00", "#6dce49", "#ffb692", "#b60092", "#9e493d", "#b6ce86",
    "#ff86ff", "#b6aaff", "#61dbdb", "#00790c", "#dbc2db", "#865500", "#00e79e", "#79559e",
)  # fmt: skip
# Each measure keeps its colour, mark and stroke in every figure, so that colour is never the only difference.
LINES: dict[str, dict[str, str]] = {
    "t1": {"color": "#0072b2", "marker": "o", "linestyle": "-"},
    "ts": {"color": "#d55e00", "marker": "s", "linestyle": "--"},
    "tr": {"color": "#009e73", "marker": "^", "linestyle": ":"},
    "h": {"color": INK, "marker": "D", "linestyle": "-."},
}
# Colours that the page's style sheet sets, since they must change with light and dark.
_ON_THE_PAGE = {INK: "ink", MUTED: "muted", FAINT: "faint", GRID: "line", PAPER: "page", "#0072b2": "blue"}

WIDE, NARROW = 11.4, 3.65  # inches of 96 pixels: of a page on a desk, of a phone
# The font has ✓, ✗ and the accented letters of glyphs. A dollar sign in a name begins no formula.
_STYLE: Any = {
    "font.family": ["DejaVu Sans"], "text.parse_math": False, "text.color": INK, "axes.edgecolor": MUTED,
    "axes.labelcolor": INK, "xtick.color": MUTED, "ytick.color": MUTED, "xtick.labelcolor": INK,
    "ytick.labelcolor": INK, "axes.titlecolor": INK, "axes.titlesize": 10, "axes.labelsize": 9,
    "xtick.labelsize": 8, "ytick.labelsize": 8, "legend.fontsize": 8.5, "legend.frameon": False,
    "svg.fonttype": "none", "svg.hashsalt": "firstsight",
}  # fmt: skip
# No time stamp or version inside: the same figure is the same file.
_SAVING: Any = {"format": "png", "dpi": 130, "bbox_inches": "tight", "metadata": {"Software": None}}


@dataclass(frozen=True)
class ReportFigure:
    """A figure to be drawn; `name` is the stem of its file, `alt` tells what it shows to those who cannot see it.

    `draw` is given the width in inches and puts panels side by side or below each other as they fit.
    """

    name: str
    title: str
    alt: str
    draw: Callable[[float], Figure]
    notes: Sequence[str] = ()
    is_small: bool = False  # as narrow as for a phone everywhere; neighbours stand side by side

    @cached_property
    def figure(self) -> Figure:
        """As on a wide page."""
        with figure_style():
            return self.draw(WIDE)


def png_of(picture: ReportFigure) -> bytes:
    """The figure as a file."""
    file = io.BytesIO()
    with figure_style():
        picture.figure.savefig(file, **_SAVING)
    return file.getvalue()


def svg_of(picture: ReportFigure, width: float) -> str:
    """The figure as part of a page: its words are text, its plain colours the style sheet's."""
    file = io.StringIO()
    with figure_style():
        figure = picture.figure if width == WIDE else picture.draw(width)
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    drawn = file.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    drawn = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r' id="[a-zA-Z0-9]+_\d+"', "", drawn)  # figure_1, axes_1: the same in every figure of the page
    drawn = re.sub(r' transform="rotate\(-?0 [^"]*\)"', "", drawn)
    drawn = re.sub("|".join(_ON_THE_PAGE), lambda match: f"var(--{_ON_THE_PAGE[match[0]]})", drawn)
    drawn = re.sub(r"(?<=[\d-])(\d*\.\d\d)\d+", r"\1", drawn)  # a hundredth of a point is finer than any screen
    drawn = drawn.replace("<svg ", '<svg aria-hidden="true" ', 1)
    return re.sub(r"\n\s*", "\n", drawn)


def save_figure(figure: Figure, path: str | Path) -> None:
    """The figure as a PNG file."""
    with figure_style():
        write_atomically(path, lambda temporary: figure.savefig(temporary, **_SAVING))


@contextmanager
def figure_style() -> Iterator[None]:
    """The report's look, while figures are drawn and saved; a letter that the font lacks is a box and no warning."""
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        yield


def slug(text: str) -> str:
    """A name as part of a file's name."""
    return re.sub(r"[^\w.+-]+", "_", text).strip("._") or "unnamed"


def short(text: str, longest: int = 32) -> str:
    """A name on one line, cut where it is too long."""
    text = " ".join(text.split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


def is_wide(width: float) -> bool:
    """Whether a drawing has the room of a page on a desk; otherwise it is made for a phone."""
    return width > 6


def panels(width: float, n: int, height: float, least: float = 3.0, share: bool = True) -> tuple[Figure, list[Axes]]:
    """A figure of `n` panels of that height, as many side by side as have `least` inches each."""
    columns = max(1, min(n, int(width / least)))
    rows = -(-n // columns)
    figure = Figure(figsize=(width, height * rows), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False, sharey=share).flat)
    for spare in axes[n:]:
        spare.remove()
    return figure, axes[:n]


def quiet(axis: Axes, ylabel: str = "", xlabel: str = "") -> None:
    """Only the lines that carry meaning."""
    axis.set_xlabel(xlabel)
    axis.set_ylabel(ylabel)
    axis.grid(True, color=GRID, linewidth=0.6)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def frame(axis: Axes, title: str) -> None:
    """A panel whose two directions have no meaning of their own."""
    axis.set_title(title)
    axis.set_xticks([])
    axis.set_yticks([])
    for side in axis.spines.values():
        side.set_color(GRID)
