"""A drawing of the two-branch network: what is computed from what, the sizes, and what each loss asks for."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from firstsight.report.picture import Picture

VISUAL, SEMANTIC, JOINT, LOSS = "#56B4E9", "#E69F00", "#009E73", "#D55E00"
IN_PAPER = 1024  # dimensions of the joint space


def architecture_picture(
    features: int | None = None, attributes: int | None = None, joint: int | None = None
) -> Picture:
    """Both branches and both losses; sizes that are not given are letters, that of the joint space the paper's."""
    source = "in the paper" if joint is None else "in these records"
    joint = joint or IN_PAPER
    hidden = f"{(attributes + joint) // 2}" if attributes else f"(a + {joint}) / 2"
    d, a = str(features or "d"), str(attributes or "a")
    figure = Figure(figsize=(10.4, 4.4), layout="constrained")
    axis = figure.subplots()
    axis.set(xlim=(-1, 106), ylim=(0, 45))
    axis.set_axis_off()
    picture = _box(axis, 0, 30, 15, ["features x", f"{d} numbers"], "#F4F4F4")
    visual = _box(axis, 28, 30, 21, ["φ: linear + ReLU", f"{d} → {joint}"], VISUAL)
    words = _box(axis, 0, 6, 15, ["description a", f"{a} numbers"], "#F4F4F4")
    first = _box(axis, 21, 6, 15, ["linear + ReLU", f"{a} → {hidden}"], SEMANTIC)
    second = _box(axis, 40, 6, 15, ["linear + ReLU", f"→ {joint}"], SEMANTIC)
    place = _box(axis, 62, 30, 13, ["φ(x)", f"{joint}"], JOINT)
    goal = _box(axis, 62, 6, 13, ["ψ(a)", f"{joint}"], JOINT)
    scores = _box(axis, 81, 30, 24, ["W: linear", f"{joint} → classes in training"], VISUAL)
    for start, end in ((picture, visual), (visual, place), (words, first), (first, second), (second, goal)):
        _arrow(axis, start[1], end[0])
    _arrow(axis, place[1], scores[0])
    axis.text(28, 40.5, "visual branch", fontsize=9, color="#333333")
    axis.text(21, 16.5, "semantic branch ψ", fontsize=9, color="#333333")
    axis.text(62, 40.5, "joint space", fontsize=9, color="#333333")
    middle = 68.5
    axis.add_patch(
        FancyArrowPatch(
            (middle, 15.2), (middle, 29.8), arrowstyle="<|-|>", mutation_scale=14, color=LOSS, linewidth=1.8
        )
    )
    _loss(axis, middle + 1.6, 22.5, ["compact:  mean ‖φ(x) − ψ(a)‖²", "pulls rows to the description of their class"])
    _loss(axis, 81, 41.2, ["separate:  λ · mean cross-entropy(W φ(x), y)"])
    axis.text(0, 0.6, "+ η · squared norm of all weights.   Named: the class with the nearest ψ(a).", fontsize=9)
    return Picture(
        "architecture",
        "The two-branch network",
        f"Drawing: features go through one linear layer with ReLU, descriptions through two, both into a joint space "
        f"of {joint} dimensions; one loss pulls rows to their class's description, a classifier keeps classes apart.",
        figure,
        [
            f"The joint space has {joint} dimensions, as {source}.",
            "Training alternates: a pass over the rows for φ and W with ψ fixed, then steps for ψ with φ fixed. The "
            "transductive method adds rows that it has labelled itself, more in every round.",
        ],
    )


def _box(axis: Axes, x: float, y: float, width: float, lines: Sequence[str], colour: str):
    """A box with text; gives where arrows come in and go out."""
    height = 9.0
    shape = FancyBboxPatch(
        (x, y), width, height, boxstyle="round,pad=0,rounding_size=1", facecolor=colour, edgecolor="#333333", alpha=0.75
    )
    axis.add_patch(shape)
    axis.text(x + width / 2, y + height / 2, "\n".join(lines), ha="center", va="center", fontsize=9, linespacing=1.5)
    return (x, y + height / 2), (x + width, y + height / 2)


def _arrow(axis: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axis.add_patch(
        FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=12, color="#333333", shrinkA=1, shrinkB=1)
    )


def _loss(axis: Axes, x: float, y: float, lines: Sequence[str]) -> None:
    axis.text(x, y, lines[0], fontsize=9, color="#A33F00", va="center", weight="bold")
    for number, line in enumerate(lines[1:], start=1):
        axis.text(x, y - 2.8 * number, line, fontsize=8.5, color="#333333", va="center")
