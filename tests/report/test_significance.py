from __future__ import annotations

import pytest
from scipy import stats

from firstsight.report.significance import compare, significance_table


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


def _texts(row):
    return [cell.text for cell in row]


def test_the_table_names_leader_runner_up_and_verdict(read, synthetic):
    record = synthetic.record
    records = [record(method="rn", seed=s, t1=60.0 + s) for s in range(3)]
    records += [record(method="ale", seed=s, t1=50.0 + 1.1 * s) for s in range(3)]
    records += [record(method="qfsl", t1=70.0, transductive=True)]
    table = significance_table(read(records))
    overall, inductive = map(_texts, table.rows)
    assert overall[:6] == ["CUB", "T1", "all", "qfsl †", "rn", "+9.0"]
    assert overall[6:] == ["1 and 3", "–", "–", "not enough seeds"]
    assert inductive[:6] == ["CUB", "T1", "inductive", "rn", "ale", "+9.9"]
    assert inductive[-1] == "significant (paired)"


def test_one_method_alone_has_nobody_to_lead(read, synthetic):
    assert significance_table(read([synthetic.record()])) is None
