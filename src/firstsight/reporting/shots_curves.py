"""Accuracy by the number of labelled samples per unseen class: a table, and a figure for each data set."""

from __future__ import annotations

from collections import defaultdict
from statistics import mean

from matplotlib.figure import Figure

from firstsight.evaluation import TITLES
from firstsight.reporting.charts import LINE_COLOURS, Points, draw_line, over_seeds
from firstsight.reporting.figure_style import ReportFigure, is_wide, panels, quiet, short, slug
from firstsight.reporting.results import Results
from firstsight.reporting.table import Column, Row, Table, TableCell, spread, words

SHOWN = ("t1", "h")
_STROKES = (("-", "o"), ("--", "s"), ("-.", "^"), (":", "D"), ("-", "v"), ("--", "X"))
Curves = dict[str, dict[str, Points]]  # metric → method → shots → values of the draws


def curves_of(results: Results, dataset: str) -> Curves:
    """Return T1 and H of the draws by metric, method and number of shots; the highest method comes first."""
    curves: Curves = {metric: defaultdict(lambda: defaultdict(list)) for metric in SHOWN}
    for record in results.few_shot:
        for metric in SHOWN:
            if record.dataset == dataset and (value := getattr(record, metric)) is not None:
                curves[metric][record.method][record.variant["shots"]].append(value)

    def last(method: str) -> float:
        of_method = next(curves[metric][method] for metric in SHOWN if method in curves[metric])
        return mean(of_method[max(of_method)])

    order = sorted({method for of_metric in curves.values() for method in of_metric}, key=lambda m: (-last(m), m))
    return {metric: {m: of_metric[m] for m in order if m in of_metric} for metric, of_metric in curves.items()}


def few_shot_table(results: Results) -> Table | None:
    """T1 and H with so many labelled samples of each unseen class; the highest mean of a column is marked."""
    by_dataset = {dataset: curves_of(results, dataset) for dataset in results.few_shot_datasets}
    shots = sorted({k for curves in by_dataset.values() for of in curves.values() for p in of.values() for k in p})
    if not shots:
        return None
    pairs = [(metric, k) for metric in SHOWN for k in shots]
    rows: list[Row] = []
    tidy = []
    for dataset, curves in by_dataset.items():
        methods = dict.fromkeys(method for of_metric in curves.values() for method in of_metric)
        rows += [dataset] * bool(methods)
        means = {
            (metric, k, method): round(mean(points[k]), 1)
            for metric, of_metric in curves.items()
            for method, points in of_metric.items()
            for k in points
        }
        best = {pair: max((v for (m, k, _), v in means.items() if (m, k) == pair), default=None) for pair in pairs}
        for method in methods:
            cells = []
            for metric, k in pairs:
                values = curves[metric].get(method, {}).get(k, [])
                is_best = means.get((metric, k, method)) == best[metric, k]
                cells.append(TableCell(spread(values), mark="best" * (bool(values) and is_best)))
                if values:
                    line = {"dataset": dataset, "method": method, "metric": metric, "shots": int(k)}
                    tidy.append({**line, "mean": round(mean(values), 2), "draws": len(values)})
            ours = "ours" if method in results.settings.ours else ""
            rows.append([TableCell(results.label(method), mark=ours), *cells])
    held_out = sorted({r.few_shot.held_out for r in results.few_shot if r.few_shot})
    notes = [
        "Mean ± standard deviation over draws of the labelled samples, which are the same for every method. For every "
        f"number, {' or '.join(map(str, held_out))} samples per class are held out of the test.",
        "nearest-mean and logistic-regression know classes by labelled samples alone.",
    ]
    columns = [*words("method"), *(Column(f"k = {k:g}", TITLES[metric]) for metric, k in pairs)]
    return Table("few_shot", "T1 and H with k labelled samples per unseen class (%)", columns, rows, notes, tidy)


def few_shot_chart(results: Results, dataset: str) -> ReportFigure | None:
    """A panel for T1 and one for H, a line per method."""
    curves = {metric: of_metric for metric, of_metric in curves_of(results, dataset).items() if of_metric}
    if not curves:
        return None
    shots = sorted({k for of_metric in curves.values() for points in of_metric.values() for k in points})
    ends = [
        f"{TITLES[metric]} of {m} from {mean(p[min(p)]):.1f} with {min(p):g} to {mean(p[max(p)]):.1f} with {max(p):g}"
        for metric, of_metric in curves.items()
        for m, p in list(of_metric.items())[:1]
    ]
    return ReportFigure(
        f"few_shot-{slug(dataset)}",
        f"{dataset}: accuracy by labelled samples per unseen class",
        f"Accuracy on {dataset} by labelled samples per unseen class: {', '.join(ends)}.",
        lambda width: _draw(curves, shots, width),
        [over_seeds(points for of_metric in curves.values() for points in of_metric.values())],
    )


def _draw(curves: Curves, shots: list[float], width: float) -> Figure:
    figure, axes = panels(width, len(curves), 3.8, share=False)
    methods = list(dict.fromkeys(method for of_metric in curves.values() for method in of_metric))
    for axis, (metric, of_metric) in zip(axes, curves.items(), strict=True):
        for method, points in of_metric.items():
            number = methods.index(method)
            stroke, marker = _STROKES[number % len(_STROKES)]
            look = {"color": LINE_COLOURS[number % len(LINE_COLOURS)], "linestyle": stroke, "marker": marker}
            draw_line(axis, {float(shots.index(k)): p for k, p in points.items()}, short(method, 30), **look)
        axis.set_xticks(range(len(shots)), [f"{k:g}" for k in shots])
        axis.set_ylim(bottom=0)
        axis.set_title(TITLES[metric])
        quiet(axis, ylabel="%", xlabel="labelled samples per unseen class")
    handles = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    columns = 4 if is_wide(width) else 2
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=columns)
    return figure
