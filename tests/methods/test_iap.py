from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression

from firstsight.methods import IAP


def test_attribute_probabilities_are_sums_over_seen_classes():
    rng = np.random.default_rng(0)
    A, y = rng.uniform(size=(7, 4)), np.arange(100) % 5  # classes 5 and 6 have no rows
    X = A[y] @ rng.normal(size=(4, 6)) + 0.3 * rng.normal(size=(100, 6))
    model = IAP(penalty=0.1).fit(X, y, A)
    P = LogisticRegression(C=1 / (0.1 * X.var(axis=0).mean() * 100), tol=1e-8).fit(X, y).predict_proba(X)
    has = A[:5].mean(axis=0) < A
    expected = np.zeros((100, 7))
    for m in range(4):
        p, prior = sum(P[:, k] for k in range(5) if has[k, m]), has[:5, m].mean()
        for c in range(7):
            expected[:, c] += np.log(p / prior) if has[c, m] else np.log((1 - p) / (1 - prior))
    np.testing.assert_allclose(model.decision_function(X), expected, atol=0.02)


def test_a_row_that_is_surely_of_one_class_has_this_classs_pattern(task):
    model = IAP(penalty=1e-5).fit(task.X, task.y, task.table)
    sure = 50 * (task.X_seen - task.X.mean(axis=0)) + task.X.mean(axis=0)
    codes = (sure @ model.weights_ + model.intercepts_).argmax(axis=1)
    scores = model.decision_function(sure, classes=model.seen_classes_)
    assert np.isfinite(scores).all()
    best = model.seen_classes_[scores.argmax(axis=1)]
    positions = {c: i for i, c in enumerate(model.classes_)}
    found = np.array([model.seen_code_[positions[c]] for c in best])
    assert (found == codes).mean() > 0.95
