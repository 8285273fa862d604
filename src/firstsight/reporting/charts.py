"""Charts of a report: overview, mean ranks, seen-unseen curves, classes, rounds, studies, reliability."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import product
from statistics import mean, stdev
from typing import Any, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from firstsight.evaluation import METRICS, SETTINGS, TITLES
from firstsight.evaluation.calibration import Reliability
from firstsight.experiments.records import Record, SeenUnseen
from firstsight.reporting.accuracy_tables import RANKED, Ranking, verdict
from firstsight.reporting.figure_style import (
    COLOURS,
    FAINT,
    GRID,
    INK,
    LINES,
    MUTED,
    PAPER,
    RIGHT,
    WRONG,
    ReportFigure,
    figure_style,
    is_wide,
    panels,
    quiet,
    short,
    slug,
)
from firstsight.reporting.results import Results
from firstsight.reporting.run_tables import easiest_first

_SHOWN = ("t1", "h")  # the figure that each setting is judged by
_LEAST = 1.9  # inches of a panel
MOST_METHODS = 30  # in one panel; more cannot be read


def overview_chart(results: Results) -> ReportFigure | None:
    """Two marks per method, the highest mean T1 first; None without any figure."""
    figures: dict[str, dict[str, dict[str, float]]] = defaultdict(dict)  # data set → method → metric → mean over seeds
    for dataset, method, metric in product(results.datasets, results.methods, _SHOWN):
        if (value := results.mean_of(dataset, method, metric)) is not None:
            figures[dataset].setdefault(method, {})[metric] = value
    if not figures:
        return None
    tried = {m for of_dataset in figures.values() for m in of_dataset}
    order = sorted(tried, key=lambda m: (-_mean(figures, m, "t1"), -_mean(figures, m, "h"), m))
    leaders = [
        f"{max(of_dataset, key=lambda m: of_dataset[m].get('t1', -1.0))} on {d}" for d, of_dataset in figures.items()
    ]
    return ReportFigure(
        "overview",
        "T1 and H of every method",
        f"T1 and H of {len(order)} methods on {', '.join(figures)}. Highest T1: {', '.join(leaders)}.",
        lambda width: _draw_overview(results, figures, order[:MOST_METHODS], width),
        ["Means over seeds; the highest T1, mean over data sets, comes first."]
        + [f"The first {MOST_METHODS} of {len(order)} methods."] * (len(order) > MOST_METHODS),
    )


def _mean(figures: Mapping[str, Mapping[str, Mapping[str, float]]], method: str, metric: str) -> float:
    values = [of_dataset[method][metric] for of_dataset in figures.values() if metric in of_dataset.get(method, {})]
    return mean(values) if values else -1.0


def _draw_overview(
    results: Results, figures: dict[str, dict[str, dict[str, float]]], order: list[str], width: float
) -> Figure:
    beside = width >= 2 * _LEAST
    # Side by side, panels share the names at the left; one below the other, each has those that it knows.
    lines = [order if beside else [m for m in order if m in of_dataset] for of_dataset in figures.values()]
    if beside:
        figure, axes = panels(width, len(figures), 1.0 + 0.19 * len(order), least=_LEAST)
    else:
        heights = [1.0 + 0.19 * len(of_dataset) for of_dataset in lines]
        figure = Figure(figsize=(width, sum(heights)), layout="constrained")
        axes = list(figure.subplots(len(lines), 1, squeeze=False, height_ratios=heights).flat)
    for axis, (dataset, of_dataset), shown in zip(axes, figures.items(), lines, strict=True):
        for y, method in enumerate(shown):
            values = of_dataset.get(method, {})
            axis.plot(list(values.values()), [y] * len(values), color=GRID, linewidth=2, zorder=1)
            for metric, value in values.items():
                look = LINES[metric]
                axis.plot(value, y, look["marker"], color=look["color"], markersize=4.5, zorder=2)
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


_MARGIN, _LINE, _STEP = 2.3, 0.5, 0.21  # inches: for names at either side; of the axis from above; between names


def rank_chart(results: Results, ranking: Ranking) -> ReportFigure:
    """Demšar's plot of one comparison, the best method leftmost; on a phone, a row per method."""
    ranks, distance = ranking.comparison.ranks, ranking.comparison.critical_difference
    first, *_, last = ranks
    return ReportFigure(
        f"ranks-{slug(ranking.metric)}-{ranking.kind}",
        f"{RANKED[ranking.metric]}, {ranking.kind} methods: mean rank over {len(ranking.datasets)} data sets",
        f"Critical-difference plot of {len(ranks)} methods: best is {first} with a mean rank of {ranks[first]:.2f}, "
        f"last {last} with {ranks[last]:.2f}; the critical difference is {distance:.2f}.",
        lambda width: (_draw_ranks if is_wide(width) else _draw_ranks_narrow)(ranking, results.settings.ours, width),
        [f"A bar joins methods that differ by less than CD {distance:.2f} (Nemenyi, 5 %). {verdict(ranking)}"],
    )


def _draw_ranks(ranking: Ranking, ours: list[str], width: float) -> Figure:
    ranks, k = ranking.comparison.ranks, len(ranking.comparison.ranks)
    top, half = _LINE + 0.2 + 0.11 * len(ranking.comparison.alike), -(-k // 2)
    height = top + _STEP * half
    figure = Figure(figsize=(width, height))
    axis = figure.add_axes((0, 0, 1, 1))
    axis.set_axis_off()
    axis.set(xlim=(0, width), ylim=(height, 0))

    def at(rank: float) -> float:
        return _MARGIN + (rank - 1) / (k - 1) * (width - 2 * _MARGIN)

    axis.plot([at(1), at(k)], [_LINE, _LINE], color=INK, linewidth=1)
    for rank in range(1, k + 1, -(-k // 20)):
        axis.plot([at(rank)] * 2, [_LINE - 0.06, _LINE], color=INK, linewidth=0.8)
        axis.text(at(rank), _LINE - 0.09, str(rank), ha="center", va="bottom", fontsize=8.5)
    distance = ranking.comparison.critical_difference
    end = at(min(1 + distance, k))
    axis.plot([at(1), end], [0.12, 0.12], color=RIGHT, linewidth=2.5, solid_capstyle="butt")
    axis.text(end + 0.06, 0.12, f"CD {distance:.2f}", va="center", fontsize=8.5, color=RIGHT)
    for number, alike in enumerate(ranking.comparison.alike):
        ends, y = [at(ranks[alike[0]]) - 0.04, at(ranks[alike[-1]]) + 0.04], _LINE + 0.1 + 0.11 * number
        axis.plot(ends, [y, y], color=MUTED, linewidth=3.5, solid_capstyle="round", zorder=2)
    for number, (method, mean_rank) in enumerate(ranks.items()):
        left = number < half
        y = top + _STEP * (number if left else k - 1 - number)
        edge, away, side = (_MARGIN - 0.08, -0.04, "right") if left else (width - _MARGIN + 0.08, 0.04, "left")
        words = f"{short(method, 28)}  {mean_rank:.1f}" if left else f"{mean_rank:.1f}  {short(method, 28)}"
        x = at(mean_rank)
        axis.plot([x, x, edge], [_LINE, y, y], color=RIGHT if method in ours else GRID, linewidth=0.9)
        axis.plot(x, _LINE, "o", color=INK, markersize=3, zorder=3)
        weight = "bold" if method in ours else "normal"
        axis.text(edge + away, y, words, ha=side, va="center", fontsize=8.5, weight=weight)
    return figure


def _draw_ranks_narrow(ranking: Ranking, ours: list[str], width: float) -> Figure:
    ranks, k, distance = ranking.comparison.ranks, len(ranking.comparison.ranks), ranking.comparison.critical_difference
    order = list(ranks)
    figure, (axis,) = panels(width, 1, 0.8 + _STEP * k)
    for number, alike in enumerate(ranking.comparison.alike):
        x = k + 0.03 * k * (number + 1.5)
        rows = [order.index(alike[0]) - 0.2, order.index(alike[-1]) + 0.2]
        axis.plot([x, x], rows, color=MUTED, linewidth=3, solid_capstyle="round", clip_on=False)
    axis.plot(list(ranks.values()), range(k), "o", color=INK, markersize=4.5)
    axis.plot([1, min(1 + distance, k)], [-1, -1], color=RIGHT, linewidth=2.5, solid_capstyle="butt")
    axis.set_yticks([-1, *range(k)], [f"CD {distance:.2f}", *(f"{short(m, 28)}  {r:.1f}" for m, r in ranks.items())])
    for label, method in zip(axis.get_yticklabels()[1:], order, strict=True):
        label.set_fontweight("bold" if method in ours else "normal")
    axis.set(xlim=(0.5, k + 0.03 * k * (len(ranking.comparison.alike) + 1)), ylim=(k - 0.4, -1.6))
    quiet(axis, xlabel="mean rank")
    axis.tick_params(axis="y", length=0)
    return figure


MOST_CURVES = 6  # that are named; the others stay grey
_STROKES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3)))
LINE_COLOURS = [c for c in COLOURS if c not in ("#f0e442", "#7f7f7f")]  # yellow is faint, grey is taken


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


def trade_off_chart(results: Results, dataset: str) -> ReportFigure | None:
    """Seen against unseen accuracy as a constant is taken off the seen scores, from nothing seen to nothing unseen."""
    curves = {m: curve for m in results.methods if (curve := _curve(results, dataset, m))}
    if not curves:
        return None
    best = sorted(curves, key=lambda m: -(curves[m].area or 0.0))[:MOST_CURVES]
    crosses = sum(curves[m].calibrated() is not None for m in best)
    return ReportFigure(
        f"tradeoff-{slug(dataset)}",
        f"{dataset}: seen against unseen",
        f"Trade-off curves of {len(curves)} methods on {dataset}; the largest area has "
        f"{curves[best[0]].label(best[0])}.",
        lambda width: _draw_trade_off(curves, best, width),
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
    areas = [measured.ausuc for _, measured in runs if measured.ausuc is not None]
    points = sorted(measured.curve, key=lambda point: (point[0], -point[1]))
    return _Curve(np.array(points), mean(areas) if areas else None, run, measured)


def _draw_trade_off(curves: Mapping[str, _Curve], best: list[str], width: float) -> Figure:
    wide = is_wide(width)
    figure, (axis,) = panels(min(width, 6.8), 1, 4.8 if wide else 4.9)
    for method in (m for m in curves if m not in best):
        axis.plot(*curves[method].points.T, color=FAINT, linewidth=0.9)
    marks: dict[str, Any] = {"markeredgecolor": INK, "linestyle": ""}
    for method, colour, stroke in zip(best, LINE_COLOURS, _STROKES, strict=False):
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


MOST_CLASSES = 60  # in one chart; more cannot be read
MOST_PAIRS = 10


def class_chart(results: Results, dataset: str) -> ReportFigure | None:
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
    return ReportFigure(
        f"classes-{slug(dataset)}",
        f"{dataset}: accuracy per unseen class, easiest first",
        f"Accuracy of each of {len(shown)} unseen classes of {dataset} under {len(accuracies)} methods; the easiest "
        f"class is {shown[0]}, the hardest {shown[-1]}.",
        lambda width: _draw_classes(values, shown, [results.label(m) for m in accuracies], among, width),
        notes,
    )


def _draw_classes(values: np.ndarray, classes: list[str], methods: list[str], among: str, width: float) -> Figure:
    wide, width = is_wide(width), min(width, max(2.8 + 0.38 * len(methods), 5.0))
    labels = [short(method, 34 if wide else 18) for method in methods]
    figure, (axis,) = panels(width, 1, 1.0 + 0.2 * len(classes) + 0.06 * max(map(len, labels)))
    axis.set_facecolor(GRID)  # no value
    image = axis.imshow(np.ma.masked_invalid(values), cmap="cividis", vmin=0, vmax=100, aspect="auto")
    turned: Any = {"rotation": 60, "ha": "right", "rotation_mode": "anchor"} if wide else {"rotation": 90}
    axis.set_xticks(range(len(methods)), labels, **turned, fontsize=8 if wide else 6.5)
    names = [short(name, 32 if wide else 16) for name in classes]
    axis.set_yticks(range(len(classes)), names, fontsize=_size(classes, wide))
    axis.tick_params(length=0)
    axis.set_xticks(np.arange(len(methods) + 1) - 0.5, minor=True)
    axis.grid(which="minor", axis="x", color=PAPER, linewidth=1.2)
    axis.tick_params(which="minor", length=0)
    bar = figure.colorbar(image, ax=axis, location="top", shrink=0.7 if wide else 1.0, aspect=40, pad=0.01)
    bar.set_label(f"% of the class's rows named rightly{' ' if is_wide(width) else chr(10)}{among}")
    return figure


def confusion_chart(results: Results, dataset: str) -> ReportFigure | None:
    """The pairs that are confused most by the method that is highest in T1 of those with confusions."""
    methods, others = results.with_and_without_confusions(dataset)
    if not methods:
        return None
    leader = max(methods, key=lambda m: results.mean_of(dataset, m, "t1") or 0.0)
    pairs = list(results.confused_pairs(dataset, leader).items())[:MOST_PAIRS]
    (truth, predicted), count = pairs[0]
    notes = [f"No method of the {len(methods)} with confusions has a higher T1."] if len(methods) > 1 else []
    notes += [f"Without confusions in their records: {', '.join(others)}."] if others else []
    return ReportFigure(
        f"confusion-{slug(dataset)}",
        f"{dataset}: what {leader} confuses most",
        f"The {len(pairs)} pairs of unseen classes of {dataset} that {leader} confuses most; first {truth} named as "
        f"{predicted}, {count:.1f} rows per run.",
        lambda width: _draw_pairs(pairs, width),
        notes,
        is_small=True,
    )


def _draw_pairs(pairs: list[tuple[tuple[str, str], float]], width: float) -> Figure:
    wide = is_wide(width)
    figure, (axis,) = panels(min(width, 7.6), 1, 0.9 + (0.3 if wide else 0.42) * len(pairs))
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


Points = dict[float, list[float]]  # place on the horizontal axis → values of the seeds
_SYMBOLS = {"separation": "λ"}  # parameters that papers know by a letter


def rounds_chart(results: Results, dataset: str) -> ReportFigure | None:
    """Accuracy of the pool, and of the pseudo-labels, after each round of methods that have rounds."""
    runs = [r for r in results.tables if r.dataset == dataset and r.status == "done" and r.rounds]
    methods = list(dict.fromkeys(r.method for r in runs))
    if not runs:
        return None
    lines = [_rounds([r for r in runs if r.method == method]) for method in methods]
    said = []
    for method, (accuracy, _) in zip(methods, lines, strict=True):
        ends = [
            f"{TITLES[m]} goes from {mean(p[min(p)]):.1f} to {mean(p[max(p)]):.1f}" for m, p in accuracy.items() if p
        ]
        said.append((f"{method}: " if len(methods) > 1 else "") + (", ".join(ends) or "not recorded"))
    return ReportFigure(
        f"rounds-{slug(dataset)}",
        f"{dataset}: round by round",
        f"Accuracy on {dataset} after each round of pseudo-labelling: {'; '.join(said)}.",
        lambda width: _draw_rounds(methods, lines, width),
        [over_seeds(p for accuracy, _ in lines for p in accuracy.values())],
    )


def _rounds(runs: list[Record]) -> tuple[dict[str, Points], dict[str, Points]]:
    """Of one method: metric → accuracy, and setting → accuracy of the pseudo-labels, both by round."""
    accuracy: dict[str, Points] = {metric: defaultdict(list) for metric in LINES}
    pseudo: dict[str, Points] = {setting: defaultdict(list) for setting in SETTINGS}
    for record in runs:
        for result in record.rounds or []:
            for metric in METRICS[record.setting]:
                if (value := getattr(result, metric)) is not None:
                    accuracy[metric][result.round].append(value)
            if result.pseudo_label_accuracy is not None:
                pseudo[record.setting][result.round].append(result.pseudo_label_accuracy)
    return accuracy, pseudo


def _draw_rounds(methods: list[str], lines: list[tuple[dict[str, Points], dict[str, Points]]], width: float) -> Figure:
    figure, axes = panels(width, 2 * len(methods), 3.4)
    looks = (("gzsl", "generalized", LINES["ts"]), ("zsl", "conventional", LINES["t1"]))
    for method, (accuracy, pseudo), left, right in zip(methods, lines, axes[::2], axes[1::2], strict=True):
        whose = f"{method}: " if len(methods) > 1 else ""
        for metric, points in accuracy.items():
            draw_line(left, points, TITLES[metric], **LINES[metric])
        for setting, title, look in looks:
            draw_line(right, pseudo[setting], title, **look)
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


def study_chart(results: Results, dataset: str, study: str) -> ReportFigure | None:
    """Accuracy against the parameter of a study, a panel per method; λ is called `separation`."""
    lines: dict[str, dict[str, Points]] = defaultdict(lambda: {metric: defaultdict(list) for metric in LINES})
    collapsed: dict[str, set[float]] = defaultdict(set)
    for record in results.studies:
        if (record.dataset, record.study, record.status) != (dataset, study, "done"):
            continue
        value = record.variant.get(study)
        if not isinstance(value, int | float) or isinstance(value, bool):
            continue
        if record.collapsed:
            collapsed[record.method].add(value)
        for metric in METRICS[record.setting]:
            if (figure := getattr(record, metric)) is not None:
                lines[record.method][metric][value].append(figure)
    lines = {m: lines[m] for m in results.methods if m in lines}
    if not lines:
        return None
    values = sorted(
        {v for of_method in lines.values() for p in of_method.values() for v in p}.union(*collapsed.values())
    )
    symbol = _SYMBOLS.get(study, study)
    drawn = [TITLES[metric] for metric in LINES if any(of_method[metric] for of_method in lines.values())]
    used = [r.parameters.get(study) for r in results.tables if r.dataset == dataset and r.method in lines]
    in_tables = " or ".join(f"{v:g}" for v in sorted({v for v in used if isinstance(v, int | float)}))
    return ReportFigure(
        f"study-{slug(study)}-{slug(dataset)}",
        f"{dataset}: sensitivity to {symbol}",
        f"{', '.join(drawn)} of {' and '.join(lines)} on {dataset} with {symbol} from {values[0]:g} to {values[-1]:g}.",
        lambda width: _draw_study(lines, collapsed, values, study, width),
        [
            over_seeds(p for of_method in lines.values() for p in of_method.values()),
            *[f"In the tables of accuracies, {symbol} is {in_tables}."] * bool(in_tables),
        ],
    )


def _draw_study(
    lines: dict[str, dict[str, Points]], collapsed: dict[str, set[float]], values: list[float], study: str, width: float
) -> Figure:
    x = _log_positions(values)
    figure, axes = panels(width, len(lines), 3.5)
    handles: dict[str, Artist] = {}
    for axis, (method, of_method) in zip(axes, lines.items(), strict=True):
        for metric, points in of_method.items():
            draw_line(axis, {x[v]: p for v, p in points.items()}, TITLES[metric], **LINES[metric])
        for value in sorted(collapsed[method]):
            span = x[value] - 0.18, x[value] + 0.18
            axis.axvspan(*span, color=GRID, zorder=0, label="collapsed, or hardly trained")
        axis.set_xticks([x[v] for v in values], [f"{v:g}" for v in values])
        axis.set_title(method)
        quiet(axis, ylabel="%", xlabel=f"{_SYMBOLS[study]} ({study})" if study in _SYMBOLS else study)
        handles = {label: handle for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)} | handles
    # Once all panels are drawn, since they share the axis. Where all has collapsed, noise must not fill the picture.
    axes[0].set_ylim(0, max(10.0, axes[0].get_ylim()[1]))
    order = sorted(handles, key=[*TITLES.values(), *handles].index)
    columns = 5 if is_wide(width) else 3
    figure.legend([handles[label] for label in order], order, loc="outside lower center", ncols=columns)
    return figure


def draw_line(axis: Axes, points: Points, label: str, **look: Any) -> None:
    """Draw means over seeds as a line, one standard deviation as a band."""
    if not points:
        return
    places = sorted(points)
    means = np.array([mean(points[p]) for p in places])
    axis.plot(places, means, label=label, markersize=4.5, linewidth=1.6, **look)
    deviations = np.array([stdev(points[p]) if len(points[p]) > 1 else 0.0 for p in places])
    if deviations.any():
        axis.fill_between(places, means - deviations, means + deviations, color=look["color"], alpha=0.15, linewidth=0)


def _log_positions(values: list[float]) -> dict[float, float]:
    """Where values stand on a logarithmic axis; what has no logarithm stands before the smallest."""
    logs = {v: math.log10(v) for v in values if v > 0}
    start = min(logs.values(), default=0.0)
    others = [v for v in values if v <= 0]
    return logs | {v: start - 0.75 * (len(others) - i) for i, v in enumerate(others)}


def over_seeds(lines: Iterable[Points]) -> str:
    """Say what lines and bands are."""
    seeds = max((len(values) for points in lines for values in points.values()), default=1)
    return f"Mean over {seeds} seeds; the band is one standard deviation." if seeds > 1 else "One seed."


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
