"""Is the leader ahead of the runner-up by more than the seeds explain?"""

from __future__ import annotations

from itertools import combinations, product
from statistics import mean
from typing import NamedTuple

import numpy as np

from firstsight.report.results import TITLES, Results
from firstsight.report.table import Cell, Column, Table, signed

LEAST_SEEDS = 3  # two seeds cannot show how much seeds differ
_EXACT_UP_TO = 20_000  # arrangements to go through; beyond, the t-test alone is given


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


def significance_table(results: Results) -> Table | None:
    """The leader against the runner-up in T1 and H: among all methods, and among inductive ones."""
    titles = ("data set", "figure", "among", "leader", "runner-up")
    columns = [Column(title, is_number=False) for title in titles]
    columns += [Column(t) for t in ("difference", "seeds", "p (t-test)", "p (exact)")]
    columns.append(Column("verdict", is_number=False))
    rows: list[list[Cell] | str] = []
    for dataset in results.datasets:
        for metric in ("t1", "h"):
            shown: list[tuple[str, str]] = []
            for among in ("all", "inductive"):
                methods = [m for m in results.methods if among == "all" or results.is_inductive(m)]
                figures = {m: results.by_seed(dataset, m, metric) for m in methods}
                order = sorted((m for m in methods if figures[m]), key=lambda m: -mean(figures[m].values()))
                if len(order) < 2 or (order[0], order[1]) in shown:
                    continue
                first, second = order[:2]
                shown.append((first, second))
                cells = _cells(results, figures, first, second)
                rows.append([Cell(dataset), Cell(TITLES[metric]), Cell(among), *cells])
    if not rows:
        return None
    notes = [
        "Two-sided. Paired over seeds (t-test of the differences, exact sign flips) where both methods have the same "
        "seeds, else Welch's t-test and the exact permutation test; the verdict follows the t-test at 5 %.",
        "Exact tests have a floor: 2/2ⁿ with n paired seeds, 0.25 for three and 0.0625 for five. Leader and runner-up "
        "were picked by the same figures, so p is rather too small than too large.",
        f"Fewer than {LEAST_SEEDS} seeds of either are not tested. Methods without randomness are run once.",
    ]
    return Table("significance", "Is the leader's distance more than the seeds explain?", columns, rows, notes)


def _cells(results: Results, figures: dict[str, dict[int, float]], first: str, second: str) -> list[Cell]:
    found = compare(figures[first], figures[second])
    difference = mean(figures[first].values()) - mean(figures[second].values())
    if not found.test:
        verdict = "not enough seeds"
    elif found.p is None:
        verdict = "the same difference for every seed" if found.test == "paired" else "no seed changes either"
    else:
        verdict = f"{'significant' if found.p < 0.05 else 'not significant'} ({found.test})"
    return [
        Cell(results.label(first)),
        Cell(results.label(second)),
        Cell(signed(difference)),
        Cell(found.seeds),
        Cell(_shown(found.p)),
        Cell(_shown(found.exact)),
        Cell(verdict),
    ]


def _shown(p: float | None) -> str:
    if p is None:
        return "–"
    return "< 0.0001" if p < 1e-4 else f"{p:.4f}"
