"""The six-panel map: three spaces × all and unseen classes, from coordinates that the benchmark has computed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from firstsight.errors import BadInput, UnreadableFile
from firstsight.report.figures import COLOURS
from firstsight.report.picture import Picture, short, slug

SPACES = {"visual": "Visual space", "inductive": "Inductive embedding", "transductive": "Transductive embedding"}
WHICH = {"all": "seen and unseen classes", "unseen": "unseen classes"}
Arrays = Mapping[str, np.ndarray]
Maps = list[tuple[str, Arrays]]  # data set and arrays
MOST_NAMED = 24  # classes in a legend


def read_map(path: Path) -> Arrays:
    """The arrays of one map file, checked so far that they can be drawn."""
    try:
        with np.load(path, allow_pickle=False) as file:
            found = {name: file[name] for name in file.files}
    except Exception as error:  # NumPy, zipfile and zlib each have exceptions of their own for a damaged file
        raise UnreadableFile(f"{path} is not a map of `firstsight benchmark` ({error}); remove it.") from None
    for space in SPACES:
        for which in WHICH:
            if f"{space}_{which}_points" in found and not _fits(found, space, which):
                raise UnreadableFile(f"{path} is damaged: {space}_{which} does not fit its labels; remove it.")
    return found


def _fits(arrays: Arrays, space: str, which: str) -> bool:
    """Whether there is a place and a known class for each sample, and a place for each description or for none."""
    nothing = np.empty(0)
    labels, names = (arrays.get(f"{which}_{part}", nothing) for part in ("labels", "names"))
    points = arrays[f"{space}_{which}_points"]
    squares = arrays.get(f"{space}_{which}_classes", np.empty((0, 2)))
    return (
        _are_places(points)
        and _are_places(squares)
        and names.ndim == 1
        and labels.shape == points.shape[:1]
        and set(labels.tolist()) <= set(range(len(names)))
        and len(squares) in (0, len(names))
        and _seen(arrays, which).shape == names.shape
    )


def _are_places(points: np.ndarray) -> bool:
    fits = points.ndim == 2 and points.shape[1] == 2 and np.issubdtype(points.dtype, np.floating)
    return fits and bool(np.isfinite(points).all())


def read_maps(folder: Path, splits: Mapping[str, str]) -> Maps:
    """The data set and arrays of each map in `folder/maps`; `splits` are those of the records, by data set."""
    found = []
    for path in sorted((folder / "maps").glob("*.npz")):
        arrays = read_map(path)
        name, split = (str(arrays.get(key, default)) for key, default in (("dataset", path.stem), ("split", "")))
        if split and split != splits.get(name, split):
            raise BadInput(f"{path} is of another split than the records of {name}; remove it, or make it anew.")
        found.append((name, arrays))
    return found


def map_picture(arrays: Arrays, dataset: str) -> Picture | None:
    """Samples as dots, descriptions as squares, a colour per class; what is not there is left out."""
    spaces = [s for s in SPACES if any(f"{s}_{w}_points" in arrays for w in WHICH)]
    rows = [w for w in WHICH if any(f"{s}_{w}_points" in arrays for s in SPACES)]
    if not spaces:
        return None
    figure = Figure(figsize=(3.7 * len(spaces), 4.2 * len(rows)), layout="constrained")
    parts = figure.subfigures(len(rows), 1, squeeze=False)[:, 0]
    for part, which in zip(parts, rows, strict=True):
        names = [str(name) for name in arrays[f"{which}_names"]]
        axes = part.subplots(1, len(spaces), squeeze=False)[0]
        for axis, space in zip(axes, spaces, strict=True):
            if f"{space}_{which}_points" in arrays:
                _panel(axis, arrays, space, which, len(names))
            _frame(axis, f"{SPACES[space]}, {WHICH[which]}")
        if len(names) <= MOST_NAMED:
            numbers = [f"{i + 1} " if len(names) > len(COLOURS) else "" for i in range(len(names))]
            dots = [Line2D([], [], marker="o", linestyle="", color=_colour(i)) for i in range(len(names))]
            seen = _seen(arrays, which)
            ends = [" (seen)" if seen[i] and not seen.all() else "" for i in range(len(names))]
            labels = [number + short(name, 22) + end for number, name, end in zip(numbers, names, ends, strict=True)]
            part.legend(dots, labels, loc="outside lower center", ncols=min(len(names), 5), frameon=False, fontsize=8)
    notes = ["Samples are dots, descriptions squares; each panel is laid out by t-SNE, so only nearness has a meaning."]
    if "visual" in spaces and not any(len(arrays.get(f"visual_{which}_classes", ())) for which in rows):
        notes.append("Visual space has no squares: it holds features, and a description is no point of it.")
    most = max(len(arrays[f"{which}_names"]) for which in rows)
    if most > len(COLOURS):
        notes.append("Colours repeat" + ("; numbers tell the classes apart." if most <= MOST_NAMED else "."))
    return Picture(
        f"map-{slug(dataset)}",
        f"{dataset}: where samples and descriptions lie",
        f"Maps of {dataset} in {len(spaces)} spaces ({', '.join(SPACES[s].lower() for s in spaces)}), for "
        f"{' and for '.join(WHICH[w] for w in rows)}: samples as dots, class descriptions as squares.",
        figure,
        notes,
    )


def _seen(arrays: Arrays, which: str) -> np.ndarray:
    return arrays.get(f"{which}_seen", np.zeros(len(arrays[f"{which}_names"]), dtype=bool))


def _panel(axis: Axes, arrays: Arrays, space: str, which: str, n_classes: int) -> None:
    points = arrays[f"{space}_{which}_points"]
    squares = arrays.get(f"{space}_{which}_classes", np.empty((0, 2)))
    labels = arrays[f"{which}_labels"]
    size = float(np.clip(4000 / max(len(points), 1), 3, 12))
    for position in range(n_classes):
        own = points[labels == position]
        axis.scatter(own[:, 0], own[:, 1], s=size, color=_colour(position), alpha=0.6, linewidths=0)
        place = squares[position] if position < len(squares) else np.median(own, axis=0) if len(own) else None
        if position < len(squares):
            x, y = squares[position]
            axis.scatter(x, y, s=52, marker="s", color=_colour(position), edgecolors="black", zorder=3)
        if len(COLOURS) < n_classes <= MOST_NAMED and place is not None:
            number = axis.annotate(str(position + 1), place, (4, 4), textcoords="offset points", fontsize=7.5, zorder=4)
            number.set_path_effects([withStroke(linewidth=2, foreground="white")])


def _frame(axis: Axes, title: str) -> None:
    axis.set_title(title, fontsize=9.5)
    axis.set_xticks([])
    axis.set_yticks([])
    for side in axis.spines.values():
        side.set_color("#CCCCCC")


def _colour(position: int) -> str:
    return COLOURS[position % len(COLOURS)]
