"""Which classes are easy and which are hard, and which are taken for each other."""

from __future__ import annotations

from collections import defaultdict
from statistics import mean
from typing import Any

from firstsight.reporting.recorded_results import Results
from firstsight.reporting.tables.table import Cell, Column, Row, Table, words


def easiest_first(accuracies: dict[str, dict[str, float]]) -> list[str]:
    """Classes by their accuracy, mean over methods."""
    values: dict[str, list[float]] = defaultdict(list)
    for own in accuracies.values():
        for name, value in own.items():
            values[name].append(value)
    return sorted(values, key=lambda name: (-mean(values[name]), name))


def class_table(results: Results) -> Table | None:
    """The hardest and easiest unseen classes; its CSV has every class of every method."""
    rows: list[Row] = []
    tidy: list[dict[str, Any]] = []
    for dataset in results.datasets:
        of = {metric: results.class_accuracies(dataset, metric) for metric in ("t1", "ts", "tr")}
        for metric, methods in of.items():
            for method, accuracies in methods.items():
                line = {"dataset": dataset, "method": method, "metric": metric}
                tidy += [{**line, "class": name, "accuracy": round(v, 2)} for name, v in accuracies.items()]
        by_method = of["t1"] or of["ts"]
        if not by_method:
            continue
        order = easiest_first(by_method)
        few = order if len(order) <= 10 else [*order[:5], *order[-5:]]
        rows.append(dataset if few == order else f"{dataset}: the 5 easiest, then the 5 hardest of {len(order)}")
        for name in few:
            values = {m: by_method[m][name] for m in by_method if name in by_method[m]}
            highest = max(values.values())
            first, *others = (m for m in values if values[m] == highest)
            cells = [f"{mean(values.values()):.1f}", f"{min(values.values()):.1f}", f"{highest:.1f}"]
            by = results.label(first) + (f" and {len(others)} more" if others else "")
            rows.append([Cell(name), *map(Cell, cells), Cell(by)])
    if not rows:
        return None
    columns = [*words("class"), Column("mean of methods"), Column("lowest"), Column("highest"), *words("by")]
    notes = ["`per_class.csv` has every class, seen ones (tr) included, of every method."]
    return Table("per_class", "The easiest and the hardest unseen classes (%)", columns, rows, notes, tidy)


def confusion_table(results: Results) -> Table | None:
    """The pairs that methods, taken together, confuse most; its CSV has the pairs of each."""
    rows: list[Row] = []
    tidy: list[dict[str, Any]] = []
    for dataset in results.datasets:
        total: dict[tuple[str, str], list[float]] = defaultdict(list)
        methods, others = results.with_and_without_confusions(dataset)
        for method in methods:
            for (truth, predicted), count in results.confused_pairs(dataset, method).items():
                total[truth, predicted].append(count)
                line = {"dataset": dataset, "method": method, "true": truth, "predicted": predicted}
                tidy.append({**line, "rows_per_run": round(count, 2)})
        if not methods:
            continue
        counted = f"{len(methods)} of {len(methods) + len(others)}" if others else f"{len(methods)}"
        rows.append(f"{dataset}, {counted} method{'s' * (len(methods) + len(others) > 1)}")
        for (truth, predicted), counts in sorted(total.items(), key=lambda item: (-sum(item[1]), item[0]))[:5]:
            per_run = f"{sum(counts) / len(methods):.1f}"
            rows.append([*map(Cell, (truth, predicted, per_run, str(len(counts))))])
    if not rows:
        return None
    columns = [*words("true class", "named as"), Column("rows per run and method"), Column("methods that confuse them")]
    notes = [
        "Conventional setting; counted are methods with confusions in their records. Each record keeps its 200 most "
        "frequent ones; `confusion.csv` has them per method."
    ]
    title = "Unseen classes that are confused most, methods taken together"
    return Table("confusion", title, columns, rows, notes, tidy)
