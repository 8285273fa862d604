"""Significance tests of differences: over seeds, over classes, over data sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from firstsight.evaluation.scores import harmonic_mean

LEAST_SEEDS = 3  # two seeds cannot show how much seeds differ
_EXACT_UP_TO = 20_000  # arrangements to go through; beyond, the t-test alone is given
SWAPS = 9_999  # with the order as it was, 10,000 arrangements: p is a multiple of 0.0001
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
    result = np.abs(sums / len(a) - (both.sum() - sums) / len(b))
    return float(np.mean(result >= abs(a.mean() - b.mean()) - 1e-9))


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
        swapped = random.random((SWAPS + 1, len(pairs))) < 0.5
        swapped[0] = False  # the way it was
        means.append([np.where(swapped, b, a).mean(axis=1) for a, b in (pairs.T, pairs.T[::-1])])
    values = (of[0] if len(of) == 1 else harmonic_mean(*of) for of in zip(*means, strict=True))
    result = np.abs(np.subtract(*values))
    return float(np.mean(result >= result[0] - 1e-9))


class RankComparison(NamedTuple):
    """Methods by their mean rank over data sets (1 is best), and how far apart two must be to differ at 5 %."""

    ranks: dict[str, float]  # best first
    n_datasets: int
    p: float  # Friedman's: were all equally good, ranks would be as uneven as these
    critical_difference: float  # Nemenyi's
    alike: list[tuple[str, ...]]  # the largest sets of neighbours of which no two differ by as much


def compare_ranks(figures: Mapping[str, Sequence[float]]) -> RankComparison:
    """Compare methods over data sets, {method: figure on each data set}, as Demšar (2006) proposes.

    Each data set ranks the methods, equals sharing the mean of their places; Friedman's test asks whether mean ranks
    differ at all, and Nemenyi's which two: by at least q·√(k(k + 1) / 6n) for k methods on n data sets, where q is the
    5 % point of the studentized range divided by √2. Needs three methods and two data sets.

    >>> found = compare_ranks({"a": [60.0, 70.0, 80.0], "b": [50.0, 60.0, 70.0], "c": [40.0, 65.0, 60.0]})
    >>> {method: round(rank, 2) for method, rank in found.ranks.items()}
    {'a': 1.0, 'b': 2.33, 'c': 2.67}
    """
    from scipy import stats

    values = np.array(list(figures.values()), dtype=float)  # (k, n)
    k, n = values.shape
    means = stats.rankdata(-values, axis=0).mean(axis=1)
    ranks = {method: float(mean) for mean, method in sorted(zip(means, figures, strict=True), key=itemgetter(0))}
    same = bool(np.ptp(values, axis=0).max() == 0)  # Friedman's statistic would be 0 / 0
    p = 1.0 if same else float(stats.friedmanchisquare(*values).pvalue)
    distance = float(stats.studentized_range.ppf(0.95, k, np.inf) / np.sqrt(2) * np.sqrt(k * (k + 1) / (6 * n)))
    return RankComparison(ranks, n, p, distance, _alike(ranks, distance))


def _alike(ranks: Mapping[str, float], distance: float) -> list[tuple[str, ...]]:
    order, result = list(ranks), []
    last = 0
    for start, method in enumerate(order):
        end = sum(rank - ranks[method] < distance for rank in ranks.values())
        if end > max(last, start + 1):  # else it lies within the one before, or is alone
            result.append(tuple(order[start:end]))
            last = end
    return result
