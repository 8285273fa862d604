"""Accuracy per round, sensitivity to a parameter, and the trade-off between seen and unseen classes, as lines."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from statistics import mean, stdev
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from firstsight.report.figures import COLOURS
from firstsight.report.picture import LINES, Picture, quiet, slug
from firstsight.report.results import SETTINGS, TITLES, Results

Points = dict[float, list[float]]  # place on the horizontal axis → values of the seeds
MOST_CURVES = 6


def rounds_chart(results: Results, dataset: str) -> Picture | None:
    """Accuracy of the pool, and of the pseudo-labels, after each round of the transductive method."""
    accuracy: dict[str, Points] = {metric: defaultdict(list) for metric in LINES}
    pseudo: dict[str, Points] = {setting: defaultdict(list) for setting in SETTINGS}
    for record in results.tables:
        if record["dataset"] != dataset or record["status"] != "done":
            continue
        for one in record["rounds"]:
            for metric in SETTINGS[record["setting"]]:
                if one.get(metric) is not None:
                    accuracy[metric][one["round"]].append(one[metric])
            if one.get("pseudo_label_accuracy") is not None:
                pseudo[record["setting"]][one["round"]].append(one["pseudo_label_accuracy"])
    if not any(accuracy.values()) and not any(pseudo.values()):
        return None
    figure = Figure(figsize=(9.6, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for metric, points in accuracy.items():
        _line(left, points, TITLES[metric], **LINES[metric])
    for setting, title, look in (("gzsl", "generalized", LINES["ts"]), ("zsl", "conventional", LINES["t1"])):
        _line(right, pseudo[setting], title, **look)
    left.set_title("Accuracy after each round", fontsize=10)
    right.set_title("Accuracy of the pseudo-labels used in the round", fontsize=10)
    for axis in (left, right):
        quiet(axis, ylabel="%" if axis is left else "", xlabel="round")
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.set_xlim(0.6, max(float(r) for points in (*accuracy.values(), *pseudo.values()) for r in points) + 0.4)
        if axis.get_legend_handles_labels()[0]:
            axis.legend(frameon=False, fontsize=9, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    said = [f"{TITLES[m]} goes from {_first(p):.1f} to {_last(p):.1f}" for m, p in accuracy.items() if p]
    return Picture(
        f"rounds-{slug(dataset)}",
        f"{dataset}: round by round",
        f"Accuracy on {dataset} after each round of pseudo-labelling: {', '.join(said) or 'not recorded'}.",
        figure,
        [_over_seeds(accuracy.values())],
    )


def study_chart(results: Results, dataset: str, study: str) -> Picture | None:
    """Accuracy against the parameter of a study, a panel per method; λ is called `separation`."""
    lines: dict[str, dict[str, Points]] = defaultdict(lambda: {metric: defaultdict(list) for metric in LINES})
    collapsed: dict[str, set[float]] = defaultdict(set)
    for record in results.studies:
        value = record["variant"].get(study)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if record["dataset"] != dataset or record["study"] != study or not number:
            continue
        if record["status"] != "done":
            continue
        if record["collapsed"]:
            collapsed[record["method"]].add(value)
        for metric in SETTINGS[record["setting"]]:
            if record[metric] is not None:
                lines[record["method"]][metric][value].append(record[metric])
    methods = [m for m in results.methods if m in lines]
    if not methods:
        return None
    values = sorted(
        {v for m in methods for points in lines[m].values() for v in points} | set().union(*collapsed.values())
    )
    place = _log_places(values)
    figure = Figure(figsize=(4.8 * max(len(methods), 1), 3.9), layout="constrained")
    axes = figure.subplots(1, len(methods), sharey=True, squeeze=False)[0]
    for axis, method in zip(axes, methods, strict=True):
        for metric, points in lines[method].items():
            _line(axis, {place[v]: p for v, p in points.items()}, TITLES[metric], **LINES[metric])
        for n_before, value in enumerate(sorted(collapsed[method])):
            axis.axvspan(
                place[value] - 0.18,
                place[value] + 0.18,
                color="#E2E2E2",
                zorder=0,
                label=None if n_before else "collapsed, or hardly trained",
            )
        axis.set_xticks([place[v] for v in values], [f"{v:g}" for v in values], fontsize=8)
        axis.set_title(method, fontsize=10)
        quiet(axis, ylabel="%" if axis is axes[0] else "", xlabel="λ (separation)" if study == "separation" else study)
    # Once all panels are drawn, since they share the axis. Where all has collapsed, noise must not fill the picture.
    axes[0].set_ylim(0, max(10.0, axes[0].get_ylim()[1]))
    handles: dict[str, Artist] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    title = "λ" if study == "separation" else study
    span = f"{values[0]:g} to {values[-1]:g}"
    drawn = [TITLES[metric] for metric in LINES if any(lines[m][metric] for m in methods)]
    return Picture(
        f"study-{slug(study)}-{slug(dataset)}",
        f"{dataset}: sensitivity to {title}",
        f"{', '.join(drawn)} of {' and '.join(methods)} on {dataset} with {title} from {span}.",
        figure,
        [_over_seeds(p for m in methods for p in lines[m].values()), *_elsewhere(results, dataset, methods, study)],
    )


def _elsewhere(results: Results, dataset: str, methods: list[str], study: str) -> list[str]:
    """Which value of a study's parameter the tables are made with."""
    own = [r["parameters"].get(study) for r in results.tables if r["dataset"] == dataset and r["method"] in methods]
    values = sorted({v for v in own if isinstance(v, int | float)})
    name = "λ" if study == "separation" else study
    return [f"In the tables above, {name} is {' or '.join(f'{v:g}' for v in values)}."] if values else []


def tradeoff_chart(results: Results, dataset: str) -> Picture | None:
    """Seen against unseen accuracy as a constant is taken off the seen scores, from nothing seen to nothing unseen."""
    curves: dict[str, list[list[float]]] = {}
    area: dict[str, float] = {}
    for method in results.methods:
        runs = [r for r in results.runs(dataset, method, "gzsl") if r["seen_unseen"].get("curve")]
        if runs:
            curves[method] = sorted(runs[0]["seen_unseen"]["curve"], key=lambda point: (point[0], -point[1]))
            areas = [r["seen_unseen"]["ausuc"] for r in runs if r["seen_unseen"].get("ausuc") is not None]
            area[method] = mean(areas) if areas else math.nan
    if not curves:
        return None
    best = sorted(curves, key=lambda m: -np.nan_to_num(area[m]))[:MOST_CURVES]
    figure = Figure(figsize=(6.8, 4.8), layout="constrained")
    axis = figure.subplots()
    strokes = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3)))
    for method in (m for m in curves if m not in best):
        axis.plot(*np.array(curves[method]).T, color="#BBBBBB", linewidth=0.9)
    colours = [c for c in COLOURS if c not in ("#F0E442", "#7F7F7F")]  # yellow is faint, grey is taken
    calibrated = 0
    for method, colour, stroke in zip(best, colours, strokes, strict=False):
        axis.plot(*np.array(curves[method]).T, color=colour, linestyle=stroke, linewidth=2, label=_with(area, method))
        run = next(r for r in results.runs(dataset, method, "gzsl") if r["seen_unseen"].get("curve"))
        if run["ts"] is not None and run["tr"] is not None:
            axis.plot(run["ts"], run["tr"], "o", color=colour, markeredgecolor="black", markersize=7)
        fixed = run["seen_unseen"].get("calibrated")
        if fixed and fixed.get("ts") is not None and fixed.get("tr") is not None:
            calibrated += 1
            axis.plot(fixed["ts"], fixed["tr"], "X", color=colour, markeredgecolor="black", markersize=9)
    quiet(axis, xlabel="ts: unseen classes, %", ylabel="tr: seen classes, %")
    axis.set_xlim(left=0)
    axis.set_ylim(bottom=0)
    marks: dict[str, Any] = {"color": "white", "markeredgecolor": "black", "linestyle": ""}
    handles = axis.get_legend_handles_labels()[0]
    handles += [Line2D([], [], color="#BBBBBB", label="the others")] if len(curves) > len(best) else []
    handles += [Line2D([], [], marker="o", label="the method as it is", **marks)]
    if calibrated:
        handles += [Line2D([], [], marker="X", markersize=8, label="calibrated on validation classes", **marks)]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize=8.5)
    return Picture(
        f"tradeoff-{slug(dataset)}",
        f"{dataset}: seen against unseen classes",
        f"Trade-off curves of {len(curves)} methods on {dataset}; the largest area has {_with(area, best[0])}.",
        figure,
        [
            "Along a curve, a constant is taken off the scores of seen classes: to the right it is larger, and more "
            "rows are named as unseen classes.",
            "Curves and marks are of the first seed; the number behind a name is the area under its curve (AUSUC), its "
            "mean over seeds.",
            *(["A curve without a cross was not calibrated."] if 0 < calibrated < len(best) else []),
        ],
    )


def _with(area: dict[str, float], method: str) -> str:
    return method if math.isnan(area[method]) else f"{method} ({area[method]:.1f})"


def _line(axis: Axes, points: Points, label: str, **look) -> None:
    if not points:
        return
    places = sorted(points)
    means = np.array([mean(points[p]) for p in places])
    axis.plot(places, means, label=label, markersize=4.5, linewidth=1.6, **look)
    deviations = np.array([stdev(points[p]) if len(points[p]) > 1 else 0.0 for p in places])
    if deviations.any():
        axis.fill_between(places, means - deviations, means + deviations, color=look["color"], alpha=0.15, linewidth=0)


def _log_places(values: list[float]) -> dict[float, float]:
    """Where values stand on a logarithmic axis; what has no logarithm stands before the smallest."""
    logs = {v: math.log10(v) for v in values if v > 0}
    start = min(logs.values(), default=0.0)
    others = [v for v in values if v <= 0]
    return logs | {v: start - 0.75 * (len(others) - i) for i, v in enumerate(others)}


def _first(points: Points) -> float:
    return mean(points[min(points)])


def _last(points: Points) -> float:
    return mean(points[max(points)])


def _over_seeds(lines: Iterable[Points]) -> str:
    seeds = max((len(values) for points in lines for values in points.values()), default=1)
    return f"Mean over {seeds} seeds; the band is one standard deviation." if seeds > 1 else "One seed."
