"""What the paper claims of embedding spaces, measured; and what calibration gives each method."""

from __future__ import annotations

from statistics import mean, stdev
from typing import Any

from firstsight.report.results import Results
from firstsight.report.table import Cell, Column, Table, spread

# The paper's Table 1: intra-class compactness, inter-class separability. Its own method claims both.
_CLAIMS = {"semantic": "compact", "visual": "compact", "latent": "separable"}
OWN = ("deep-embedding", "transductive-deep-embedding")
# The space before an arrow does not break: it stays with its word.
_FACTS = {"compactness": "compact\u00a0↓", "separability": "separable\u00a0↑", "hubness": "hubs"}
_TRADE_OFF = {"ausuc": "AUSUC", "h": "H", "calibrated_h": "H cal."}


def space_table(results: Results) -> Table | None:
    """Compactness, separability and hubness of each method's space, beside what the paper says of it."""
    values = {(d, m): _space_facts(results, d, m) for d in results.datasets for m in results.methods}
    datasets = [d for d in results.datasets if any(values[d, m] for m in results.methods)]
    if not datasets:
        return None
    columns = [Column("method", is_number=False), Column("paper says", is_number=False)]
    columns += [Column(title, d) for d in datasets for title in _FACTS.values()]
    rows: list[list[Cell] | str] = []
    tidy: list[dict[str, Any]] = []
    for space, methods in results.by_space():
        own = [m for m in methods if any(values[d, m] for d in datasets)]
        if own:
            rows.append(f"{space or 'unknown'} space")
        for method in own:
            claim = "both" if method in OWN else _CLAIMS.get(space, "–")
            cells = [Cell(results.label(method)), Cell(claim)]
            for dataset in datasets:
                for fact in _FACTS:
                    found = values[dataset, method].get(fact, [])
                    inside = values[dataset, method].get(f"own {fact}", [])
                    cells.append(Cell(_mean(found), detail=f"own {_mean(inside)}" if inside else ""))
                    line = {"dataset": dataset, "method": method, "space": space, "fact": fact}
                    tidy += (
                        [{**line, "mean": round(mean(found), 4), **_deviation(found), "runs": len(found)}]
                        if found
                        else []
                    )
            rows.append(cells)
    without = [m for m in results.methods if not any(values[d, m] for d in datasets)]
    notes = [
        "Measured on test rows of unseen classes in the space that a method's decisions see (its scores of the unseen "
        "classes, less their mean), so that all methods can be compared; beneath, in the method's own embedding, where "
        "it shows one.",
        "Compactness: distance of rows to their class's mean, against that between class means; less is more compact. "
        "Separability: simplified silhouette, from −1 to 1; more is better. Hubness: skewness of how often a class is "
        "among the best of a row; 0 is none.",
        "What the paper says stands in its Table 1, without figures.",
    ]
    if any(cell.text == "–" for row in rows if not isinstance(row, str) for cell in row[2:]):
        notes.append(
            "–: not recorded, or there is no such number. Hubness has none where every class is among the best equally "
            "often, the others none where all rows lie in one point."
        )
    if without:
        notes.append(f"Not recorded: {', '.join(without)}.")
    return Table("spaces", "Embedding spaces, measured", columns, rows, notes, tidy)


def calibration_table(results: Results) -> Table | None:
    """AUSUC, and H with a constant taken off the seen scores, beside H as it is."""
    found = {(d, m): _trade_off(results, d, m) for d in results.datasets for m in results.methods}
    datasets = [d for d in results.datasets if any(found[d, m] for m in results.methods)]
    if not datasets:
        return None
    columns = [Column("method", is_number=False)]
    shown = [name for name in _TRADE_OFF if any(values.get(name) for values in found.values())]
    columns += [Column(_TRADE_OFF[name], d) for d in datasets for name in shown]
    rows: list[list[Cell] | str] = []
    tidy: list[dict[str, Any]] = []
    for space, methods in results.by_space():
        own = [m for m in methods if any(found[d, m] for d in datasets)]
        if own:
            rows.append(f"{space or 'unknown'} space")
        for method in own:
            cells = [Cell(results.label(method))]
            for dataset in datasets:
                values = found[dataset, method]
                cells += [Cell(spread(values.get(name, []))) for name in shown]
                means = {name: round(mean(v), 4) for name, v in values.items() if v}
                tidy += [{"dataset": dataset, "method": method, **means}] if means else []
            rows.append(cells)
    notes = [
        "AUSUC: the area under seen against unseen accuracy over all constants, in % of the largest possible.",
        "Calibrated: a constant, found on validation classes of the training set, is taken off the scores of seen "
        "classes; not to be compared with the tables above. `calibration.csv` has ts, tr and the constant, in the "
        "units of the method's own scores.",
    ]
    title = "Area under the curve, H, and H calibrated (%)"
    if "calibrated_h" not in shown:
        notes[1] = "H is not calibrated in these records; `firstsight benchmark … --calibrate` makes such."
        title = "Area under the curve, and H (%)"
    else:
        notes += _incompletely_calibrated(found)
    return Table("calibration", title, columns, rows, notes, tidy)


def _incompletely_calibrated(found: dict[tuple[str, str], dict[str, list[float]]]) -> list[str]:
    """H calibrated is not made with every benchmark: which cells lack it, and where it is of fewer seeds than H."""
    counts = {cell: (len(v["calibrated_h"]), len(v["h"])) for cell, v in found.items() if v}
    fewer = [f"{m} on {d} ({own} of {of})" for (d, m), (own, of) in counts.items() if 0 < own < of]
    notes = ["H cal. is – where a method was not calibrated."] if any(own == 0 for own, _ in counts.values()) else []
    return notes + ([f"Calibrated for fewer seeds than H is of: {', '.join(fewer)}."] if fewer else [])


def _trade_off(results: Results, dataset: str, method: str) -> dict[str, list[float]]:
    runs = [r for r in results.runs(dataset, method, "gzsl") if r["seen_unseen"]]
    if not runs:
        return {}
    fixed = [r["seen_unseen"]["calibrated"] for r in runs if r["seen_unseen"].get("calibrated")]
    calibrated = {f"calibrated_{name}": _known([f.get(name) for f in fixed]) for name in ("h", "ts", "tr", "constant")}
    area = _known([r["seen_unseen"].get("ausuc") for r in runs])
    return {"ausuc": area, "h": _known([r["h"] for r in runs]), **calibrated}


def _space_facts(results: Results, dataset: str, method: str) -> dict[str, list[float]]:
    """Values over seeds; of the conventional run, where unseen classes are alone, if there is one."""
    for setting in ("zsl", "gzsl"):
        facts = [r["space_facts"] for r in results.runs(dataset, method, setting) if r["space_facts"]]
        if facts:
            own = [f["embedding"] for f in facts if f.get("embedding")]
            inside = {f"own {name}": _known([f.get(name) for f in own]) for name in _FACTS}
            return {name: _known([f.get(name) for f in facts]) for name in _FACTS} | inside
    return {}


def _mean(values: list[float]) -> str:
    return f"{mean(values):.2f}".replace("-", "−") if values else "–"


def _deviation(values: list[float]) -> dict[str, float]:
    return {"deviation": round(stdev(values), 4)} if len(values) > 1 else {}


def _known(values: list[float | None]) -> list[float]:
    return [value for value in values if isinstance(value, int | float)]
