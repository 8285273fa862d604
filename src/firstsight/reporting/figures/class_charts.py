"""Accuracy per class and method as colours, and the pairs of classes that are confused most as bars."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from firstsight.reporting.figures.figure_style import GRID, PAPER, Picture, quiet, short, slug
from firstsight.reporting.recorded_results import Results
from firstsight.reporting.tables.class_tables import easiest_first

MOST_CLASSES = 60  # in one chart; more cannot be read
MOST_PAIRS = 10


def class_chart(results: Results, dataset: str) -> Picture | None:
    """Unseen classes × methods, as colours."""
    among, accuracies = "among unseen classes (T1)", results.class_accuracies(dataset, "t1")
    if not accuracies:
        among, accuracies = "among all classes (ts)", results.class_accuracies(dataset, "ts")
    if not accuracies:
        return None
    order = easiest_first(accuracies)
    shown = order if len(order) <= MOST_CLASSES else order[: MOST_CLASSES // 2] + order[-MOST_CLASSES // 2 :]
    values = np.array([[accuracies[m].get(name, np.nan) for m in accuracies] for name in shown])
    notes = [] if len(shown) == len(order) else [f"The {len(shown) // 2} easiest and hardest of {len(order)} classes."]
    return Picture(
        f"classes-{slug(dataset)}",
        f"{dataset}: accuracy per unseen class, easiest first",
        f"Accuracy of each of {len(shown)} unseen classes of {dataset} under {len(accuracies)} methods; the easiest "
        f"class is {shown[0]}, the hardest {shown[-1]}.",
        lambda width: _drawn_classes(values, shown, [results.label(m) for m in accuracies], among, width),
        notes,
    )


def _drawn_classes(values: np.ndarray, classes: list[str], methods: list[str], among: str, width: float) -> Figure:
    wide, width = width > 6, min(width, max(2.8 + 0.38 * len(methods), 5.0))
    labels = [short(method, 34 if wide else 18) for method in methods]
    height = 1.0 + 0.2 * len(classes) + 0.06 * max(map(len, labels))
    figure = Figure(figsize=(width, height), layout="constrained")
    axis = figure.subplots()
    axis.set_facecolor(GRID)  # no value
    image = axis.imshow(np.ma.masked_invalid(values), cmap="cividis", vmin=0, vmax=100, aspect="auto")
    turned: Any = (
        {"rotation": 60, "ha": "right", "rotation_mode": "anchor"} if wide else {"rotation": 90, "ha": "center"}
    )
    axis.set_xticks(range(len(methods)), labels, **turned, fontsize=8 if wide else 6.5)
    axis.set_yticks(
        range(len(classes)), [short(name, 32 if wide else 16) for name in classes], fontsize=_size(classes, wide)
    )
    axis.tick_params(length=0)
    axis.set_xticks(np.arange(len(methods) + 1) - 0.5, minor=True)
    axis.grid(which="minor", axis="x", color=PAPER, linewidth=1.2)
    axis.tick_params(which="minor", length=0)
    bar = figure.colorbar(image, ax=axis, location="top", shrink=0.7 if wide else 1.0, aspect=40, pad=0.01)
    bar.set_label(f"% of the class's rows named rightly{' ' if width > 6 else chr(10)}{among}")
    return figure


def confusion_chart(results: Results, dataset: str) -> Picture | None:
    """The pairs that are confused most by the method that is highest in T1 of those with confusions."""
    methods, others = results.with_and_without_confusions(dataset)
    if not methods:
        return None
    leader = max(methods, key=lambda m: results.mean_of(dataset, m, "t1") or 0.0)
    pairs = list(results.confused_pairs(dataset, leader).items())[:MOST_PAIRS]
    (truth, predicted), count = pairs[0]
    notes = [f"No method of the {len(methods)} with confusions has a higher T1."] if len(methods) > 1 else []
    notes += [f"Without confusions in their records: {', '.join(others)}."] if others else []
    return Picture(
        f"confusion-{slug(dataset)}",
        f"{dataset}: what {leader} confuses most",
        f"The {len(pairs)} pairs of unseen classes of {dataset} that {leader} confuses most; first {truth} named as "
        f"{predicted}, {count:.1f} rows per run.",
        lambda width: _drawn_pairs(pairs, width),
        notes,
        is_small=True,
    )


def _drawn_pairs(pairs: list[tuple[tuple[str, str], float]], width: float) -> Figure:
    wide = width > 6
    figure = Figure(figsize=(min(width, 7.6), 0.9 + (0.3 if wide else 0.42) * len(pairs)), layout="constrained")
    axis = figure.subplots()
    counts = [count for _, count in pairs]
    bars = axis.barh(range(len(pairs)), counts, color="#56b4e9", height=0.7)
    axis.bar_label(bars, [f"{count:.1f}".removesuffix(".0") for count in counts], padding=3, fontsize=8)
    on_one_line = wide or all(len(name) <= 8 for pair, _ in pairs for name in pair)
    between, longest = ("  →  ", 32) if on_one_line else ("\n→ ", 24)
    names = [short(truth, longest) + between + short(predicted, longest) for (truth, predicted), _ in pairs]
    axis.set_yticks(range(len(pairs)), names, fontsize=_size([name for pair, _ in pairs for name in pair], wide))
    axis.invert_yaxis()
    axis.margins(x=0.12)
    quiet(axis, xlabel="rows per run (true class → named as)" if wide else "rows per run (true → named)")
    axis.grid(False, axis="y")
    return figure


def _size(names: list[str], wide: bool) -> float:
    """The size of class names beside a chart: of single letters, the accents must be told apart."""
    return 11 if max(map(len, names)) <= 3 else 8 if wide else 7
