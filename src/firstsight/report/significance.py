"""Is the leader ahead of the runner-up by more than chance explains: that of seeds, and that of classes?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from statistics import mean
from typing import Any, NamedTuple

import numpy as np

from firstsight.report.classes import class_accuracies
from firstsight.report.results import TITLES, Results
from firstsight.report.table import Cell, Column, Table, signed

LEAST_SEEDS = 3  # two seeds cannot show how much seeds differ
_EXACT_UP_TO = 20_000  # arrangements to go through; beyond, the t-test alone is given
_SWAPS = 9_999  # with the order as it was, 10,000 arrangements: p is a multiple of 0.0001
_CLASS_FIGURES = {"t1": ("t1",), "h": ("ts", "tr")}  # a figure, and the accuracies per class that it is made of
Accuracies = dict[str, dict[str, float]]  # of one method: metric → class → percent


class Comparison(NamedTuple):
    """Two-sided p values of one difference of means; None where there are too few seeds."""

    test: str
    p: float | None
    exact: float | None
    seeds: str


def compare(first: dict[int, float], second: dict[int, float]) -> Comparison:
    """Compare two methods by their figures per seed: paired where both have the same seeds.

    Paired: t-test of the differences, and the exact sign-flip permutation test. Else: Welch's t-test, and the exact
    permutation test of the difference of means.
    """
    from scipy import stats

    if first.keys() == second.keys() and len(first) >= LEAST_SEEDS:
        differences = np.array([first[seed] - second[seed] for seed in first])
        if np.ptp(differences) < 1e-9:  # a t-test divides by this spread
            return Comparison("paired", None, _sign_flips(differences), str(len(first)))
        p = stats.ttest_1samp(differences, 0.0).pvalue
        return Comparison("paired", float(p), _sign_flips(differences), str(len(first)))
    seeds = f"{len(first)} and {len(second)}"
    a, b = np.array(list(first.values())), np.array(list(second.values()))
    if min(len(a), len(b)) < LEAST_SEEDS:
        return Comparison("", None, None, seeds)
    if max(np.ptp(a), np.ptp(b)) < 1e-9:
        return Comparison("Welch", None, _permutations(a, b), seeds)
    p = stats.ttest_ind(a, b, equal_var=False).pvalue
    return Comparison("Welch", float(p), _permutations(a, b), seeds)


def _sign_flips(differences: np.ndarray) -> float | None:
    """The share of all ways to swap the two methods within seeds that lead to a mean difference as large."""
    if 2 ** len(differences) > _EXACT_UP_TO:
        return None
    signs = np.array(list(product((1, -1), repeat=len(differences))))
    means = np.abs(signs @ differences)
    return float(np.mean(means >= abs(differences.sum()) - 1e-9))


def _permutations(a: np.ndarray, b: np.ndarray) -> float | None:
    """The share of all ways to deal the figures to the two methods that lead to a difference as large."""
    both = np.concatenate([a, b])
    dealt = list(combinations(range(len(both)), len(a))) if len(both) <= 16 else []
    if not dealt:
        return None
    sums = both[np.array(dealt)].sum(axis=1)
    found = np.abs(sums / len(a) - (both.sum() - sums) / len(b))
    return float(np.mean(found >= abs(a.mean() - b.mean()) - 1e-9))


def compare_classes(first: Accuracies, second: Accuracies) -> float | None:
    """Two-sided p value over classes, of {metric: {class: accuracy}}; None if they were not tested on the same classes.

    A randomisation test: were the two methods equally good, each class could as well have shown their accuracies the
    other way round. The figure is the mean over classes; of two metrics (ts, tr), their harmonic mean.
    """
    if not first or any(first[m].keys() != second.get(m, {}).keys() for m in first):
        return None
    random = np.random.default_rng(0)
    means = []
    for metric, classes in first.items():
        pairs = np.array([[classes[name], second[metric][name]] for name in classes])  # (k, 2)
        swapped = random.random((_SWAPS + 1, len(pairs))) < 0.5
        swapped[0] = False  # the way it was
        means.append([np.where(swapped, theirs, own).mean(axis=1) for own, theirs in (pairs.T, pairs.T[::-1])])
    one, other = map(_harmonic, zip(*means, strict=True))
    found = np.abs(one - other)
    return float(np.mean(found >= found[0] - 1e-9))


def _harmonic(means: tuple[np.ndarray, ...]) -> np.ndarray:
    if len(means) == 1:
        return means[0]
    a, b = means
    return 2 * a * b / np.maximum(a + b, 1e-12)


def significance_table(results: Results) -> Table | None:
    """The leader against the runner-up in T1 and H: among all ranked methods, and among inductive ones."""
    columns = [Column(title, is_number=False) for title in ("figure", "among", "leader", "runner-up")]
    columns += [Column("difference"), Column("seeds")]
    columns += [Column("p\u00a0(t\u00a0test)", "over seeds"), Column("p\u00a0(exact)", "over seeds")]
    columns += [Column("significant", "over seeds", is_number=False)]
    columns += [Column("p\u00a0(swaps)", "over classes"), Column("significant", "over classes", is_number=False)]
    rows: list[list[Cell] | str] = []
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
        f"enough for: {_SWAPS:,} times, the two methods' accuracies change places in classes drawn by lot. For H it is "
        "strict: where one method gains in ts what it loses in tr, a real difference may read 'no'.",
        "Two-sided; verdicts at 5 %, of the t test and of the swaps, not corrected for the number of rows. Leader and "
        "runner-up were picked by the same figures, so p is rather too small than too large.",
    ]
    if any(row[4].text == "tie" for row in rows if not isinstance(row, str)):
        notes.append("Tie: the difference rounds to 0.0.")
    if len(results.ranked()) < len(results.methods):
        notes.append("Methods that are told more than the others (*) are not compared.")
    title = "Is the leader's distance more than chance explains?"
    return Table("significance", title, columns, rows, notes, tidy)


def _pairs(results: Results, dataset: str) -> Iterator[tuple[str, str, str, str]]:
    """(metric, among whom, leader, runner-up); the same two methods are compared once."""
    for metric in _CLASS_FIGURES:
        shown: set[tuple[str, str]] = set()
        for among in ("all", "inductive"):
            methods = [m for m in results.ranked() if among == "all" or results.is_inductive(m)]
            means = {m: mean(f.values()) for m in methods if (f := results.by_seed(dataset, m, metric))}
            order = sorted(means, key=lambda m: -means[m])
            if len(order) > 1 and (order[0], order[1]) not in shown:
                shown.add((order[0], order[1]))
                yield metric, among, order[0], order[1]


def _compared(
    results: Results, dataset: str, metric: str, first: str, second: str
) -> tuple[list[Cell], dict[str, Any]]:
    figures = [results.by_seed(dataset, method, metric) for method in (first, second)]
    found = compare(*figures)
    classes = compare_classes(*(_accuracies(results, dataset, method, metric) for method in (first, second)))
    difference = mean(figures[0].values()) - mean(figures[1].values())
    shown = signed(difference)
    texts = [results.label(first), results.label(second), "tie" if shown == signed(0.0) else shown, found.seeds]
    texts += [_shown(found.p), _shown(found.exact), _verdict_over_seeds(found, min(map(len, figures)))]
    texts += [_shown(classes), "not recorded" if classes is None else _verdict(classes)]
    line = {"leader": first, "runner_up": second, "difference": round(difference, 2), "test": found.test}
    line |= {"leader_seeds": len(figures[0]), "runner_up_seeds": len(figures[1])}
    line |= {"p_seeds": found.p, "p_seeds_exact": found.exact, "p_classes": classes}
    return [Cell(text) for text in texts], line


def _accuracies(results: Results, dataset: str, method: str, metric: str) -> Accuracies:
    found = {own: class_accuracies(results, dataset, own).get(method, {}) for own in _CLASS_FIGURES[metric]}
    return found if all(found.values()) else {}


def _verdict_over_seeds(found: Comparison, fewest: int) -> str:
    if not found.test:  # of one run, records do not tell whether other seeds would change anything
        return "too few seeds" if fewest > 1 else "one run (deterministic, or one seed)"
    if found.p is None:
        return "the same difference for every seed" if found.test == "paired" else "no seed changes either"
    return f"{_verdict(found.p)} ({found.test})"


def _verdict(p: float) -> str:
    return "yes" if p < 0.05 else "no"


def _shown(p: float | None) -> str:
    if p is None:
        return "–"
    return "< 0.0001" if p < 1e-4 else f"{p:.4f}"
