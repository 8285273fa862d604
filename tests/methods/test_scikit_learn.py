"""scikit-learn's own checks: without descriptions, every method is an ordinary classifier."""

from __future__ import annotations

import numpy as np
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


@pytest.mark.filterwarnings("ignore:The embedding has collapsed")
@parametrize_with_checks(
    [quick(method) for method in ORDINARY], expected_failed_checks=lambda estimator: EXPECTED_TO_FAIL
)
def test_scikit_learns_checks_pass(estimator, check):
    check(estimator)


def test_grid_search_over_groups_is_class_wise_cross_validation(task):
    search = GridSearchCV(quick(DeepEmbedding), {"separation": [0.0, 100.0]}, cv=GroupKFold(3), error_score="raise")
    with pytest.warns(UserWarning, match="collapsed"):
        search.fit(task.X, task.y, groups=task.y, descriptions=task.table)
    assert search.best_params_ == {"separation": 100.0}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
