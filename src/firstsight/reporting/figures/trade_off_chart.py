"""Seen against unseen accuracy as curves."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from firstsight.records.record_schema import Record, SeenUnseen
from firstsight.reporting.figures.figure_style import COLOURS, FAINT, INK, PAPER, Picture, quiet, short, slug
from firstsight.reporting.recorded_results import Results

MOST_CURVES = 6  # that are named; the others stay grey
_STROKES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3)))
_CURVE_COLOURS = [c for c in COLOURS if c not in ("#f0e442", "#7f7f7f")]  # yellow is faint, grey is taken


class _Curve(NamedTuple):
    points: np.ndarray  # (n, 2): ts, tr of the first seed
    area: float | None  # mean over seeds
    run: Record
    measured: SeenUnseen

    def label(self, method: str) -> str:
        return method if self.area is None else f"{method} ({self.area:.1f})"

    def calibrated(self) -> tuple[float, float] | None:
        fixed = self.measured.calibrated
        return (fixed.ts, fixed.tr) if fixed and fixed.ts is not None and fixed.tr is not None else None


def trade_off_chart(results: Results, dataset: str) -> Picture | None:
    """Seen against unseen accuracy as a constant is taken off the seen scores, from nothing seen to nothing unseen."""
    curves = {m: curve for m in results.methods if (curve := _curve(results, dataset, m))}
    if not curves:
        return None
    best = sorted(curves, key=lambda m: -(curves[m].area or 0.0))[:MOST_CURVES]
    crosses = sum(curves[m].calibrated() is not None for m in best)
    return Picture(
        f"tradeoff-{slug(dataset)}",
        f"{dataset}: seen against unseen",
        f"Trade-off curves of {len(curves)} methods on {dataset}; the largest area has "
        f"{curves[best[0]].label(best[0])}.",
        lambda width: _drawn(curves, best, width),
        [
            "Along a curve, a constant is taken off the scores of seen classes: to the right it is larger, and more "
            "rows are named as unseen classes.",
            "Curves and marks are of the first seed; the number behind a name is the area under its curve (AUSUC), its "
            "mean over seeds.",
            *(["A curve without a cross was not calibrated."] if 0 < crosses < len(best) else []),
        ],
        is_small=True,
    )


def _curve(results: Results, dataset: str, method: str) -> _Curve | None:
    runs = [(r, r.seen_unseen) for r in results.runs(dataset, method, "gzsl") if r.seen_unseen and r.seen_unseen.curve]
    if not runs:
        return None
    run, measured = runs[0]
    areas = [own.ausuc for _, own in runs if own.ausuc is not None]
    points = sorted(measured.curve, key=lambda point: (point[0], -point[1]))
    return _Curve(np.array(points), mean(areas) if areas else None, run, measured)


def _drawn(curves: Mapping[str, _Curve], best: list[str], width: float) -> Figure:
    wide = width > 6
    figure = Figure(figsize=(min(width, 6.8), 4.8 if wide else 4.9), layout="constrained")
    axis = figure.subplots()
    for method in (m for m in curves if m not in best):
        axis.plot(*curves[method].points.T, color=FAINT, linewidth=0.9)
    marks: dict[str, Any] = {"markeredgecolor": INK, "linestyle": ""}
    for method, colour, stroke in zip(best, _CURVE_COLOURS, _STROKES, strict=False):
        curve = curves[method]
        label = short(curve.label(method), 44)
        axis.plot(*curve.points.T, color=colour, linestyle=stroke, linewidth=2, label=label)
        if curve.run.ts is not None and curve.run.tr is not None:
            axis.plot(curve.run.ts, curve.run.tr, "o", color=colour, markersize=7, **marks)
        if fixed := curve.calibrated():
            axis.plot(*fixed, "X", color=colour, markersize=9, **marks)
    quiet(axis, xlabel="ts: unseen classes, %", ylabel="tr: seen classes, %")
    axis.set_xlim(left=0)
    axis.set_ylim(bottom=0)
    handles = axis.get_legend_handles_labels()[0]
    handles += [Line2D([], [], color=FAINT, label="the others")] if len(curves) > len(best) else []
    handles += [Line2D([], [], color=PAPER, marker="o", label="the method as it is", **marks)]
    if any(curves[m].calibrated() for m in best):
        words = "calibrated on validation classes"
        handles += [Line2D([], [], color=PAPER, marker="X", markersize=8, label=words, **marks)]
    figure.legend(handles=handles, loc="outside lower center", ncols=2 if wide else 1)
    return figure
