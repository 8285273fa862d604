"""All methods at a glance: T1 and H of each, a panel per data set."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from firstsight.reporting.figures.figure_style import GRID, LINES, Picture, panels, quiet, short
from firstsight.reporting.recorded_results import TITLES, Results

_SHOWN = ("t1", "h")  # the figure that each setting is judged by
MOST_METHODS = 30  # in one panel; more cannot be read


def overview_chart(results: Results) -> Picture | None:
    """Two marks per method, the highest T1 (or H) first; None without any figure."""
    found = {d: _figures(results, d) for d in results.datasets}
    found = {d: own for d, own in found.items() if own}
    if not found:
        return None
    leaders = [f"{next(iter(own))} on {dataset}" for dataset, own in found.items()]
    cut = any(len(own) > MOST_METHODS for own in found.values())
    return Picture(
        "overview",
        "T1 and H of every method",
        f"T1 and H of every method on {', '.join(found)}, best T1 first: {', '.join(leaders)}.",
        lambda width: _drawn(results, found, width),
        ["Means over seeds; sorted by T1."] + [f"The first {MOST_METHODS} of each data set."] * cut,
    )


def _figures(results: Results, dataset: str) -> dict[str, dict[str, float]]:
    """Method → metric → mean over seeds, best first."""
    found = {
        method: {metric: value for metric in _SHOWN if (value := results.mean_of(dataset, method, metric)) is not None}
        for method in results.methods
    }
    known = [method for method in found if found[method]]
    return {m: found[m] for m in sorted(known, key=lambda m: [-found[m].get(metric, -1.0) for metric in _SHOWN])}


def _drawn(results: Results, found: dict[str, dict[str, dict[str, float]]], width: float) -> Figure:
    most = min(max(map(len, found.values())), MOST_METHODS)
    figure, axes = panels(width, len(found), 1.0 + 0.19 * most, least=3.1, share=False)
    for axis, (dataset, own) in zip(axes, found.items(), strict=True):
        methods = list(own)[:MOST_METHODS]
        for place, method in enumerate(methods):
            values = own[method]
            axis.plot(list(values.values()), [place] * len(values), color=GRID, linewidth=2, zorder=1)
            for metric, value in values.items():
                look = LINES[metric]
                axis.plot(value, place, look["marker"], color=look["color"], markersize=4.5, zorder=2)
        axis.set_yticks(range(len(methods)), [short(results.label(m), 30) for m in methods])
        for label, method in zip(axis.get_yticklabels(), methods, strict=True):
            label.set_fontweight("bold" if method in results.settings.ours else "normal")
        axis.set_ylim(most - 0.4, -0.6)
        axis.set_xlim(left=0)
        axis.set_title(dataset)
        quiet(axis, xlabel="%")
        axis.grid(False, axis="y")
        axis.tick_params(axis="y", length=0)
    handles = [
        Line2D([], [], linestyle="", marker=LINES[m]["marker"], color=LINES[m]["color"], label=TITLES[m])
        for m in _SHOWN
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure
