"""Which classes are easy and which are hard, and which are taken for each other."""

from __future__ import annotations

from collections import defaultdict
from statistics import mean
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from firstsight.report.picture import Picture, quiet, short, slug
from firstsight.report.results import Results, setting_of
from firstsight.report.table import Cell, Column, Table

MOST_CLASSES = 60  # in one chart; more cannot be read
MOST_PAIRS = 10


def class_accuracies(results: Results, dataset: str, metric: str) -> dict[str, dict[str, float]]:
    """Accuracy of each class by method, mean over seeds: {method: {class: percent}}."""
    found: dict[str, dict[str, float]] = {}
    for method in results.methods:
        values: dict[str, list[float]] = defaultdict(list)
        for run in results.runs(dataset, method, setting_of(metric)):
            for name, value in (run["per_class"].get(metric) or {}).items():
                if value is not None:
                    values[name].append(value)
        if values:
            found[method] = {name: mean(own) for name, own in values.items()}
    return found


def class_chart(results: Results, dataset: str) -> Picture | None:
    """Unseen classes × methods, as colours."""
    metric = "t1" if class_accuracies(results, dataset, "t1") else "ts"
    found = class_accuracies(results, dataset, metric)
    if not found:
        return None
    order = _easiest_first(found)
    shown = order if len(order) <= MOST_CLASSES else order[: MOST_CLASSES // 2] + order[-MOST_CLASSES // 2 :]
    values = np.array([[found[m].get(name, np.nan) for m in found] for name in shown])
    labels = [short(results.label(m), 34) for m in found]
    height = 1.0 + 0.2 * len(shown) + 0.06 * max(map(len, labels))
    figure = Figure(figsize=(max(2.8 + 0.38 * len(found), 5.0), height), layout="constrained")
    axis = figure.subplots()
    axis.set_facecolor("#DDDDDD")  # no value
    image = axis.imshow(np.ma.masked_invalid(values), cmap="cividis", vmin=0, vmax=100, aspect="auto")
    axis.set_xticks(range(len(found)), labels, rotation=60, ha="right", rotation_mode="anchor", fontsize=8)
    axis.set_yticks(range(len(shown)), [short(name) for name in shown], fontsize=_size(shown))
    axis.tick_params(length=0)
    axis.set_xticks(np.arange(len(found) + 1) - 0.5, minor=True)
    axis.grid(which="minor", axis="x", color="white", linewidth=1.2)
    axis.tick_params(which="minor", length=0)
    bar = figure.colorbar(image, ax=axis, location="top", shrink=0.7, aspect=40, pad=0.01)
    among = "among unseen classes (T1)" if metric == "t1" else "among all classes (ts)"
    bar.set_label(f"% of the class's rows named rightly {among}", fontsize=9)
    notes = [] if len(shown) == len(order) else [f"The {len(shown) // 2} easiest and hardest of {len(order)} classes."]
    return Picture(
        f"classes-{slug(dataset)}",
        f"{dataset}: accuracy per unseen class, easiest first",
        f"Accuracy of each of {len(shown)} unseen classes of {dataset} under {len(found)} methods; the easiest class "
        f"is {shown[0]}, the hardest {shown[-1]}.",
        figure,
        notes,
    )


def class_table(results: Results) -> Table | None:
    """The hardest and easiest unseen classes; its CSV has every class of every method."""
    rows: list[list[Cell] | str] = []
    tidy: list[dict[str, Any]] = []
    for dataset in results.datasets:
        for metric in ("t1", "ts", "tr"):
            for method, accuracies in class_accuracies(results, dataset, metric).items():
                for name, value in accuracies.items():
                    line = {"dataset": dataset, "method": method, "metric": metric, "class": name}
                    tidy.append({**line, "accuracy": round(value, 2)})
        found = class_accuracies(results, dataset, "t1") or class_accuracies(results, dataset, "ts")
        if not found:
            continue
        order = _easiest_first(found)
        few = order if len(order) <= 10 else [*order[:5], *order[-5:]]
        rows.append(dataset if few == order else f"{dataset}: the 5 easiest, then the 5 hardest of {len(order)}")
        for name in few:
            values = {m: found[m][name] for m in found if name in found[m]}
            highest = max(values.values())
            first, *others = (m for m in values if values[m] == highest)
            cells = [f"{mean(values.values()):.1f}", f"{min(values.values()):.1f}", f"{highest:.1f}"]
            by = results.label(first) + (f" and {len(others)} more" if others else "")
            rows.append([Cell(name), *map(Cell, cells), Cell(by)])
    if not rows:
        return None
    columns = [Column("class", is_number=False)]
    columns += [Column("mean of methods"), Column("lowest"), Column("highest"), Column("by", is_number=False)]
    notes = ["`per_class.csv` has every class, seen ones (tr) included, of every method."]
    return Table("per_class", "The easiest and the hardest unseen classes (%)", columns, rows, notes, tidy)


def confused_pairs(results: Results, dataset: str, method: str) -> dict[tuple[str, str], float]:
    """(true, predicted) → rows confused per run, largest first."""
    runs = [run for run in results.runs(dataset, method, "zsl") if run["confusion"]]
    counts: dict[tuple[str, str], float] = defaultdict(float)
    for run in runs:
        for truth, predicted, count in run["confusion"]:
            if truth != predicted:
                counts[str(truth), str(predicted)] += count / len(runs)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def confusion_chart(results: Results, dataset: str) -> Picture | None:
    """The pairs that are confused most by the method that is highest in T1 of those with confusions."""
    methods, others = _with_and_without_confusions(results, dataset)
    if not methods:
        return None
    leader = max(methods, key=lambda m: mean(results.by_seed(dataset, m, "t1").values() or [0.0]))
    pairs = list(confused_pairs(results, dataset, leader).items())[:MOST_PAIRS]
    figure = Figure(figsize=(7.6, 0.9 + 0.3 * len(pairs)), layout="constrained")
    axis = figure.subplots()
    counts = [count for _, count in pairs]
    bars = axis.barh(range(len(pairs)), counts, color="#56B4E9", height=0.7)
    axis.bar_label(bars, [f"{count:.1f}".removesuffix(".0") for count in counts], padding=3, fontsize=8)
    names = [f"{short(truth)}  →  {short(predicted)}" for (truth, predicted), _ in pairs]
    axis.set_yticks(range(len(pairs)), names, fontsize=_size([name for pair, _ in pairs for name in pair]))
    axis.invert_yaxis()
    axis.margins(x=0.1)
    quiet(axis, xlabel="rows per run (true class → named as)")
    axis.grid(False, axis="y")
    (truth, predicted), count = pairs[0]
    notes = [f"No method of the {len(methods)} with confusions has a higher T1."] if len(methods) > 1 else []
    notes += [f"Without confusions in their records: {', '.join(others)}."] if others else []
    return Picture(
        f"confusion-{slug(dataset)}",
        f"{dataset}: what {leader} confuses most",
        f"The {len(pairs)} pairs of unseen classes of {dataset} that {leader} confuses most; first {truth} named as "
        f"{predicted}, {count:.1f} rows per run.",
        figure,
        notes,
    )


def _with_and_without_confusions(results: Results, dataset: str) -> tuple[list[str], list[str]]:
    """Of the methods that have run; one that names every row rightly is among those without."""
    run = [m for m in results.methods if results.runs(dataset, m, "zsl")]
    found = [m for m in run if confused_pairs(results, dataset, m)]
    return found, [m for m in run if m not in found]


def confusion_table(results: Results) -> Table | None:
    """The pairs that methods, taken together, confuse most; its CSV has the pairs of each."""
    rows: list[list[Cell] | str] = []
    tidy: list[dict[str, Any]] = []
    for dataset in results.datasets:
        total: dict[tuple[str, str], list[float]] = defaultdict(list)
        methods, others = _with_and_without_confusions(results, dataset)
        for method in methods:
            for (truth, predicted), count in confused_pairs(results, dataset, method).items():
                total[truth, predicted].append(count)
                line = {"dataset": dataset, "method": method, "true": truth, "predicted": predicted}
                tidy.append({**line, "rows_per_run": round(count, 2)})
        if not methods:
            continue
        counted = f"{len(methods)} of {len(methods) + len(others)}" if others else f"{len(methods)}"
        rows.append(f"{dataset}, {counted} method{'s' * (len(methods) + len(others) > 1)}")
        for (truth, predicted), counts in sorted(total.items(), key=lambda item: (-sum(item[1]), item[0]))[:5]:
            cells = [Cell(f"{sum(counts) / len(methods):.1f}"), Cell(str(len(counts)))]
            rows.append([Cell(truth), Cell(predicted), *cells])
    if not rows:
        return None
    columns = [Column("true class", is_number=False), Column("named as", is_number=False)]
    columns += [Column("rows per run and method"), Column("methods that confuse them")]
    notes = [
        "Conventional setting; counted are methods with confusions in their records. Each record keeps its 200 most "
        "frequent ones; `confusion.csv` has them per method."
    ]
    return Table(
        "confusion", "Unseen classes that are confused most, methods taken together", columns, rows, notes, tidy
    )


def _size(names: list[str]) -> float:
    """The size of class names beside a chart: of single letters, the accents must be told apart."""
    return 11 if max(map(len, names)) <= 3 else 8


def _easiest_first(found: dict[str, dict[str, float]]) -> list[str]:
    values: dict[str, list[float]] = defaultdict(list)
    for accuracies in found.values():
        for name, value in accuracies.items():
            values[name].append(value)
    return sorted(values, key=lambda name: (-mean(values[name]), name))
