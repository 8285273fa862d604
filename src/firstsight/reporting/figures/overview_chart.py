"""All methods at a glance: T1 and H of each, a panel per data set."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from firstsight.reporting.figures.figure_style import GRID, LINES, Picture, panels, quiet, short
from firstsight.reporting.recorded_results import TITLES, Results

_SHOWN = ("t1", "h")  # the figure that each setting is judged by
_LEAST = 1.9  # inches of a panel
MOST_METHODS = 30  # in one panel; more cannot be read


def overview_chart(results: Results) -> Picture | None:
    """Two marks per method, the highest mean T1 first; None without any figure."""
    figures = {d: _figures(results, d) for d in results.datasets}
    figures = {d: own for d, own in figures.items() if own}
    if not figures:
        return None
    tried = {m for own in figures.values() for m in own}
    order = sorted(tried, key=lambda m: (-_mean(figures, m, "t1"), -_mean(figures, m, "h"), m))
    leaders = [f"{max(own, key=lambda m: own[m].get('t1', -1.0))} on {d}" for d, own in figures.items()]
    return Picture(
        "overview",
        "T1 and H of every method",
        f"T1 and H of {len(order)} methods on {', '.join(figures)}. Highest T1: {', '.join(leaders)}.",
        lambda width: _drawn(results, figures, order[:MOST_METHODS], width),
        ["Means over seeds; the highest T1, mean over data sets, comes first."]
        + [f"The first {MOST_METHODS} of {len(order)} methods."] * (len(order) > MOST_METHODS),
    )


def _figures(results: Results, dataset: str) -> dict[str, dict[str, float]]:
    """Method → metric → mean over seeds."""
    figures = {
        method: {metric: value for metric in _SHOWN if (value := results.mean_of(dataset, method, metric)) is not None}
        for method in results.methods
    }
    return {method: own for method, own in figures.items() if own}


def _mean(figures: Mapping[str, Mapping[str, Mapping[str, float]]], method: str, metric: str) -> float:
    values = [own[method][metric] for own in figures.values() if metric in own.get(method, {})]
    return mean(values) if values else -1.0


def _drawn(results: Results, figures: dict[str, dict[str, dict[str, float]]], order: list[str], width: float) -> Figure:
    beside = width >= 2 * _LEAST
    # Side by side, panels share the names at the left; one below the other, each has those that it knows.
    lines = [order if beside else [m for m in order if m in own] for own in figures.values()]
    if beside:
        figure, axes = panels(width, len(figures), 1.0 + 0.19 * len(order), least=_LEAST)
    else:
        heights = [1.0 + 0.19 * len(own) for own in lines]
        figure = Figure(figsize=(width, sum(heights)), layout="constrained")
        axes = list(figure.subplots(len(lines), 1, squeeze=False, height_ratios=heights).flat)
    for axis, (dataset, own), shown in zip(axes, figures.items(), lines, strict=True):
        for place, method in enumerate(shown):
            values = own.get(method, {})
            axis.plot(list(values.values()), [place] * len(values), color=GRID, linewidth=2, zorder=1)
            for metric, value in values.items():
                look = LINES[metric]
                axis.plot(value, place, look["marker"], color=look["color"], markersize=4.5, zorder=2)
        axis.set_yticks(range(len(shown)), [short(results.label(m), 30) for m in shown])
        for label, method in zip(axis.get_yticklabels(), shown, strict=False):  # of the first column alone
            label.set_fontweight("bold" if method in results.settings.ours else "normal")
        axis.set_ylim(len(shown) - 0.4, -0.6)
        axis.set_xlim(left=0)
        axis.set_title(dataset)
        quiet(axis, xlabel="%")
        axis.grid(False, axis="y")
        axis.tick_params(axis="y", length=0)
    looks = {TITLES[m]: LINES[m] for m in _SHOWN}
    handles = [Line2D([], [], linestyle="", marker=o["marker"], color=o["color"], label=t) for t, o in looks.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure
