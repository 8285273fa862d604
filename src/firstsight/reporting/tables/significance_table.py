"""Is the leader ahead of the runner-up by more than chance explains: that of seeds, and that of classes?"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import mean
from typing import Any

from firstsight.evaluation.significance import LEAST_SEEDS, SWAPS, Accuracies, Comparison, compare, compare_classes
from firstsight.reporting.recorded_results import TITLES, Results
from firstsight.reporting.tables.table import Cell, Column, Row, Table, signed, words

_CLASS_FIGURES = {"t1": ("t1",), "h": ("ts", "tr")}  # a figure, and the accuracies per class that it is made of


def significance_table(results: Results) -> Table | None:
    """The leader against the runner-up in T1 and H: among all ranked methods, and among inductive ones."""
    columns = words("figure", "among", "leader", "runner-up")
    columns += [Column("difference"), Column("seeds")]
    columns += [Column("p\u00a0(t\u00a0test)", "over seeds"), Column("p\u00a0(exact)", "over seeds")]
    columns += [Column("significant", "over seeds", is_number=False)]
    columns += [Column("p\u00a0(swaps)", "over classes"), Column("significant", "over classes", is_number=False)]
    rows: list[Row] = []
    tidy: list[dict[str, Any]] = []
    for dataset in results.datasets:
        pairs = list(_pairs(results, dataset))
        rows += [dataset] * bool(pairs)
        for metric, among, first, second in pairs:
            cells, line = _compared(results, dataset, metric, first, second)
            rows.append([Cell(TITLES[metric]), Cell(among), *cells])
            tidy.append({"dataset": dataset, "metric": metric, "among": among, **line})
    if not rows:
        return None
    notes = [
        "Over seeds: would another training run turn the order round? Paired (t test of the differences, exact sign "
        "flips) where both methods have the same seeds, else Welch's t test and the exact permutation test. Fewer than "
        f"{LEAST_SEEDS} seeds of either are not tested; a method without anything random runs once, whatever "
        "`--seeds` says. Exact tests have a floor: 2/2ⁿ with n paired seeds, 0.25 for three and 0.0625 for five.",
        "Over classes: would other classes of the same kind turn it round? A randomisation test, which one seed is "
        f"enough for: {SWAPS:,} times, the two methods' accuracies change places in classes drawn by lot. For H it is "
        "strict: where one method gains in ts what it loses in tr, a real difference may read 'no'.",
        "Two-sided; verdicts at 5 %, of the t test and of the swaps, not corrected for the number of rows. Leader and "
        "runner-up were picked by the same figures, so p is rather too small than too large.",
    ]
    if any(row[4].text == "tie" for row in rows if not isinstance(row, str)):
        notes.append("Tie: the difference rounds to 0.0.")
    if len(results.ranked()) < len(results.methods):
        notes.append("Methods with extra supervision (*) are not compared.")
    title = "Is the leader's distance more than chance explains?"
    return Table("significance", title, columns, rows, notes, tidy)


def _pairs(results: Results, dataset: str) -> Iterator[tuple[str, str, str, str]]:
    """(metric, among whom, leader, runner-up); the same two methods are compared once."""
    for metric in _CLASS_FIGURES:
        shown: set[tuple[str, str]] = set()
        for among in ("all", "inductive"):
            methods = [m for m in results.ranked() if among == "all" or results.is_inductive(m)]
            means = {m: value for m in methods if (value := results.mean_of(dataset, m, metric)) is not None}
            order = sorted(means, key=lambda m: -means[m])
            if len(order) > 1 and (order[0], order[1]) not in shown:
                shown.add((order[0], order[1]))
                yield metric, among, order[0], order[1]


def _compared(
    results: Results, dataset: str, metric: str, first: str, second: str
) -> tuple[list[Cell], dict[str, Any]]:
    figures = [results.by_seed(dataset, method, metric) for method in (first, second)]
    comparison = compare(*figures)
    classes = compare_classes(*(_accuracies(results, dataset, method, metric) for method in (first, second)))
    difference = mean(figures[0].values()) - mean(figures[1].values())
    shown = signed(difference)
    texts = [results.label(first), results.label(second), "tie" if shown == signed(0.0) else shown, comparison.seeds]
    texts += [_shown(comparison.p), _shown(comparison.exact), _verdict_over_seeds(comparison, min(map(len, figures)))]
    texts += [_shown(classes), "not recorded" if classes is None else _verdict(classes)]
    line = {"leader": first, "runner_up": second, "difference": round(difference, 2), "test": comparison.test}
    line |= {"leader_seeds": len(figures[0]), "runner_up_seeds": len(figures[1])}
    line |= {"p_seeds": comparison.p, "p_seeds_exact": comparison.exact, "p_classes": classes}
    return [Cell(text) for text in texts], line


def _accuracies(results: Results, dataset: str, method: str, metric: str) -> Accuracies:
    comparison = {own: results.class_accuracies(dataset, own).get(method, {}) for own in _CLASS_FIGURES[metric]}
    return comparison if all(comparison.values()) else {}


def _verdict_over_seeds(comparison: Comparison, fewest: int) -> str:
    if not comparison.test:  # of one run, records do not tell whether other seeds would change anything
        return "too few seeds" if fewest > 1 else "one run (deterministic, or one seed)"
    if comparison.p is None:
        return "the same difference for every seed" if comparison.test == "paired" else "no seed changes either"
    return f"{_verdict(comparison.p)} ({comparison.test})"


def _verdict(p: float) -> str:
    return "yes" if p < 0.05 else "no"


def _shown(p: float | None) -> str:
    if p is None:
        return "–"
    return "< 0.0001" if p < 1e-4 else f"{p:.4f}"
