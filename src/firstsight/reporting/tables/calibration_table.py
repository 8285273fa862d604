"""What calibration gives each method: the area under seen against unseen accuracy, H as it is, and H calibrated."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean
from typing import Any

from firstsight.reporting.recorded_results import Results
from firstsight.reporting.tables.accuracy_tables import name_cell
from firstsight.reporting.tables.table import Cell, Column, Row, Table, spread, words

_SHOWN = {"ausuc": "AUSUC", "h": "H", "calibrated_h": "H cal."}
Values = dict[str, list[float]]  # a figure → over seeds


def calibration_table(results: Results) -> Table | None:
    """AUSUC, and H with a constant taken off the seen scores, beside H as it is."""
    figures = {(d, m): _trade_off(results, d, m) for d in results.datasets for m in results.methods}
    datasets = [d for d in results.datasets if any(figures[d, m] for m in results.methods)]
    if not datasets:
        return None
    shown = [name for name in _SHOWN if any(values.get(name) for values in figures.values())]
    columns = [*words("method"), *(Column(_SHOWN[name], d) for d in datasets for name in shown)]
    rows: list[Row] = []
    tidy: list[dict[str, Any]] = []
    for heading, _, own in results.by_space([m for m in results.methods if any(figures[d, m] for d in datasets)]):
        rows.append(heading)
        for method in own:
            cells = [name_cell(results, method)]
            for dataset in datasets:
                values = figures[dataset, method]
                cells += [Cell(spread(values.get(name, []))) for name in shown]
                means = {name: round(mean(v), 4) for name, v in values.items() if v}
                tidy += [{"dataset": dataset, "method": method, **means}] if means else []
            rows.append(cells)
    notes = ["AUSUC: the area under seen against unseen accuracy over all constants, in % of the largest possible."]
    if "calibrated_h" not in shown:
        notes.append("H is not calibrated in these records; `firstsight benchmark … --calibrated-h` makes such.")
        return Table("calibration", "Area under the curve, and H (%)", columns, rows, notes, tidy)
    notes.append(
        "Calibrated: a constant, found on validation classes of the training set, is taken off the scores of seen "
        "classes; not to be compared with the tables of accuracies. `calibration.csv` has ts, tr and the constant, in "
        "the units of the method's own scores."
    )
    notes += _incompletely_calibrated(figures)
    return Table("calibration", "Area under the curve, H, and H calibrated (%)", columns, rows, notes, tidy)


def _incompletely_calibrated(figures: Mapping[tuple[str, str], Values]) -> list[str]:
    """H calibrated is not made with every benchmark: which cells lack it, and where it is of fewer seeds than H."""
    counts = {cell: (len(v["calibrated_h"]), len(v["h"])) for cell, v in figures.items() if v}
    fewer = [f"{m} on {d} ({own} of {of})" for (d, m), (own, of) in counts.items() if 0 < own < of]
    notes = ["H cal. is – where a method was not calibrated."] if any(own == 0 for own, _ in counts.values()) else []
    return notes + ([f"Calibrated for fewer seeds than H is of: {', '.join(fewer)}."] if fewer else [])


def _trade_off(results: Results, dataset: str, method: str) -> Values:
    runs = [(r, r.seen_unseen) for r in results.runs(dataset, method, "gzsl") if r.seen_unseen]
    if not runs:
        return {}
    fixed = [own.calibrated for _, own in runs if own.calibrated]
    values_of: dict[str, list[float | None]] = {
        "ausuc": [own.ausuc for _, own in runs],
        "h": [r.h for r, _ in runs],
        "calibrated_h": [f.h for f in fixed],
        "calibrated_ts": [f.ts for f in fixed],
        "calibrated_tr": [f.tr for f in fixed],
        "calibrated_constant": [f.constant for f in fixed],
    }
    return {name: [v for v in values if v is not None] for name, values in values_of.items()}
