"""A drawing of the two-branch network: what is computed from what, the sizes, and what each loss asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from firstsight.reporting.figure_style import INK, MUTED, Picture

VISUAL, SEMANTIC, JOINT, LOSS = "#56b4e9", "#e69f00", "#009e73", "#d55e00"
IN_PAPER = 1024  # dimensions of the joint space
Place = tuple[float, float]


def network_drawing(features: int | None = None, attributes: int | None = None, joint: int | None = None) -> Picture:
    """Both branches and both losses; sizes that are not given are letters, that of the joint space the paper's."""
    source = "in the paper" if joint is None else "in these records"
    size = joint or IN_PAPER
    return Picture(
        "architecture",
        "The two-branch network",
        f"Drawing: features go through one linear layer with ReLU, descriptions through two, both into a joint space "
        f"of {size} dimensions; one loss pulls rows to their class's description, a classifier keeps classes apart.",
        lambda width: _drawn(features, attributes, size, width),
        [
            f"The joint space has {size} dimensions, as {source}.",
            "Training alternates: a pass over the rows for φ and W with ψ fixed, then steps for ψ with φ fixed. The "
            "transductive method adds rows that it has labelled itself, more in every round.",
            "Added to both losses: η · squared norm of all weights. Named: the class with the nearest ψ(a).",
        ],
    )


def _drawn(features: int | None, attributes: int | None, joint: int, width: float) -> Figure:
    """Wide: both branches from left to right. Narrow: from top to bottom, side by side."""
    wide = width > 6
    hidden = f"{(attributes + joint) // 2}" if attributes else f"(a + {joint}) / 2"
    d, a = str(features or "d"), str(attributes or "a")
    figure = Figure(figsize=(width, 3.3 if wide else 5.6))
    axis = figure.add_axes((0, 0, 1, 1))
    axis.set_axis_off()
    axis.set(xlim=(0, width), ylim=(3.3 if wide else 5.6, 0))
    size = (1.5, 0.62) if wide else (1.45, 0.58)

    def box(step: float, branch: int, lines: Sequence[str], colour: str) -> Place:
        centre = (0.85 + 1.97 * step, 0.75 + 1.75 * branch) if wide else (0.85 + 1.95 * branch, 0.75 + 1.02 * step)
        corner = centre[0] - size[0] / 2, centre[1] - size[1] / 2
        look: Any = {"boxstyle": "round,pad=0,rounding_size=0.08", "facecolor": colour, "edgecolor": MUTED}
        axis.add_patch(FancyBboxPatch(corner, *size, alpha=0.45 if colour != "none" else 1, **look))
        axis.text(*centre, "\n".join(lines), ha="center", va="center", fontsize=8.5 if wide else 7.5, linespacing=1.4)
        return centre

    x = box(0, 0, ["features x", f"{d} numbers"], "none")
    visual = box(1.5, 0, ["φ: linear + ReLU", f"{d} → {joint}"], VISUAL)
    row = box(3, 0, ["φ(x)", f"{joint}"], JOINT)
    scores = box(4, 0, ["W: linear", f"{joint} → classes"], VISUAL)
    words = box(0, 1, ["description a", f"{a} numbers"], "none")
    first = box(1, 1, ["linear + ReLU", f"{a} → {hidden}"], SEMANTIC)
    second = box(2, 1, ["linear + ReLU", f"→ {joint}"], SEMANTIC)
    goal = box(3, 1, ["ψ(a)", f"{joint}"], JOINT)
    for ends in ((x, visual), (visual, row), (row, scores), (words, first), (first, second), (second, goal)):
        _arrow(axis, *ends, size, wide)
    _arrow(axis, row, goal, size, not wide, both=True)
    for place, text in ((x, "visual branch"), (words, "semantic branch ψ")):
        axis.text(place[0] - size[0] / 2, place[1] - size[1] / 2 - 0.1, text, fontsize=8.5, color=MUTED)
    compact = (goal[0] + 0.1, 1.62) if wide else (2.62, goal[1] + 0.62)
    separate = (scores[0] - 0.75, scores[1] + 0.5) if wide else (0.13, scores[1] + 0.48)
    _loss(axis, compact, ["compact:  mean ‖φ(x) − ψ(a)‖²", "pulls rows to the description of their class"], wide)
    _loss(axis, separate, ["separate:  λ · mean cross-entropy(W φ(x), y)"], wide)
    return figure


def _arrow(axis: Axes, start: Place, end: Place, size: Place, across: bool, both: bool = False) -> None:
    """From box to box, across the page or down it; the one between the two branches is a loss."""
    way = (size[0] / 2, 0.0) if across else (0.0, size[1] / 2)
    ends = (start[0] + way[0], start[1] + way[1]), (end[0] - way[0], end[1] - way[1])
    style, colour = ("<|-|>", LOSS) if both else ("-|>", INK)
    axis.add_patch(FancyArrowPatch(*ends, arrowstyle=style, mutation_scale=11, color=colour, shrinkA=1, shrinkB=1))


def _loss(axis: Axes, place: Place, lines: Sequence[str], wide: bool) -> None:
    x, y = place
    centred = "left" if wide else ("center" if len(lines) > 1 else "left")
    axis.text(x, y, lines[0], fontsize=8.5 if wide else 7, color=LOSS, va="center", ha=centred, weight="bold")
    for number, line in enumerate(lines[1:], start=1):
        axis.text(x, y + 0.19 * number, line, fontsize=8 if wide else 6.5, color=MUTED, va="center", ha=centred)
