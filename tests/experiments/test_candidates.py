from __future__ import annotations

import sys

import pytest

from firstsight.errors import BadInput
from firstsight.experiments.choices import (
    ScoredCandidate,
    choose,
    gain_over,
    grid_candidates,
    independent_folds,
    parameters_at_edge,
)
from firstsight.experiments.tune import search_optuna


def _candidate(parameters, t1=(), h=(), error=""):
    return ScoredCandidate(parameters=parameters, t1=list(t1), h=list(h), error=error)


def _peak(asked):
    """Scores as a formula: the best penalty is 10, in both objectives' own ways."""

    def score(candidates):
        asked.extend(candidates)
        return [_candidate(c, [-abs(c["penalty"] - 10)], [-c["penalty"]]) for c in candidates]

    return score


def test_a_grid_is_every_combination_in_the_order_of_its_values():
    assert grid_candidates({"a": [1, 2], "b": ["x", None]}) == [
        {"a": 1, "b": "x"},
        {"a": 1, "b": None},
        {"a": 2, "b": "x"},
        {"a": 2, "b": None},
    ]


def test_mean_and_deviation_are_those_of_the_folds():
    candidate = _candidate({}, [50.0, 60.0, 70.0], [1.0])
    assert (candidate.mean("zsl"), candidate.deviation("zsl")) == (60.0, pytest.approx(10.0))
    assert candidate.deviation("gzsl") is None


def test_each_objective_has_its_own_best():
    found = _peak([])([{"penalty": p} for p in (1.0, 10.0, 100.0)])
    assert choose(found, "zsl").parameters == {"penalty": 10.0}
    assert choose(found, "gzsl").parameters == {"penalty": 1.0}


def test_of_equal_candidates_the_first_is_chosen():
    equal = [_candidate({"a": value}, [0.5]) for value in (1, 2)]
    assert choose(equal, "zsl").parameters == {"a": 1}


def test_a_candidate_that_cannot_be_fitted_is_never_chosen():
    failed, worked = _candidate({"a": 1}, error="It cannot be."), _candidate({"a": 2}, [0.0])
    assert choose([failed, worked], "zsl") is worked
    with pytest.raises(BadInput, match=r"No candidate could be fitted \(It cannot be\); give other values."):
        choose([failed], "zsl")


def test_a_best_value_at_the_end_of_the_grid_is_noticed():
    grid = {"inner": [1, 2, 3], "low": [1, 2, 4], "high": [0.1, 0.3, 1.0], "two": [5, 6], "word": ["a", "b", None]}
    best = _candidate({"inner": 2, "low": 1, "high": 1.0, "two": 5, "word": "a"})
    assert parameters_at_edge(best, grid) == ["low", "high"]


def test_optuna_searches_between_the_ends_of_the_grid_and_goes_the_same_way_again():
    pytest.importorskip("optuna")
    asked, again = [], []
    grid = {"penalty": [1e-2, 1e3], "scaling": ["unit", None], "top": [5, 20]}
    found = search_optuna(_peak(asked), grid, "zsl", trials=25)
    assert [c.parameters for c in found] == asked
    assert all(1e-2 <= p["penalty"] <= 1e3 and p["top"] in range(5, 21) for p in asked)
    assert {p["scaling"] for p in asked} == {"unit", None}
    assert abs(choose(found, "zsl").parameters["penalty"] - 10) < 5  # of five decades
    search_optuna(_peak(again), grid, "zsl", trials=30)
    assert again[:25] == asked


def test_optuna_goes_on_after_a_candidate_that_fails():
    pytest.importorskip("optuna")
    found = search_optuna(lambda cs: [_candidate(c, error="no") for c in cs], {"penalty": [1.0, 2.0]}, "zsl", trials=3)
    assert len(found) == 3


def test_without_optuna_its_absence_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(BadInput, match=r"pip install 'firstsight\[optuna\]'"):
        search_optuna(_peak([]), {"penalty": [1.0, 2.0]}, "zsl")


def _scored(mean, *apart, parameters=None):
    """A candidate whose T1 on the folds differs from 50, 60, 70 … by these."""
    base = [50.0 + 10 * n for n in range(len(apart))]
    return _candidate(parameters or {"mean": mean}, [b + a for b, a in zip(base, apart, strict=True)])


def test_a_gain_is_paired_fold_by_fold():
    default, better = _scored(0, 0.0, 0.0, 0.0), _scored(2, 1.0, 2.0, 3.0)
    # Folds lie 10 apart; what counts is that the differences 1, 2 and 3 lie 1 apart.
    assert gain_over(default, better, "zsl", 3) == (pytest.approx(2.0), pytest.approx(1 / 3**0.5))
    assert gain_over(default, better, "zsl", 1) == (pytest.approx(2.0), pytest.approx(1.0))


def test_the_defaults_stay_unless_the_gain_exceeds_the_noise():
    default = _scored("default", 0.0, 0.0, 0.0)
    lucky = _scored("lucky", 9.0, -2.0, -1.0)  # 2 on average, with a standard error of 3.5
    steady = _scored("steady", 1.0, 1.2, 0.8)
    assert choose([default, lucky, steady], "zsl") is lucky
    assert choose([default, lucky], "zsl", default, 3) is default
    assert choose([lucky, default, steady], "zsl", default, 3) is steady
    worse = _scored("worse", -1.0, -1.0, -1.0)
    assert choose([default, worse], "zsl", default, 3) is default


def test_folds_that_share_classes_count_as_fewer(small):
    assert independent_folds(small.validation_folds(2)) == 2  # of 14 classes, each holds out five others
    repeated = small.validation_folds(12)
    assert independent_folds(repeated) == pytest.approx(14 / 5)
    default, other = _scored("default", *[0.0] * 12), _scored("other", *[1.0, -0.3] * 6)
    error = gain_over(default, other, "zsl", 12)[1]
    assert error < gain_over(default, other, "zsl", 12)[0] < gain_over(default, other, "zsl", 14 / 5)[1]


def test_where_the_defaults_cannot_be_fitted_the_best_of_the_others_is_chosen():
    default, other = _candidate({"a": 1}, error="It cannot be."), _scored("other", 1.0, 1.0)
    assert choose([default, other], "zsl", default, 2) is other
