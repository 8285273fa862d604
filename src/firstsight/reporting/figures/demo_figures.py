"""The demo's two figures, from arrays: a map of the embedding, and pictures with the answers to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from firstsight.errors import BadInput
from firstsight.reporting.figures.figure_style import COLOURS, RIGHT, WRONG, figure_style, frame


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
                own, colour = flat[: len(samples)][labels == position], COLOURS[position]
                axis.scatter(*own.T, s=9, color=colour, alpha=0.65, linewidths=0, label=name)
                if classes is not None:
                    axis.scatter(*flat[len(samples) + position], s=90, marker="s", color=colour, edgecolors="black")
            frame(axis, space)
        handles, names = axes[0].get_legend_handles_labels()
        legend = figure.legend(handles, names, loc="outside lower center", ncols=len(class_names))
    for handle in legend.legend_handles:
        handle.set(sizes=[40], alpha=1)  # type: ignore[union-attr]
    return figure


def sample_predictions(
    images: np.ndarray,
    truth: Sequence[str],
    answers: Mapping[str, Sequence[str]],
    title: str,
    columns: int = 12,
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
