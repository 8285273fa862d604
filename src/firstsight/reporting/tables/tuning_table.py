"""What tuning has given each method on test, whichever way it went: the choice was validation's, not this table's."""

from __future__ import annotations

from statistics import mean
from typing import Any

from firstsight.records.record_schema import Record
from firstsight.reporting.recorded_results import CALIBRATED_H, Results, figure_of, setting_of
from firstsight.reporting.tables.accuracy_tables import name_cell
from firstsight.reporting.tables.table import Cell, Column, Row, Table, signed, words

STUDY = "defaults"
_SHOWN = {"t1": "T1", CALIBRATED_H: "H cal."}


def tuning_table(results: Results) -> Table | None:
    """Each method tuned on each data set, beside its defaults, over the seeds that both have."""
    runs = {(d, m): _runs(results, d, m) for d in results.datasets for m in results.methods}
    datasets = [d for d in results.datasets if any(runs[d, m] for m in results.methods)]
    if not datasets:
        return None
    columns = [*words("method"), *(Column(title, d) for d in datasets for title in _SHOWN.values())]
    rows: list[Row] = []
    tidy: list[dict[str, Any]] = []
    for heading, _, own in results.by_space([m for m in results.methods if any(runs[d, m] for d in datasets)]):
        rows.append(heading)
        for method in own:
            cells = [name_cell(results, method)]
            for dataset in datasets:
                for metric in _SHOWN:
                    cell, line = _compared(results, dataset, method, metric)
                    cells.append(cell)
                    tidy += [{"dataset": dataset, "method": method, "metric": metric, **line}] if line else []
            rows.append(cells)
    notes = [
        "Parameters were chosen on validation classes of each data set's training rows. Beneath or beside a figure: "
        "what the method's defaults give on the same test rows and seeds, or that validation kept them (=).",
        "H cal.: H with a constant taken off the scores of seen classes, found on validation classes.",
    ]
    return Table("tuning", "Tuned against default, on test (%)", columns, rows, notes, tidy)


def _runs(results: Results, dataset: str, method: str) -> list[Record]:
    """The tuned ones."""
    return [r for setting in ("zsl", "gzsl") for r in results.runs(dataset, method, setting) if r.tuned]


def _compared(results: Results, dataset: str, method: str, metric: str) -> tuple[Cell, dict[str, Any]]:
    setting = setting_of(metric)
    tuned = [r for r in results.runs(dataset, method, setting) if r.tuned]
    values = {r.seed: value for r in tuned if (value := figure_of(r, metric)) is not None}
    if not values:
        return Cell("–"), {}
    if all(r.tuned and r.tuned.kept_defaults for r in tuned):
        same = round(mean(values.values()), 2)
        return Cell(f"{same:.1f}", "="), {"tuned": same, "default": same, "seeds": len(values)}
    before = {
        r.seed: value
        for r in results.studies
        if (r.dataset, r.method, r.setting, r.study, r.status) == (dataset, method, setting, STUDY, "done")
        and (value := figure_of(r, metric)) is not None
    }
    both = sorted(set(values) & set(before))
    if not both:
        return Cell(f"{mean(values.values()):.1f}", "defaults not run"), {"tuned": round(mean(values.values()), 2)}
    new, old = (mean(one[seed] for seed in both) for one in (values, before))
    line = {"tuned": round(new, 2), "default": round(old, 2), "seeds": len(both)}
    return Cell(f"{new:.1f}", f"{old:.1f}, {signed(new - old)}"), line
