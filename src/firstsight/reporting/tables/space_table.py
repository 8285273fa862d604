"""Compactness, separability and hubness of the spaces that methods decide in, beside what is claimed of them."""

from __future__ import annotations

from statistics import mean, stdev
from typing import Any

from firstsight.reporting.recorded_results import Results
from firstsight.reporting.tables.accuracy_tables import name_cell
from firstsight.reporting.tables.table import Cell, Column, Row, Table, words

# The space before an arrow does not break: it stays with its word.
_FACTS = {"compactness": "compact\u00a0↓", "separability": "separable\u00a0↑", "hubness": "hubs"}
Values = dict[str, list[float]]  # a fact, or "own " and a fact of the method's own embedding → over seeds


def space_table(results: Results) -> Table | None:
    """The three measures of each method's space, mean over seeds."""
    values = {(d, m): _space_facts(results, d, m) for d in results.datasets for m in results.methods}
    datasets = [d for d in results.datasets if any(values[d, m] for m in results.methods)]
    if not datasets:
        return None
    claims = results.settings.claims
    columns = [*words("method", *[claims.get("title", "said")] * bool(claims))]
    columns += [Column(title, d) for d in datasets for title in _FACTS.values()]
    rows: list[Row] = []
    tidy: list[dict[str, Any]] = []
    measured = [m for m in results.methods if any(values[d, m] for d in datasets)]
    for heading, space, own in results.by_space(measured):
        rows.append(heading)
        for method in own:
            cells = [name_cell(results, method)]
            cells += [Cell(claims.get(method, claims.get(space, "–")))] * bool(claims)
            for dataset in datasets:
                cells += [_cell(values[dataset, method], fact) for fact in _FACTS]
                about = {"dataset": dataset, "method": method, "space": space}
                tidy += [
                    about | _line(values[dataset, method], fact) for fact in _FACTS if values[dataset, method].get(fact)
                ]
            rows.append(cells)
    notes = [
        "Measured on test rows of unseen classes in the space that a method's decisions see (its scores of the unseen "
        "classes, less their mean), so that all methods can be compared; beneath, in the method's own embedding, where "
        "it shows one.",
        "Compactness: distance of rows to their class's mean, against that between class means; less is more compact. "
        "Separability: simplified silhouette, from −1 to 1; more is better. Hubness: skewness of how often a class is "
        "among the best of a row; 0 is none.",
    ]
    if any(not values[d, m].get(fact) for d in datasets for m in measured for fact in _FACTS):
        notes.append(
            "–: not recorded, or there is no such number. Hubness has none where every class is among the best equally "
            "often, the others none where all rows lie in one point."
        )
    without = [m for m in results.methods if m not in measured]
    notes += [f"Not recorded: {', '.join(without)}."] if without else []
    return Table("spaces", "Embedding spaces, measured", columns, rows, notes, tidy)


def _space_facts(results: Results, dataset: str, method: str) -> Values:
    """Values over seeds; of the conventional run, where unseen classes are alone, if there is one."""
    for setting in ("zsl", "gzsl"):
        facts = [r.space_facts for r in results.runs(dataset, method, setting) if r.space_facts]
        if facts:
            own = [f.embedding for f in facts if f.embedding]
            figures = {
                "compactness": [f.compactness for f in facts],
                "separability": [f.separability for f in facts],
                "hubness": [f.hubness for f in facts],
                "own compactness": [f.compactness for f in own],
                "own separability": [f.separability for f in own],
            }
            return {name: [v for v in values if v is not None] for name, values in figures.items()}
    return {}


def _cell(values: Values, fact: str) -> Cell:
    inside = values.get(f"own {fact}", [])
    return Cell(_mean(values.get(fact, [])), detail=f"own {_mean(inside)}" if inside else "")


def _line(values: Values, fact: str) -> dict[str, Any]:
    figures = values[fact]
    deviation = {"deviation": round(stdev(figures), 4)} if len(figures) > 1 else {}
    return {"fact": fact, "mean": round(mean(figures), 4), **deviation, "runs": len(figures)}


def _mean(values: list[float]) -> str:
    return f"{mean(values):.2f}".replace("-", "−") if values else "–"
