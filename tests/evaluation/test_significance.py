from __future__ import annotations

import pytest
from scipy import stats

from firstsight.evaluation.significance import compare, compare_classes, compare_ranks


def _figures(*values):
    return dict(enumerate(values))


def test_the_same_seeds_are_compared_in_pairs():
    first, second = _figures(61.0, 63.0, 65.0), _figures(60.0, 61.0, 62.0)
    found = compare(first, second)
    assert found.test == "paired"
    # Differences 1, 2, 3: mean 2, deviation 1, t = 2√3 with two degrees of freedom.
    assert found.p == pytest.approx(2 * stats.t.sf(2 * 3**0.5, 2))
    assert found.exact == 2 / 8  # only all + and all − are as extreme


def test_a_swap_within_one_seed_counts_in_the_exact_test():
    # Differences 3, 3, −1: sums of all signs are ±5, ±7, ±1, ±1; two pairs reach 5.
    assert compare(_figures(3.0, 3.0, 0.0), _figures(0.0, 0.0, 1.0)).exact == 4 / 8


def test_other_seeds_are_compared_by_welch():
    first, second = {0: 1.0, 1: 2.0, 2: 3.0}, {3: 10.0, 4: 12.0, 5: 17.0, 6: 13.0}
    found = compare(first, second)
    assert found.test == "Welch"
    assert found.p == pytest.approx(stats.ttest_ind([1, 2, 3], [10, 12, 17, 13], equal_var=False).pvalue)
    assert found.exact == 1 / 35  # of all ways to choose 3 of 7, only the real one separates them so far


@pytest.mark.parametrize("seeds", [1, 2])
def test_too_few_seeds_give_no_p(seeds):
    few = {seed: float(seed) for seed in range(seeds)}
    found = compare(few, _figures(1.0, 2.0, 3.0, 4.0, 5.0))
    assert (found.test, found.p, found.exact) == ("", None, None)
    assert compare(few, few).p is None


def test_a_difference_that_never_changes_is_not_divided_by_zero():
    found = compare(_figures(2.0, 3.0, 4.0), _figures(1.0, 2.0, 3.0))
    assert found.p is None
    assert found.exact == 0.25
    assert compare({0: 2.0, 1: 2.0, 2: 2.0}, {3: 1.0, 4: 1.0, 5: 1.0}).p is None


def test_classes_are_compared_by_swapping_the_two_methods_in_each():
    first = {"t1": {"ox": 60.0, "yak": 70.0, "emu": 80.0}}
    second = {"t1": {"ox": 50.0, "yak": 60.0, "emu": 70.0}}
    # Ten more in each of three classes: of all eight ways to swap, only none and all are as extreme.
    assert compare_classes(first, second) == pytest.approx(2 / 8, abs=0.02)
    assert compare_classes(second, first) == compare_classes(first, second)
    assert compare_classes(first, first) == 1.0


def test_many_classes_show_what_few_cannot():
    first = {"t1": {str(i): 50.0 + i for i in range(40)}}
    second = {"t1": {str(i): 45.0 + i for i in range(40)}}
    assert compare_classes(first, second) == 1 / 10_000  # the way it was is one of them
    even = {"t1": {str(i): 50.0 + i + (5 if i % 2 else -5) for i in range(40)}}
    assert compare_classes(first, even) > 0.9


def test_h_is_compared_through_seen_and_unseen_classes():
    names = [str(i) for i in range(30)]
    first = {"ts": dict.fromkeys(names, 40.0), "tr": dict.fromkeys(names, 60.0)}
    # The same mean of all classes (50), but another harmonic mean: 48 against 2 · 10 · 90 / 100 = 18.
    second = {"ts": dict.fromkeys(names, 10.0), "tr": dict.fromkeys(names, 90.0)}
    assert compare_classes(first, second) < 0.001


def test_other_classes_or_none_are_not_compared():
    own = {"t1": {"ox": 60.0}}
    assert compare_classes(own, {"t1": {"yak": 60.0}}) is None
    assert compare_classes(own, {}) is None
    assert compare_classes({}, own) is None


# Two-sided 5 % points for Nemenyi's test as Demšar (2006) prints them, Table 5(a).
@pytest.mark.parametrize(("k", "q"), [(3, 2.343), (4, 2.569), (5, 2.728), (10, 3.164)])
def test_the_critical_difference_is_demsars(k, q):
    figures = {str(i): [float(i), float(i), float(i + 1)] for i in range(k)}
    found = compare_ranks(figures)
    assert found.critical_difference == pytest.approx(q * (k * (k + 1) / (6 * 3)) ** 0.5, abs=0.002 * k)
    assert found.n_datasets == 3


def test_ranks_are_means_over_data_sets_and_equals_share_a_place():
    found = compare_ranks({"a": [90.0, 50.0], "b": [80.0, 50.0], "c": [10.0, 60.0]})
    assert found.ranks == {"a": 1.75, "c": 2.0, "b": 2.25}  # on the second set a and b share 2 and 3
    assert list(found.ranks) == ["a", "c", "b"]


def test_what_always_comes_in_the_same_order_differs_and_what_is_always_equal_does_not():
    sets = 12
    found = compare_ranks({"a": [3.0] * sets, "b": [2.0] * sets, "c": [1.0] * sets})
    # Friedman: 12 n / (k (k + 1)) · Σ R² − 3 n (k + 1) = 12 · (1 + 4 + 9) − 36 · 4 = 24, with two degrees of freedom
    assert found.p == pytest.approx(stats.chi2.sf(24, 2))
    assert found.critical_difference == pytest.approx(2.343 * (1 / 6) ** 0.5, abs=0.001)  # 0.957: less than one rank
    assert found.alike == []
    same = compare_ranks({"a": [3.0] * 4, "b": [3.0] * 4, "c": [3.0] * 4})
    assert same.p == 1.0
    assert same.alike == [("a", "b", "c")]


def test_sets_of_methods_that_cannot_be_told_apart_overlap_and_none_lies_within_another():
    figures = {name: [float(100 - 10 * place)] * 3 for place, name in enumerate("abcd")}
    found = compare_ranks(figures)  # ranks 1, 2, 3, 4; CD = 2.569 · √(20 / 18) = 2.71
    assert found.alike == [("a", "b", "c"), ("b", "c", "d")]
