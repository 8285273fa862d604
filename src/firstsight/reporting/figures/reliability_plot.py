"""The reliability plot: how often answers are right that were given with such confidence."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from firstsight.evaluation.reliability import Reliability
from firstsight.reporting.figures.figure_style import RIGHT, WRONG, figure_style


def reliability_plot(measured: Reliability, title: str = "") -> Figure:
    """Accuracy against confidence, one bar per bin, with the share of rows per bin below; the diagonal is ideal."""
    with figure_style():
        figure = Figure(figsize=(4.6, 5.2), layout="constrained")
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
        edges = np.linspace(0, 1, len(measured.share) + 1)
        filled = measured.share > 0
        left, width = edges[:-1][filled], np.diff(edges)[filled]
        upper.bar(left, measured.accuracy[filled], width, align="edge", color=RIGHT, alpha=0.35, edgecolor=RIGHT)
        upper.plot(
            measured.confidence[filled], measured.accuracy[filled], "o-", color=RIGHT, markersize=4, label="measured"
        )
        upper.plot([0, 1], [0, 1], "--", color=WRONG, linewidth=1, label="ideal")
        upper.set(ylabel="share of answers that are right", xlim=(0, 1), ylim=(0, 1))
        upper.set_title(f"{title}\nexpected calibration error {measured.ece:.3f} ({len(measured.share)} bins)".strip())
        upper.legend(loc="upper left")
        lower.bar(left, measured.share[filled], width, align="edge", color="#7F7F7F", alpha=0.6)
        lower.set(xlabel="confidence of the answer", ylabel="share of rows")
        for axis in (upper, lower):
            axis.spines[["top", "right"]].set_visible(False)
    return figure
