"""What a picture of the report is, and the look that all of them share."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from firstsight.report.figures import SAVING

# Each measure keeps its colour, mark and stroke in every figure, so that colour is never the only difference.
LINES: dict[str, dict[str, str]] = {
    "t1": {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    "ts": {"color": "#D55E00", "marker": "s", "linestyle": "--"},
    "tr": {"color": "#009E73", "marker": "^", "linestyle": ":"},
    "h": {"color": "#000000", "marker": "D", "linestyle": "-."},
}


@dataclass(frozen=True)
class Picture:
    """A drawn figure; `name` is the stem of its file, `alt` tells what it shows to those who cannot see it."""

    name: str
    title: str
    alt: str
    figure: Figure
    notes: Sequence[str] = ()


def png_of(picture: Picture) -> bytes:
    file = io.BytesIO()
    with plain_text():
        picture.figure.savefig(file, **SAVING)
    return file.getvalue()


@contextmanager
def plain_text() -> Iterator[None]:
    """Draw names as they are: a dollar sign begins no formula, a letter that the font lacks is a box and no warning."""
    with matplotlib.rc_context({"text.parse_math": False}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        yield


def slug(text: str) -> str:
    """A name as part of a file's name."""
    return re.sub(r"[^\w.+-]+", "_", text).strip("._") or "unnamed"


def short(text: str, longest: int = 32) -> str:
    text = " ".join(text.split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


def quiet(axis: Axes, ylabel: str = "", xlabel: str = "") -> None:
    """Only the lines that carry meaning."""
    axis.set_xlabel(xlabel)
    axis.set_ylabel(ylabel)
    axis.grid(True, color="#DDDDDD", linewidth=0.6)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
