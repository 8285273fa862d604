from __future__ import annotations

import numpy as np
import pytest

from firstsight.evaluation import mean_class_accuracy
from firstsight.methods import DeViSE

PLAIN = {"feature_scaling": None, "attribute_scaling": None, "random_state": 0}


def steps_by_hand(X, codes, S, margin, rate, steps):
    """Full-batch gradient descent on the docstring's formula, row by row and class by class."""
    W = np.zeros((X.shape[1], S.shape[1]))
    for _ in range(steps):
        gradient = np.zeros_like(W)
        for x, y in zip(X, codes, strict=True):
            F = [x @ W @ a for a in S]
            terms = {c: margin + F[c] - F[y] for c in range(len(S))}
            wrong = [c for c in range(len(S)) if c != y]
            for c in wrong:
                gradient += np.outer(x, S[c] - S[y]) * (terms[c] > 0)
        W -= rate * gradient / len(X)
    return W


@pytest.mark.parametrize("steps", [1, 4])
def test_a_step_moves_the_weights_along_every_violated_class(steps):
    rng = np.random.default_rng(0)
    S, codes = rng.uniform(size=(4, 3)), np.repeat([0, 1, 2, 3], 3)
    X = rng.normal(size=(12, 5)).astype(np.float32)
    model = DeViSE(margin=0.5, learning_rate=0.3, epochs=steps, batch_size=12, **PLAIN).fit(X, codes, S)
    np.testing.assert_allclose(model.weights_, steps_by_hand(X, codes, S, 0.5, 0.3, steps), atol=1e-5)


def test_the_score_is_bilinear(task):
    model = DeViSE(random_state=0).fit(task.X, task.y, task.table)
    A = task.A / np.linalg.norm(task.A, axis=1, keepdims=True)
    X = model._scale_features(task.X_unseen)
    expected = [[x @ model.weights_ @ a for a in A] for x in X[:5]]
    np.testing.assert_allclose(model.decision_function(task.X_unseen[:5]), expected, rtol=1e-3, atol=1e-4)


def test_margin_and_learning_rate_stretched_together_stretch_the_weights_alone(task):
    one = DeViSE(margin=1.0, epochs=2, random_state=0).fit(task.X, task.y, task.table)
    two = DeViSE(margin=2.0, learning_rate=2 * one.learning_rate, epochs=2, random_state=0)
    two.fit(task.X, task.y, task.table)
    np.testing.assert_array_equal(two.weights_, 2 * one.weights_)  # a factor of two is exact in floating point


def test_unseen_classes_are_recognised_far_above_chance(task):
    model = DeViSE(random_state=0).fit(task.X, task.y, task.table)
    found = model.predict(task.X_unseen, classes=task.unseen)
    assert mean_class_accuracy(task.y_unseen, found) > 0.6  # chance is 0.2
