from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from firstsight.evaluation import mean_class_accuracy
from firstsight.methods import DAP


def test_scores_are_those_of_one_logistic_regression_per_attribute():
    rng = np.random.default_rng(0)
    A, y = rng.uniform(size=(7, 4)), np.arange(100) % 5  # classes 5 and 6 have no rows
    X = A[y] @ rng.normal(size=(4, 6)) + 0.3 * rng.normal(size=(100, 6))
    model = DAP(penalty=0.1).fit(X, y, A)
    has = A[:5].mean(axis=0) < A
    expected = np.zeros((100, 7))
    for m in range(4):
        attribute = LogisticRegression(C=1 / (0.1 * X.var(axis=0).mean() * 100), tol=1e-8).fit(X, has[y, m])
        p, prior = attribute.predict_proba(X)[:, 1], has[:5, m].mean()
        for c in range(7):
            expected[:, c] += np.log(p / prior) if has[c, m] else np.log((1 - p) / (1 - prior))
    np.testing.assert_allclose(model.decision_function(X), expected, atol=0.02)


def test_new_classes_are_binarised_at_the_seen_classes_mean(task):
    model = DAP().fit(task.X, task.y, task.table.loc[task.seen])
    np.testing.assert_allclose(model.thresholds_, task.A[:20].mean(axis=0), rtol=1e-6)
    new = task.table.loc[task.unseen]
    stretched = pd.DataFrame(np.where(new > model.thresholds_, 9.0, -9.0), index=new.index)
    np.testing.assert_array_equal(
        model.decision_function(task.X_unseen, classes=new), model.decision_function(task.X_unseen, classes=stretched)
    )
    assert mean_class_accuracy(task.y_unseen, model.predict(task.X_unseen, classes=new)) > 0.6


def test_an_attribute_that_all_seen_classes_share_says_nothing(task):
    constant = task.table.assign(constant=0.3)
    expected = DAP().fit(task.X, task.y, task.table).decision_function(task.X_unseen)
    found = DAP().fit(task.X, task.y, constant).decision_function(task.X_unseen)
    np.testing.assert_allclose(found, expected, atol=0.05)


def test_rows_far_outside_get_finite_scores(task):
    model = DAP(penalty=1e-4).fit(task.X, task.y, task.table)
    assert np.isfinite(model.decision_function(1e4 * task.X_unseen)).all()
