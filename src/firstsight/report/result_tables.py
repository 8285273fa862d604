"""The paper's two tables: every method on every data set, beside the published figures."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from statistics import mean, stdev
from typing import Any

from firstsight.report.published import published
from firstsight.report.results import SETTINGS, TITLES, Results, setting_of
from firstsight.report.table import Cell, Column, Table, signed, spread

_NAMES = {
    "zsl": ("conventional", "Unseen classes, told apart among themselves: T1, %"),
    "gzsl": ("generalized", "All classes are candidates: ts of unseen, tr of seen classes, their harmonic mean H, %"),
}


def result_table(results: Results, setting: str) -> Table | None:
    """One of the two tables, or None without a record of that setting."""
    metrics = SETTINGS[setting]
    records = [r for r in results.tables if r["setting"] == setting]
    datasets = [d for d in results.datasets if any(r["dataset"] == d for r in records)]
    if not datasets:
        return None
    marks = {(d, m): ranks(results, d, m) for d in datasets for m in metrics}
    columns = [Column("method", is_number=False)]
    columns += [Column(TITLES[m], group=d) for d in datasets for m in metrics]
    rows: list[list[Cell] | str] = []
    tidy: list[dict[str, Any]] = []
    for space, methods in results.by_space():
        own = [method for method in methods if any(r["method"] == method for r in records)]
        if own:
            rows.append(f"{space or 'unknown'} space")
        for method in own:
            cells = [Cell(results.label(method), detail=_name_in_paper(method, setting, datasets))]
            for dataset in datasets:
                for metric in metrics:
                    cell = figure_cell(results, dataset, method, metric, marks[dataset, metric])
                    cells.append(_beside_the_paper(cell, results, dataset, method, metric))
                    tidy.append(_line(results, dataset, method, setting, metric, space))
            rows.append(cells)
    name, title = _NAMES[setting]
    return Table(name, title, columns, rows, _notes(results, setting, datasets), tidy)


def ranks(results: Results, dataset: str, metric: str) -> dict[str, str]:
    """Which methods are best and second; equals (as printed) share their place, and 0.0 is none."""
    figures = {m: results.by_seed(dataset, m, metric) for m in results.ranked()}
    means = {m: round(mean(f.values()), 1) for m, f in figures.items() if f}
    order = sorted({value for value in means.values() if value > 0}, reverse=True)
    if len(means) < 2:
        return {}
    marks = dict(zip(order, ("best", "second"), strict=False))
    return {method: marks[value] for method, value in means.items() if value in marks}


def figure_cell(results: Results, dataset: str, method: str, metric: str, marks: dict[str, str]) -> Cell:
    """A figure over its seeds, and what has to be known of it: failed seeds, a collapse."""
    setting = setting_of(metric)
    values = list(results.by_seed(dataset, method, metric).values())
    failed = results.runs(dataset, method, setting, status="failed")
    if not values:
        return Cell("failed", mark="failed") if failed else Cell("–")
    details = []
    if failed:
        details.append(f"{len(failed)} of {len(failed) + len(values)} seeds failed")
    if any(run["collapsed"] for run in results.runs(dataset, method, setting)):
        details.append("collapsed")
    return Cell(spread(values), detail="; ".join(details), mark=marks.get(method, ""))


def mark_notes(results: Results, methods: Collection[str]) -> list[str]:
    """What the marks of figures and methods mean, as far as there are such methods."""
    notes = ["Bold is best, underlined second in its column."]
    if any(results.about[m]["transductive"] for m in methods):
        notes.append("† transductive: has seen the test rows, without their labels, in training.")
    told = sorted({results.about[m]["extra_supervision"] for m in methods} - {""})
    if told:
        notes.append(f"* is told more than the others, and therefore not ranked: {'; '.join(told)}.")
    return notes


def _beside_the_paper(cell: Cell, results: Results, dataset: str, method: str, metric: str) -> Cell:
    """The cell with the published figure and the difference from it, if there is one."""
    paper = published(dataset, method, metric)
    if not paper:
        return cell
    values = results.by_seed(dataset, method, metric).values()
    said = f"paper {paper.value:.1f}" + (f", {signed(mean(values) - paper.value)}" if values else "")
    return replace(cell, detail="; ".join(filter(None, [said, cell.detail])))


def _line(results: Results, dataset: str, method: str, setting: str, metric: str, space: str) -> dict[str, Any]:
    values = list(results.by_seed(dataset, method, metric).values())
    paper = published(dataset, method, metric)
    about = results.about[method]
    return {
        "dataset": dataset,
        "method": method,
        "space": space,
        "transductive": bool(about["transductive"]),
        "extra_supervision": about["extra_supervision"],
        "setting": setting,
        "metric": metric,
        "mean": round(mean(values), 2) if values else None,
        "deviation": round(stdev(values), 2) if len(values) > 1 else None,
        "seeds": len(values),
        "failed_seeds": len(results.runs(dataset, method, setting, status="failed")),
        "published": paper.value if paper else None,
        "difference": round(mean(values) - paper.value, 2) if paper and values else None,
        "source": paper.source if paper else None,
    }


def _name_in_paper(method: str, setting: str, datasets: list[str]) -> str:
    """What the paper calls a method, where that is another word and a figure of the paper stands in its row."""
    found = next(filter(None, (published(d, method, SETTINGS[setting][0]) for d in datasets)), None)
    return f"{found.name_in_paper} in the paper" if found and found.name_in_paper.lower() != method else ""


def _notes(results: Results, setting: str, datasets: list[str]) -> list[str]:
    methods = {r["method"] for r in results.tables if r["setting"] == setting}
    notes = ["Mean ± standard deviation over seeds; a figure without deviation is of one run."]
    notes += mark_notes(results, methods)
    metric = SETTINGS[setting][0]
    if any(published(d, m, metric) for d in datasets for m in methods):
        notes.append("Beneath: the figure that the paper prints, and the difference of ours from it.")
        notes += _feature_notes(datasets)
        for method in sorted(methods):
            found = [published(d, method, metric) for d in datasets]
            told = sorted({f"{p.name_in_paper}: {p.note}" for p in found if p and p.note})
            notes += [f"Published figure of {note}." for note in told]
    return notes


def _feature_notes(datasets: list[str]) -> list[str]:
    """The paper's features are ResNet-101; records tell a fingerprint of theirs, which names no network."""
    notes = []
    for dataset in datasets:
        if published(dataset, "deep-embedding", "t1") is not None:
            here = (
                "those of this project's own records are ResNet-50"
                if dataset.upper() == "CUB"
                else "ours may be others"
            )
            notes.append(f"{dataset}: the paper's features are ResNet-101, {here}.")
    return notes
