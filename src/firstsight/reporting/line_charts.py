"""Accuracy as lines: after each round of pseudo-labelling, and against a parameter that a study changes."""

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
from matplotlib.ticker import MaxNLocator

from firstsight.experiments.records import Record, Round
from firstsight.reporting.figure_style import GRID, LINES, Picture, panels, quiet, slug
from firstsight.reporting.results import SETTINGS, TITLES, Results

Points = dict[float, list[float]]  # place on the horizontal axis → values of the seeds
_SYMBOLS = {"separation": "λ"}  # parameters that papers know by a letter


def rounds_chart(results: Results, dataset: str) -> Picture | None:
    """Accuracy of the pool, and of the pseudo-labels, after each round of methods that have rounds."""
    runs = [r for r in results.tables if r.dataset == dataset and r.status == "done" and r.rounds]
    methods = list(dict.fromkeys(r.method for r in runs))
    if not runs:
        return None
    lines = [_rounds([r for r in runs if r.method == method]) for method in methods]
    said = []
    for method, (accuracy, _) in zip(methods, lines, strict=True):
        ends = [f"{TITLES[m]} goes from {_first(p):.1f} to {_last(p):.1f}" for m, p in accuracy.items() if p]
        said.append((f"{method}: " if len(methods) > 1 else "") + (", ".join(ends) or "not recorded"))
    return Picture(
        f"rounds-{slug(dataset)}",
        f"{dataset}: round by round",
        f"Accuracy on {dataset} after each round of pseudo-labelling: {'; '.join(said)}.",
        lambda width: _drawn_rounds(methods, lines, width),
        [_over_seeds(p for accuracy, _ in lines for p in accuracy.values())],
    )


def _rounds(runs: list[Record]) -> tuple[dict[str, Points], dict[str, Points]]:
    """Of one method: metric → accuracy, and setting → accuracy of the pseudo-labels, both by round."""
    accuracy: dict[str, Points] = {metric: defaultdict(list) for metric in LINES}
    pseudo: dict[str, Points] = {setting: defaultdict(list) for setting in SETTINGS}
    for record in runs:
        for one in record.rounds or []:
            for metric in SETTINGS[record.setting]:
                if (value := _of(one, metric)) is not None:
                    accuracy[metric][one.round].append(value)
            if one.pseudo_label_accuracy is not None:
                pseudo[record.setting][one.round].append(one.pseudo_label_accuracy)
    return accuracy, pseudo


def _of(one: Record | Round, metric: str) -> float | None:
    return {"t1": one.t1, "ts": one.ts, "tr": one.tr, "h": one.h}[metric]


def _drawn_rounds(methods: list[str], lines: list[tuple[dict[str, Points], dict[str, Points]]], width: float) -> Figure:
    figure, axes = panels(width, 2 * len(methods), 3.4)
    looks = (("gzsl", "generalized", LINES["ts"]), ("zsl", "conventional", LINES["t1"]))
    for method, (accuracy, pseudo), left, right in zip(methods, lines, axes[::2], axes[1::2], strict=True):
        whose = f"{method}: " if len(methods) > 1 else ""
        for metric, points in accuracy.items():
            _line(left, points, TITLES[metric], **LINES[metric])
        for setting, title, look in looks:
            _line(right, pseudo[setting], title, **look)
        left.set_title(whose + "accuracy after each round" if whose else "Accuracy after each round")
        right.set_title(whose + "its pseudo-labels" if whose else "Accuracy of the pseudo-labels")
        places = [float(r) for points in (*accuracy.values(), *pseudo.values()) for r in points] or [1.0]
        for axis in (left, right):
            quiet(axis, ylabel="%", xlabel="round")
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
            axis.set_xlim(0.6, max(places) + 0.4)
            if axis.get_legend_handles_labels()[0]:
                axis.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.18))
    return figure


def study_chart(results: Results, dataset: str, study: str) -> Picture | None:
    """Accuracy against the parameter of a study, a panel per method; λ is called `separation`."""
    lines: dict[str, dict[str, Points]] = defaultdict(lambda: {metric: defaultdict(list) for metric in LINES})
    collapsed: dict[str, set[float]] = defaultdict(set)
    for record in results.studies:
        value = record.variant.get(study)
        if (record.dataset, record.study, record.status) != (dataset, study, "done"):
            continue
        if not isinstance(value, int | float) or isinstance(value, bool):
            continue
        if record.collapsed:
            collapsed[record.method].add(value)
        for metric in SETTINGS[record.setting]:
            if (figure := _of(record, metric)) is not None:
                lines[record.method][metric][value].append(figure)
    lines = {m: lines[m] for m in results.methods if m in lines}
    if not lines:
        return None
    values = sorted({v for own in lines.values() for p in own.values() for v in p}.union(*collapsed.values()))
    symbol = _SYMBOLS.get(study, study)
    drawn = [TITLES[metric] for metric in LINES if any(own[metric] for own in lines.values())]
    return Picture(
        f"study-{slug(study)}-{slug(dataset)}",
        f"{dataset}: sensitivity to {symbol}",
        f"{', '.join(drawn)} of {' and '.join(lines)} on {dataset} with {symbol} from {values[0]:g} to {values[-1]:g}.",
        lambda width: _drawn_study(lines, collapsed, values, study, width),
        [_over_seeds(p for own in lines.values() for p in own.values()), *_elsewhere(results, dataset, lines, study)],
    )


def _drawn_study(
    lines: dict[str, dict[str, Points]], collapsed: dict[str, set[float]], values: list[float], study: str, width: float
) -> Figure:
    place = _log_places(values)
    figure, axes = panels(width, len(lines), 3.5)
    handles: dict[str, Artist] = {}
    for axis, (method, own) in zip(axes, lines.items(), strict=True):
        for metric, points in own.items():
            _line(axis, {place[v]: p for v, p in points.items()}, TITLES[metric], **LINES[metric])
        for value in sorted(collapsed[method]):
            span = place[value] - 0.18, place[value] + 0.18
            axis.axvspan(*span, color=GRID, zorder=0, label="collapsed, or hardly trained")
        axis.set_xticks([place[v] for v in values], [f"{v:g}" for v in values])
        axis.set_title(method)
        quiet(axis, ylabel="%", xlabel=f"{_SYMBOLS[study]} ({study})" if study in _SYMBOLS else study)
        handles = {label: handle for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)} | handles
    # Once all panels are drawn, since they share the axis. Where all has collapsed, noise must not fill the picture.
    axes[0].set_ylim(0, max(10.0, axes[0].get_ylim()[1]))
    order = sorted(handles, key=[*TITLES.values(), *handles].index)
    columns = 5 if width > 6 else 3
    figure.legend([handles[label] for label in order], order, loc="outside lower center", ncols=columns)
    return figure


def _elsewhere(results: Results, dataset: str, methods: Iterable[str], study: str) -> list[str]:
    """Which value of a study's parameter the tables are made with."""
    own = [r.parameters.get(study) for r in results.tables if r.dataset == dataset and r.method in set(methods)]
    values = sorted({v for v in own if isinstance(v, int | float)})
    said = " or ".join(f"{v:g}" for v in values)
    return [f"In the tables of accuracies, {_SYMBOLS.get(study, study)} is {said}."] if values else []


def _line(axis: Axes, points: Points, label: str, **look: Any) -> None:
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
