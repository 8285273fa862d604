from __future__ import annotations

import pytest
from scipy import stats

from firstsight.report.significance import compare, compare_classes, significance_table

ONCE = "one run (deterministic, or one seed)"


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


def _texts(table):
    return [[cell.text for cell in row] for row in table.rows if not isinstance(row, str)]


def test_the_table_names_leader_runner_up_and_verdict(read, synthetic):
    def record(method, seed, t1, **more):
        classes = {str(i): t1 + i for i in range(20)}
        return synthetic.record(method=method, seed=seed, t1=t1, per_class={"t1": classes}, **more)

    records = [record("rn", s, 60.0 + s) for s in range(3)]
    records += [record("ale", s, 50.0 + 1.1 * s) for s in range(3)]
    records += [record("sje", 0, 70.0, transductive=True)]
    table = significance_table(read(records))
    overall, inductive = _texts(table)
    assert table.rows[0] == "CUB"
    assert overall == ["T1", "all", "sje †", "rn", "+9.0", "1 and 3", "–", "–", ONCE, "0.0001", "yes"]
    assert inductive[:6] == ["T1", "inductive", "rn", "ale", "+9.9", "3"]
    assert inductive[-3:] == ["yes (paired)", "0.0001", "yes"]
    line = table.tidy[0]
    assert (line["dataset"], line["leader"], line["runner_up"], line["difference"]) == ("CUB", "sje", "rn", 9.0)
    assert (line["p_seeds"], line["p_classes"]) == (None, 0.0001)


@pytest.mark.parametrize(("seeds", "said"), [((1, 5), ONCE), ((1, 1), ONCE), ((2, 5), "too few seeds")])
def test_one_run_may_be_all_there_is(read, synthetic, seeds, said):
    cells = [(m, s) for m, n in zip(("rn", "ale"), seeds, strict=True) for s in range(n)]
    table = significance_table(read([synthetic.record(method=m, seed=s) for m, s in cells]))
    assert _texts(table)[0][8] == said


def test_a_leader_by_nothing_is_a_tie(read, synthetic):
    records = [synthetic.record(method=m, t1=t1) for m, t1 in (("ale", 70.0), ("rn", 70.02), ("sje", 60.0))]
    table = significance_table(read(records))
    (row,) = _texts(table)
    assert row[2:5] == ["rn", "ale", "tie"]
    assert table.tidy[0]["difference"] == 0.02
    assert "Tie: the difference rounds to 0.0." in table.notes
    assert not any("Tie" in note for note in significance_table(read(records[1:])).notes)


def test_who_is_told_more_is_not_compared(read, synthetic):
    records = [synthetic.record(method=m, t1=t1) for m, t1 in (("ale", 50.0), ("rn", 60.0), ("qfsl", 90.0))]
    records[-1]["extra_supervision"] = "it knows more"
    table = significance_table(read(records))
    (row,) = _texts(table)
    assert row[2:4] == ["rn", "ale"]
    assert row[-1] == "not recorded"  # without accuracies per class
    assert "(*) are not compared" in table.notes[-1]


def test_one_method_alone_has_nobody_to_lead(read, synthetic):
    assert significance_table(read([synthetic.record()])) is None
