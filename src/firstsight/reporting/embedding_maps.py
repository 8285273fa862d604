"""Maps of embedding spaces, the drawing of the network, and the demo's figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.patheffects import withStroke

from firstsight.data.feature_files import read_arrays
from firstsight.errors import BadInput, UnreadableFile
from firstsight.reporting.figure_style import (
    COLOURS,
    INK,
    MANY_COLOURS,
    MUTED,
    PAPER,
    RIGHT,
    WRONG,
    ReportFigure,
    figure_style,
    frame,
    is_wide,
    short,
    slug,
)

SPACES = {"visual": "Visual space", "inductive": "Inductive embedding", "transductive": "Transductive embedding"}
WHICH = {"all": "seen and unseen classes", "unseen": "unseen classes"}
Arrays = Mapping[str, np.ndarray]
Maps = list[tuple[str, Arrays]]  # data set and arrays
MOST_NAMED = len(MANY_COLOURS)  # classes in a legend


def read_map(path: Path) -> Arrays:
    """The arrays of one map file, checked so far that they can be drawn."""
    keys = ["dataset", "split", *(f"{which}_{part}" for which in WHICH for part in ("labels", "names", "seen"))]
    keys += map("_".join, product(SPACES, WHICH, ("points", "classes")))
    try:
        arrays = read_arrays(path, keys)
    except UnreadableFile as error:
        raise UnreadableFile(f"{path} is not a map of `firstsight benchmark`; remove it. {error}") from None
    for space, which in product(SPACES, WHICH):
        if f"{space}_{which}_points" in arrays and not _fits(arrays, space, which):
            raise UnreadableFile(f"{path} is damaged: {space}_{which} does not fit its labels; remove it.")
    return arrays


def _fits(arrays: Arrays, space: str, which: str) -> bool:
    """Whether there is a place and a known class for each sample, and a place for each description or for none."""
    nothing = np.empty(0)
    labels, names = (arrays.get(f"{which}_{part}", nothing) for part in ("labels", "names"))
    points = arrays[f"{space}_{which}_points"]
    squares = arrays.get(f"{space}_{which}_classes", np.empty((0, 2)))
    return (
        _are_points(points)
        and _are_points(squares)
        and names.ndim == 1
        and labels.shape == points.shape[:1]
        and set(labels.tolist()) <= set(range(len(names)))
        and len(squares) in (0, len(names))
        and _seen(arrays, which).shape == names.shape
    )


def _are_points(points: np.ndarray) -> bool:
    fits = points.ndim == 2 and points.shape[1] == 2 and np.issubdtype(points.dtype, np.floating)
    return fits and bool(np.isfinite(points).all())


def read_maps(folder: Path, splits: Mapping[str, str]) -> Maps:
    """The data set and arrays of each map in `folder/maps`; `splits` are those of the records, by data set."""
    maps = []
    for path in sorted((folder / "maps").glob("*.npz")):
        arrays = read_map(path)
        name, split = (str(arrays.get(key, default)) for key, default in (("dataset", path.stem), ("split", "")))
        if split and split != splits.get(name, split):
            raise BadInput(f"{path} is of another split than the records of {name}; remove it, or make it again.")
        maps.append((name, arrays))
    return maps


def map_figure(dataset: str, arrays: Arrays) -> ReportFigure | None:
    """Samples as dots, descriptions as squares, a colour per class; what is not there is left out."""
    spaces = [s for s in SPACES if any(f"{s}_{w}_points" in arrays for w in WHICH)]
    rows = [w for w in WHICH if any(f"{s}_{w}_points" in arrays for s in SPACES)]
    if not spaces:
        return None
    notes = ["Samples are dots, descriptions squares; each panel is laid out by t-SNE, so only nearness has a meaning."]
    if "visual" in spaces and not any(len(arrays.get(f"visual_{which}_classes", ())) for which in rows):
        notes.append("Visual space has no squares: it holds features, and descriptions are not points in it.")
    most = max(len(arrays[f"{which}_names"]) for which in rows)
    if most > MOST_NAMED:
        notes.append("Colours repeat.")
    elif most > len(COLOURS):
        notes.append("Numbers tell classes of similar colour apart.")
    return ReportFigure(
        f"map-{slug(dataset)}",
        f"{dataset}: where samples and descriptions lie",
        f"Maps of {dataset} in {len(spaces)} spaces ({', '.join(SPACES[s].lower() for s in spaces)}), for "
        f"{' and for '.join(WHICH[w] for w in rows)}: samples as dots, class descriptions as squares.",
        lambda width: _draw(arrays, spaces, rows, width),
        notes,
    )


def _draw(arrays: Arrays, spaces: list[str], rows: list[str], width: float) -> Figure:
    wide = is_wide(width)
    columns = min(len(spaces), int(width / 3))
    lines = -(-len(spaces) // columns)
    legends = [-(-len(arrays[f"{which}_names"]) // (4 if wide else 2)) * 0.17 + 0.3 for which in rows]
    heights = [(width / columns) * lines + legend for legend in legends]
    figure = Figure(figsize=(width, sum(heights)), layout="constrained")
    parts = figure.subfigures(len(rows), 1, squeeze=False, height_ratios=heights)[:, 0]
    for part, which in zip(parts, rows, strict=True):
        axes = part.subplots(lines, columns, squeeze=False).flat
        for axis, space in zip(axes, spaces, strict=False):
            if f"{space}_{which}_points" in arrays:
                _panel(axis, arrays, space, which)
            frame(axis, SPACES[space])
        part.suptitle(WHICH[which].capitalize(), fontsize=10.5, weight="bold")
        _legend(part, arrays, which, 4 if wide else 2)
    return figure


def _legend(part: SubFigure, arrays: Arrays, which: str, columns: int) -> None:
    names, seen = [str(name) for name in arrays[f"{which}_names"]], _seen(arrays, which)
    if len(names) > MOST_NAMED:
        return
    numbered, mixed = len(names) > len(COLOURS), not seen.all()
    labels = [
        (f"{i + 1} " if numbered else "") + short(name, 22) + (" (seen)" if seen[i] and mixed else "")
        for i, name in enumerate(names)
    ]
    dots = [Line2D([], [], marker="o", linestyle="", color=_colour(i)) for i in range(len(names))]
    look: Any = {"fontsize": 8 if columns > 2 else 6.5, "columnspacing": 1}
    part.legend(dots, labels, loc="outside lower center", ncols=min(len(names), columns), **look)


def _seen(arrays: Arrays, which: str) -> np.ndarray:
    return arrays.get(f"{which}_seen", np.zeros(len(arrays[f"{which}_names"]), dtype=bool))


def _panel(axis: Axes, arrays: Arrays, space: str, which: str) -> None:
    points = arrays[f"{space}_{which}_points"]
    squares = arrays.get(f"{space}_{which}_classes", np.empty((0, 2)))
    labels, n_classes = arrays[f"{which}_labels"], len(arrays[f"{which}_names"])
    size = float(np.clip(4000 / max(len(points), 1), 3, 12))
    for position in range(n_classes):
        members = points[labels == position]
        axis.scatter(members[:, 0], members[:, 1], s=size, color=_colour(position), alpha=0.65, linewidths=0)
        anchor = np.median(members, axis=0) if len(members) else None
        if position < len(squares):
            anchor = squares[position]
            axis.scatter(anchor[0], anchor[1], s=52, marker="s", color=_colour(position), edgecolors=INK, zorder=3)
        if len(COLOURS) < n_classes <= MOST_NAMED and anchor is not None:
            text = str(position + 1)
            number = axis.annotate(text, anchor, (4, 4), textcoords="offset points", fontsize=7.5, zorder=4)
            number.set_path_effects([withStroke(linewidth=2, foreground=PAPER)])


def _colour(position: int) -> str:
    return MANY_COLOURS[position % len(MANY_COLOURS)]


VISUAL, SEMANTIC, JOINT, LOSS = "#56b4e9", "#e69f00", "#009e73", "#d55e00"
IN_PAPER = 1024  # dimensions of the joint space
Point = tuple[float, float]


def network_drawing(joint: int | None = None) -> ReportFigure:
    """Both branches and both losses; the joint space has the paper's size unless another is given."""
    source = "in the paper" if joint is None else "in these records"
    size = joint or IN_PAPER
    return ReportFigure(
        "architecture",
        "The two-branch network",
        f"Drawing: features go through one linear layer with ReLU, descriptions through two, both into a joint space "
        f"of {size} dimensions; one loss pulls rows to their class's description, a classifier keeps classes apart.",
        lambda width: _draw_network(size, width),
        [
            f"The joint space has {size} dimensions, as {source}.",
            "Training alternates: a pass over the rows for φ and W with ψ fixed, then steps for ψ with φ fixed. The "
            "transductive method adds rows that it has labelled itself, more in every round.",
            "Added to both losses: η · squared norm of all weights. Named: the class with the nearest ψ(a).",
        ],
    )


def _draw_network(joint: int, width: float) -> Figure:
    """Wide: both branches from left to right. Narrow: from top to bottom, side by side."""
    wide = is_wide(width)
    figure = Figure(figsize=(width, 3.3 if wide else 5.6))
    axis = figure.add_axes((0, 0, 1, 1))
    axis.set_axis_off()
    axis.set(xlim=(0, width), ylim=(3.3 if wide else 5.6, 0))
    size = (1.5, 0.62) if wide else (1.45, 0.58)

    def box(step: float, branch: int, lines: Sequence[str], colour: str) -> Point:
        centre = (0.85 + 1.97 * step, 0.75 + 1.75 * branch) if wide else (0.85 + 1.95 * branch, 0.75 + 1.02 * step)
        corner = centre[0] - size[0] / 2, centre[1] - size[1] / 2
        look: Any = {"boxstyle": "round,pad=0,rounding_size=0.08", "facecolor": colour, "edgecolor": MUTED}
        axis.add_patch(FancyBboxPatch(corner, *size, alpha=0.45 if colour != "none" else 1, **look))
        axis.text(*centre, "\n".join(lines), ha="center", va="center", fontsize=8.5 if wide else 7.5, linespacing=1.4)
        return centre

    x = box(0, 0, ["features x", "d numbers"], "none")
    visual = box(1.5, 0, ["φ: linear + ReLU", f"d → {joint}"], VISUAL)
    row = box(3, 0, ["φ(x)", str(joint)], JOINT)
    scores = box(4, 0, ["W: linear", f"{joint} → classes"], VISUAL)
    words = box(0, 1, ["description a", "a numbers"], "none")
    first = box(1, 1, ["linear + ReLU", f"a → (a + {joint}) / 2"], SEMANTIC)
    second = box(2, 1, ["linear + ReLU", f"→ {joint}"], SEMANTIC)
    goal = box(3, 1, ["ψ(a)", str(joint)], JOINT)
    for ends in ((x, visual), (visual, row), (row, scores), (words, first), (first, second), (second, goal)):
        _arrow(axis, *ends, size, wide)
    _arrow(axis, row, goal, size, not wide, both=True)
    for corner, text in ((x, "visual branch"), (words, "semantic branch ψ")):
        axis.text(corner[0] - size[0] / 2, corner[1] - size[1] / 2 - 0.1, text, fontsize=8.5, color=MUTED)
    compact = (goal[0] + 0.1, 1.62) if wide else (2.62, goal[1] + 0.62)
    separate = (scores[0] - 0.75, scores[1] + 0.5) if wide else (0.13, scores[1] + 0.48)
    _loss(axis, compact, ["compact:  mean ‖φ(x) − ψ(a)‖²", "pulls rows to the description of their class"], wide)
    _loss(axis, separate, ["separate:  λ · mean cross-entropy(W φ(x), y)"], wide)
    return figure


def _arrow(axis: Axes, start: Point, end: Point, size: Point, across: bool, both: bool = False) -> None:
    """From box to box, across the page or down it; the one between the two branches is a loss."""
    way = (size[0] / 2, 0.0) if across else (0.0, size[1] / 2)
    ends = (start[0] + way[0], start[1] + way[1]), (end[0] - way[0], end[1] - way[1])
    style, colour = ("<|-|>", LOSS) if both else ("-|>", INK)
    axis.add_patch(FancyArrowPatch(*ends, arrowstyle=style, mutation_scale=11, color=colour, shrinkA=1, shrinkB=1))


def _loss(axis: Axes, position: Point, lines: Sequence[str], wide: bool) -> None:
    x, y = position
    centred = "left" if wide else ("center" if len(lines) > 1 else "left")
    axis.text(x, y, lines[0], fontsize=8.5 if wide else 7, color=LOSS, va="center", ha=centred, weight="bold")
    for number, line in enumerate(lines[1:], start=1):
        axis.text(x, y + 0.19 * number, line, fontsize=8 if wide else 6.5, color=MUTED, va="center", ha=centred)


def embedding_map(
    panels: Mapping[str, tuple[np.ndarray, np.ndarray | None]],
    labels: np.ndarray,
    class_names: Sequence[str],
    title: str = "",
    random_state: int = 0,
) -> Figure:
    """One panel per space: samples as dots and, where the space has them, descriptions as squares.

    `panels` gives each title its sample embeddings (n, e) and class embeddings (k, e) or None; `labels (n,)` are
    positions in `class_names`, of which there may be as many as COLOURS. Each panel is laid out by t-SNE.
    """
    from sklearn.manifold import TSNE

    if len(class_names) > len(COLOURS):
        raise BadInput(
            f"The map has colours for {len(COLOURS)} classes and was given {len(class_names)}; choose some of them."
        )
    with figure_style():
        figure = Figure(figsize=(4.2 * len(panels), 4.3), layout="constrained")
        figure.suptitle(title, fontsize=11)
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axis, (space, (samples, classes)) in zip(axes, panels.items(), strict=True):
            points = samples if classes is None else np.concatenate([samples, classes])
            layout = TSNE(perplexity=min(30, (len(points) - 1) / 3), random_state=random_state, init="pca")
            flat = layout.fit_transform(points)
            for position, name in enumerate(class_names):
                members, colour = flat[: len(samples)][labels == position], COLOURS[position]
                axis.scatter(*members.T, s=9, color=colour, alpha=0.65, linewidths=0, label=name)
                if classes is not None:
                    axis.scatter(*flat[len(samples) + position], s=90, marker="s", color=colour, edgecolors="black")
            frame(axis, space)
        handles, names = axes[0].get_legend_handles_labels()
        legend = figure.legend(handles, names, loc="outside lower center", ncols=len(class_names))
    for handle in legend.legend_handles:
        handle.set(sizes=[40], alpha=1)  # type: ignore[union-attr]
    return figure


def sample_predictions(
    images: np.ndarray, truth: Sequence[str], answers: Mapping[str, Sequence[str]], title: str, columns: int = 12
) -> Figure:
    """Pictures with their true class and, per method, the answer: blue where right, vermilion where wrong."""
    rows = -(-len(images) // columns)
    height = 1.15 + 0.22 * len(answers)
    with figure_style():
        figure = Figure(figsize=(1.05 * columns, height * rows + 0.5), layout="constrained")
        figure.suptitle(title, fontsize=11)
        for axis in figure.subplots(rows, columns, squeeze=False).flat:
            axis.set_axis_off()
        for number, (axis, image) in enumerate(zip(figure.axes, images, strict=False)):
            axis.imshow(image, cmap="gray_r", vmin=0, vmax=255)
            axis.set_title(truth[number], fontsize=11)
            for line, (method, guesses) in enumerate(answers.items()):
                right = guesses[number] == truth[number]
                words = f"{method}: {guesses[number]} {'✓' if right else '✗'}"
                look: Any = {"color": RIGHT if right else WRONG, "ha": "center", "va": "top", "fontsize": 8}
                axis.text(0.5, -0.06 - 0.2 * line, words, transform=axis.transAxes, **look)
    return figure
