"""scikit-learn's own checks: without descriptions, both estimators are ordinary classifiers."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.utils.estimator_checks import parametrize_with_checks

from firstsight.methods import DeepEmbedding, TransductiveDeepEmbedding

SMALL = {"embedding_dim": 32, "learning_rate": 1e-2, "iterations": 15, "semantic_steps": 10, "random_state": 0}

# Check → why it cannot hold. Anything else that fails is a bug.
EXPECTED_TO_FAIL: dict[str, str] = {}


@pytest.mark.filterwarnings("ignore:The embedding has collapsed")
@parametrize_with_checks(
    [DeepEmbedding(**SMALL), TransductiveDeepEmbedding(**SMALL)],
    expected_failed_checks=lambda estimator: EXPECTED_TO_FAIL,
)
def test_scikit_learns_checks_pass(estimator, check):
    check(estimator)


def test_grid_search_over_groups_is_class_wise_cross_validation(task):
    search = GridSearchCV(
        DeepEmbedding(**{**SMALL, "iterations": 5}), {"separation": [0.0, 100.0]}, cv=GroupKFold(3), error_score="raise"
    )
    with pytest.warns(UserWarning, match="collapsed"):
        search.fit(task.X, task.y, groups=task.y, descriptions=task.table)
    assert search.best_params_ == {"separation": 100.0}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
