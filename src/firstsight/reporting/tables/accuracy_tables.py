"""The two tables of accuracies: every method on every data set, beside published figures where there are any."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from statistics import mean, stdev
from typing import Any

from firstsight.records.record_schema import Record
from firstsight.reporting.published_figures import published
from firstsight.reporting.recorded_results import SETTINGS, TITLES, Results, setting_of
from firstsight.reporting.tables.table import Cell, Column, Row, Table, signed, spread, words

_NAMES = {
    "zsl": ("conventional", "Unseen classes, only these as candidates: T1, %"),
    "gzsl": ("generalized", "All classes are candidates: ts of unseen, tr of seen classes, their harmonic mean H, %"),
}
# Where a figure's parameters come from: the sign behind it, and what it means.
CHOSEN = {
    "tuned": ("t", "tuned on validation classes of that data set"),
    "by hand": ("h", "parameters set by hand"),
    "mixed": ("m", "not the same for all seeds"),
    "default": ("", "the method's own defaults"),
}


def accuracy_table(results: Results, setting: str) -> Table | None:
    """One of the two tables, or None without a record of that setting."""
    metrics = SETTINGS[setting]
    records = [r for r in results.tables if r.setting == setting]
    datasets = [d for d in results.datasets if any(r.dataset == d for r in records)]
    if not datasets:
        return None
    marks = {(d, m): places(results, d, m) for d in datasets for m in metrics}
    columns = [*words("method"), *(Column(TITLES[m], group=d) for d in datasets for m in metrics)]
    rows: list[Row] = []
    tidy: list[dict[str, Any]] = []
    methods = {r.method for r in records}
    for heading, space, own in results.by_space(methods):
        rows.append(heading)
        for method in own:
            cells = [replace(name_cell(results, method), detail=_name_in_paper(method, setting, datasets))]
            for dataset in datasets:
                for metric in metrics:
                    cell = figure_cell(results, dataset, method, metric, marks[dataset, metric])
                    cells.append(_beside_the_paper(cell, results, dataset, method, metric))
                    tidy.append(_line(results, dataset, method, metric, space))
            rows.append(cells)
    name, title = _NAMES[setting]
    return Table(name, title, columns, rows, _notes(results, setting, datasets, methods), tidy)


def name_cell(results: Results, method: str) -> Cell:
    """A method's name with its marks, picked out where the project calls the method its own."""
    return Cell(results.label(method), mark="ours" if method in results.settings.ours else "")


def places(results: Results, dataset: str, metric: str) -> dict[str, str]:
    """Which methods are best and second; equals (as printed) share their place, and 0.0 has no place."""
    figures = {m: results.mean_of(dataset, m, metric) for m in results.ranked()}
    means = {m: round(value, 1) for m, value in figures.items() if value is not None}
    if len(means) < 2:
        return {}
    order = sorted({value for value in means.values() if value > 0}, reverse=True)
    marks = dict(zip(order, ("best", "second"), strict=False))
    return {method: marks[value] for method, value in means.items() if value in marks}


def figure_cell(results: Results, dataset: str, method: str, metric: str, marks: dict[str, str]) -> Cell:
    """A figure over its seeds, and what has to be known of it: failed seeds, a collapse, whether it was tuned."""
    setting = setting_of(metric)
    values = list(results.by_seed(dataset, method, metric).values())
    failed = results.runs(dataset, method, setting, status="failed")
    if not values:
        return Cell("failed", mark="failed") if failed else Cell("–")
    details = []
    if failed:
        details.append(f"{len(failed)} of {len(failed) + len(values)} seeds failed")
    runs = results.runs(dataset, method, setting)
    if any(run.collapsed for run in runs):
        details.append("collapsed")
    sign = CHOSEN[chosen(runs)][0]
    return Cell(spread(values), "; ".join(details), marks.get(method, ""), sign, share=mean(values) / 100)


def chosen(runs: Collection[Record]) -> str:
    """Where the parameters of runs come from: a key of CHOSEN."""
    kinds = {"tuned" if run.tuned else "by hand" if run.given else "default" for run in runs}
    return kinds.pop() if len(kinds) == 1 else "mixed"


def mark_notes(results: Results, methods: Collection[str]) -> list[str]:
    """What the marks of figures and methods mean, as far as there are such methods."""
    notes = ["Bold is best, underlined second in its column."]
    if any(results.about[m].transductive for m in methods):
        notes.append("† transductive: has seen the test rows, without their labels, in training.")
    told = sorted({results.about[m].extra_supervision for m in methods} - {""})
    if told:
        notes.append(f"* gets extra supervision, and is therefore not ranked: {'; '.join(told)}.")
    return notes


def chosen_note(results: Results) -> str:
    """What the signs behind figures mean, as far as they occur."""
    cells = {(r.dataset, r.method, r.setting) for r in results.tables if r.status == "done"}
    kinds = {chosen(results.runs(*cell)) for cell in cells}
    said = [f"{sign or 'without a sign'}: {meaning}" for name, (sign, meaning) in CHOSEN.items() if name in kinds]
    return f"Behind a figure, {'; '.join(said)}." if said else ""


def _beside_the_paper(cell: Cell, results: Results, dataset: str, method: str, metric: str) -> Cell:
    """The cell with the published figure and the difference from it, if there is one."""
    paper = published(dataset, method, metric)
    if not paper:
        return cell
    value = results.mean_of(dataset, method, metric)
    said = f"paper {paper.value:.1f}" + (f", {signed(value - paper.value)}" if value is not None else "")
    return replace(cell, detail="; ".join(filter(None, [said, cell.detail])))


def _line(results: Results, dataset: str, method: str, metric: str, space: str) -> dict[str, Any]:
    setting = setting_of(metric)
    values = list(results.by_seed(dataset, method, metric).values())
    paper = published(dataset, method, metric)
    about = results.about[method]
    return {
        "dataset": dataset,
        "method": method,
        "space": space,
        "transductive": about.transductive,
        "extra_supervision": about.extra_supervision,
        "setting": setting,
        "metric": metric,
        "mean": round(mean(values), 2) if values else None,
        "deviation": round(stdev(values), 2) if len(values) > 1 else None,
        "seeds": len(values),
        "failed_seeds": len(results.runs(dataset, method, setting, status="failed")),
        "published": paper.value if paper else None,
        "difference": round(mean(values) - paper.value, 2) if paper and values else None,
        "source": paper.source if paper else None,
        "parameters": chosen(results.runs(dataset, method, setting)) if values else None,
    }


def _name_in_paper(method: str, setting: str, datasets: list[str]) -> str:
    """What the paper calls a method, where that is another word and a figure of the paper stands in its row."""
    figure = next(filter(None, (published(d, method, SETTINGS[setting][0]) for d in datasets)), None)
    return f"{figure.name_in_paper} in the paper" if figure and figure.name_in_paper.lower() != method else ""


def _notes(results: Results, setting: str, datasets: list[str], methods: set[str]) -> list[str]:
    notes = ["Mean ± standard deviation over seeds; a figure without deviation is of one run."]
    notes += [*mark_notes(results, methods), *filter(None, [chosen_note(results)])]
    figures = {m: [p for d in datasets if (p := published(d, m, SETTINGS[setting][0]))] for m in sorted(methods)}
    if any(figures.values()):
        notes.append("Beneath: the figure that the paper prints, and the difference of ours from it.")
        notes.append("The paper's features are ResNet-101, which those of these records need not be.")
        for own in figures.values():
            notes += [
                f"Published figure of {n}." for n in sorted({f"{p.name_in_paper}: {p.note}" for p in own if p.note})
            ]
    return notes
