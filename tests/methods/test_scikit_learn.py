"""scikit-learn's own checks: without descriptions, every method is an ordinary classifier."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.utils.estimator_checks import parametrize_with_checks

from firstsight.methods import DeepEmbedding, all_methods

# Check → why it cannot hold. Anything else that fails is a bug.
EXPECTED_TO_FAIL: dict[str, str] = {}
ENOUGH = 60  # epochs, for the few rows of these checks


def quick(method):
    """An estimator that learns a few rows in a moment."""
    estimator = method(**method.quick)
    known = estimator.get_params()
    wanted = {"random_state": 0, "epochs": min(known.get("epochs", 0), ENOUGH)}
    return estimator.set_params(**{name: value for name, value in wanted.items() if name in known})


# Where rows and descriptions must share one space, one-hot codes describe nothing: there is no ordinary classifier.
ORDINARY = [method for method in all_methods().values() if not method.shared_space]


# One of each family: closed form from moments, Gaussians, ranking losses, patterns of attributes, a network, a network
# with unlabelled samples, kernel prototypes. Their base class does what these checks look at, so that the others are
# left to `make slow`.
FAMILIES = {"ESZSL", "GFZSL", "ALE", "DAP", "DeepEmbedding", "QFSL", "KernelPrototypes"}


def _checks_of(methods):
    estimators = [quick(method) for method in methods]
    return parametrize_with_checks(estimators, expected_failed_checks=lambda estimator: EXPECTED_TO_FAIL)


@pytest.mark.filterwarnings("ignore:The embedding has collapsed")
@_checks_of([method for method in ORDINARY if method.__name__ in FAMILIES])
def test_scikit_learns_checks_pass(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The embedding has collapsed")
@_checks_of([method for method in ORDINARY if method.__name__ not in FAMILIES])
def test_scikit_learns_checks_pass_for_every_other_method(estimator, check):
    check(estimator)


def test_the_families_are_methods():
    assert {method.__name__ for method in ORDINARY} >= FAMILIES


def test_grid_search_over_groups_is_class_wise_cross_validation(task):
    search = GridSearchCV(quick(DeepEmbedding), {"separation": [0.0, 100.0]}, cv=GroupKFold(3), error_score="raise")
    with pytest.warns(UserWarning, match="collapsed"):
        search.fit(task.X, task.y, groups=task.y, descriptions=task.table)
    assert search.best_params_ == {"separation": 100.0}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


# scikit-learn has a check for names of features, `check_dataframe_column_names_consistency`, which is not among the
# checks above: it asks for an error where columns come in another order. Here they are put in order instead; the rest
# of that check is this test.
@pytest.mark.parametrize("method", ORDINARY)
@pytest.mark.filterwarnings("ignore:The embedding has collapsed")
def test_names_of_features_are_kept_and_matched(method):
    rng = np.random.RandomState(0)
    X = pd.DataFrame(rng.normal(size=(150, 8)), columns=[f"col_{i}" for i in range(8)])
    model = quick(method).fit(X, rng.randint(low=0, high=2, size=150))
    assert isinstance(model.feature_names_in_, np.ndarray)
    assert model.feature_names_in_.dtype == object
    assert model.feature_names_in_.tolist() == X.columns.tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = model.decision_function(X)
        scores = model.decision_function(X[X.columns[::-1]])
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)  # memory lies otherwise, and rounds otherwise
    for other in (X.set_axis([f"another_prefix_{i}" for i in range(8)], axis=1), X[X.columns[:3]]):
        with pytest.raises(ValueError, match=r"fitted with 8 features, but X .* lacks 'col_"):
            model.predict(other)
