"""The summary over data sets: mean ranks of methods, inductive and transductive ones apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from firstsight.evaluation.significance import RankComparison, compare_ranks
from firstsight.reporting.recorded_results import CALIBRATED_H, TITLES, Results
from firstsight.reporting.tables.accuracy_tables import name_cell
from firstsight.reporting.tables.table import Cell, Column, Row, Table, words

METRICS = {"t1": TITLES["t1"], "h": TITLES["h"], CALIBRATED_H: "H calibrated"}
LEAST = 3  # data sets, and methods: fewer have nothing to be summed up


class Ranking(NamedTuple):
    """How methods of one kind compare in one figure over the data sets that they all have been run on."""

    kind: str
    metric: str
    datasets: list[str]
    left_out: list[str]  # methods that lack one of these data sets
    comparison: RankComparison


def rankings(results: Results) -> list[Ranking]:
    """Every comparison that the records allow: of each kind of method, in each figure."""
    made = []
    for kind in ("inductive", "transductive"):
        methods = [m for m in results.ranked() if results.is_inductive(m) == (kind == "inductive")]
        for metric in METRICS:
            figures = {
                m: {d: v for d in results.datasets if (v := results.mean_of(d, m, metric)) is not None} for m in methods
            }
            datasets, whole = _shared(results.datasets, figures)
            if len(datasets) >= LEAST and len(whole) >= LEAST:
                left_out = [m for m in methods if figures[m] and m not in whole]
                comparison = compare_ranks({m: [figures[m][d] for d in datasets] for m in whole})
                made.append(Ranking(kind, metric, datasets, left_out, comparison))
    return made


def _shared(datasets: Iterable[str], figures: Mapping[str, Mapping[str, float]]) -> tuple[list[str], list[str]]:
    """Data sets and the methods that have all of them, as many figures as possible: a rank needs every rival."""
    order = sorted(datasets, key=lambda d: -sum(d in own for own in figures.values()))
    choices = [
        (order[:n], [m for m, own in figures.items() if own.keys() >= set(order[:n])])
        for n in range(LEAST, len(order) + 1)
    ]
    return max(choices, key=lambda choice: len(choice[0]) * len(choice[1]), default=([], []))


def rank_table(results: Results, made: list[Ranking]) -> Table | None:
    """Mean ranks, a row per method; the columns are the figures that can be compared."""
    if not made:
        return None
    metrics = [metric for metric in METRICS if any(one.metric == metric for one in made)]
    rows: list[Row] = []
    for kind in dict.fromkeys(one.kind for one in made):
        own = {one.metric: one.comparison.ranks for one in made if one.kind == kind}
        methods = sorted(
            {m for ranks in own.values() for m in ranks}, key=lambda m: min(r.get(m, 99.0) for r in own.values())
        )
        best = {metric: min(ranks.values()) for metric, ranks in own.items()}
        rows.append(f"{kind} methods")
        for method in methods:
            row = [own.get(metric, {}).get(method) for metric in metrics]
            marks = ["best" if r is not None and r == best[m] else "" for r, m in zip(row, metrics, strict=True)]
            cells = [Cell("–" if r is None else f"{r:.2f}", mark=mark) for r, mark in zip(row, marks, strict=True)]
            rows.append([name_cell(results, method), *cells])
    tidy = [
        {
            "kind": one.kind,
            "metric": one.metric,
            "method": method,
            "mean_rank": round(rank, 4),
            "data_sets": len(one.datasets),
            "p": one.comparison.p,
            "critical_difference": round(one.comparison.critical_difference, 4),
        }
        for one in made
        for method, rank in one.comparison.ranks.items()
    ]
    notes = [
        "Rank 1 is the best of a data set, equals share the mean of their places; the mean is over data sets. "
        "Inductive and transductive methods are ranked apart, since these have seen the test rows.",
    ]
    title = f"Mean rank over {' or '.join(sorted({str(len(one.datasets)) for one in made}))} data sets"
    return Table("ranks", title, [*words("method"), *(Column(METRICS[m]) for m in metrics)], rows, notes, tidy)


def verdict(one: Ranking) -> str:
    """What the tests say of one comparison, and who is not in it."""
    p = "< 0.0001" if one.comparison.p < 1e-4 else f"= {one.comparison.p:.4f}"
    differ = "more than chance explains" if one.comparison.p < 0.05 else "no more than chance explains"
    said = f"{', '.join(one.datasets)}: ranks differ by {differ} (Friedman, p {p})."
    return said + (f" Not run on all of these: {', '.join(one.left_out)}." if one.left_out else "")
