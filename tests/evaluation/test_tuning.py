from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from firstsight.errors import BadInput
from firstsight.evaluation import evaluate
from firstsight.evaluation.tuning import (
    Candidate,
    at_an_end,
    best_of,
    grid_candidates,
    score_candidate,
    search_grid,
    search_optuna,
)
from firstsight.methods import ESZSL, DeepEmbedding, TransductiveDeepEmbedding

GRID = {"feature_penalty": [1e-3, 1.0, 1e3], "attribute_penalty": [1e-3, 1.0]}


@pytest.fixture(scope="module")
def folds(small):
    return small.validation_folds(3)


def test_a_candidate_is_scored_on_every_fold_with_the_figure_of_its_objective(folds):
    both = score_candidate(ESZSL(), folds, {"feature_penalty": 1.0})
    for objective, figure in (("zsl", "t1"), ("gzsl", "h")):
        alone = score_candidate(ESZSL(), folds, {"feature_penalty": 1.0}, [objective])
        expected = [getattr(evaluate(ESZSL(feature_penalty=1.0), fold), figure) for fold in folds]
        assert list(alone.scores) == [objective]
        assert alone.scores[objective] == both.scores[objective] == pytest.approx(expected)
        assert both.mean(objective) == pytest.approx(np.mean(expected))
        assert both.deviation(objective) == pytest.approx(np.std(expected, ddof=1))


def test_an_inductive_method_is_fitted_once_for_both_objectives(folds, monkeypatch):
    fits = []
    fit = ESZSL.fit
    monkeypatch.setattr(ESZSL, "fit", lambda self, *data, **more: fits.append(1) or fit(self, *data, **more))
    score_candidate(ESZSL(), folds, {})
    assert len(fits) == len(folds)


def test_the_whole_grid_is_scored_and_the_best_mean_chosen(folds):
    found = search_grid(ESZSL(), folds, GRID)
    assert [c.parameters for c in found] == grid_candidates(GRID)
    assert len(found) == 6
    for objective in ("zsl", "gzsl"):
        best = best_of(found, objective).mean(objective)
        assert best == max(np.mean(c.scores[objective]) for c in found)
        assert best > min(c.mean(objective) for c in found)  # there was something to choose


def test_known_candidates_are_not_fitted_again_and_new_ones_are_told(folds, monkeypatch):
    whole = search_grid(ESZSL(), folds, GRID)
    told = []
    again = search_grid(ESZSL(), folds, GRID, known=whole[:4], tell=told.append)
    assert [c.parameters for c in told] == [c.parameters for c in whole[4:]]
    assert [c.scores for c in again] == [c.scores for c in whole]


def _poisoned(small):
    """The data set with NaN wherever tuning must not look: test rows, and descriptions of unseen classes.

    Assigned past the checks, which refuse NaN; whatever touches them gets NaN or is refused.
    """
    poisoned = replace(small)
    features, attributes = small.features.copy(), small.class_attributes.copy()
    features[np.concatenate([small.test_seen, small.test_unseen])] = np.nan
    attributes[np.isin(small.class_names, small.unseen_classes)] = np.nan
    object.__setattr__(poisoned, "features", features)
    object.__setattr__(poisoned, "class_attributes", attributes)
    return poisoned


@pytest.mark.parametrize("objective", ["zsl", "gzsl"])
@pytest.mark.parametrize("method", [ESZSL, DeepEmbedding, TransductiveDeepEmbedding])
def test_tuning_cannot_touch_test_rows_or_unseen_descriptions(small, method, objective):
    quick = {**method.quick, "random_state": 0} if method.quick else {}
    with pytest.raises(BadInput):  # the poison works: an ordinary evaluation meets it
        evaluate(method(**quick), _poisoned(small))
    grid = {"attribute_scaling": ["unit", None]}
    clean, poisoned = (
        search_grid(method(**quick), data.validation_folds(1), grid, [objective]) for data in (small, _poisoned(small))
    )
    assert [c.scores for c in poisoned] == [c.scores for c in clean]
    assert all(np.isfinite(c.mean(objective)) and c.mean(objective) > 0 for c in poisoned)


def test_labels_of_test_rows_do_not_reach_the_folds(small):
    for fold in small.validation_folds(3):
        test = np.concatenate([small.test_seen, small.test_unseen])
        assert (fold.labels[test] == -1).all()
        used = np.concatenate([fold.train, fold.test_seen, fold.test_unseen])
        assert set(used) <= set(small.train)
        assert not set(fold.class_names) & set(small.unseen_classes)


def test_a_candidate_that_cannot_be_fitted_is_told_and_never_chosen(folds):
    found = search_grid(ESZSL(), folds, {"feature_penalty": [-1.0, 1.0]})
    assert "feature_penalty" in found[0].error
    assert best_of(found, "zsl").parameters == {"feature_penalty": 1.0}
    with pytest.raises(BadInput, match="No candidate could be fitted"):
        best_of(found[:1], "zsl")


def test_a_collapsing_candidate_does_not_stop_the_search(small):
    estimator = DeepEmbedding(**DeepEmbedding.quick, random_state=0)
    found = search_grid(estimator, small.validation_folds(1), {"separation": [0.0, 300.0]})
    assert best_of(found, "zsl").parameters == {"separation": 300.0}


def test_of_equal_candidates_the_first_is_chosen():
    equal = [Candidate({"a": value}, {"zsl": [0.5]}) for value in (1, 2)]
    assert best_of(equal, "zsl").parameters == {"a": 1}


def test_a_best_value_at_the_end_of_the_grid_is_noticed():
    grid = {"inner": [1, 2, 3], "low": [1, 2], "high": [0.1, 1.0], "alone": [5], "word": ["unit", None]}
    best = Candidate({"inner": 2, "low": 1, "high": 1.0, "alone": 5, "word": "unit"}, {})
    assert at_an_end(best, grid) == ["low", "high"]


def test_optuna_searches_between_the_ends_of_the_grid_and_goes_on_from_known_trials(folds):
    pytest.importorskip("optuna")
    told = []
    grid = {"feature_penalty": [1e-2, 1e2], "attribute_scaling": ["unit", None]}
    first = search_optuna(ESZSL(), folds[:1], grid, trials=4, tell=told.append)
    assert told == first
    assert all(1e-2 <= c.parameters["feature_penalty"] <= 1e2 for c in first)
    assert len({c.key for c in first}) > 1
    more = search_optuna(ESZSL(), folds[:1], grid, trials=6, known=first, tell=told.append)
    assert more[:4] == first
    assert len(more) == len(told) == 6
    assert not {c.key for c in more[4:]} & {c.key for c in first}


def test_without_optuna_its_absence_is_told(folds, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(BadInput, match=r"pip install 'firstsight\[optuna\]'"):
        search_optuna(ESZSL(), folds, GRID)


def test_an_unknown_objective_is_refused(folds):
    with pytest.raises(BadInput, match="zsl, gzsl or both"):
        score_candidate(ESZSL(), folds, {}, ["h"])
