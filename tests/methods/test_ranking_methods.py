"""ALE, SJE and DeViSE: one bilinear score, three losses."""

from __future__ import annotations

import numpy as np
import pytest

from firstsight.evaluation import mean_class_accuracy
from firstsight.methods import ALE, SJE, DeViSE

METHODS = [ALE, SJE, DeViSE]


def every_violated_class(terms):
    """DeViSE: each violated class pushes alike."""
    return {c: 1.0 for c, term in terms.items() if term > 0}


def every_violated_class_weighted_by_rank(terms):
    """ALE: violated classes share Σ_{i≤r} 1/i evenly, r being their number."""
    violated = [c for c, term in terms.items() if term > 0]
    return {c: sum(1 / i for i in range(1, len(violated) + 1)) / len(violated) for c in violated}


def the_worst_violated_class(terms):
    """SJE: the largest term alone; at W = 0 all wrong classes are equally bad, and a tie shares the step."""
    worst = [c for c, term in terms.items() if term == max(terms.values())]
    return {c: 1 / len(worst) for c in worst if terms[c] > 0}


def steps_by_hand(pushes, X, codes, S, margin, rate, steps):
    """Full-batch gradient descent on the docstring's formula, row by row and class by class."""
    W = np.zeros((X.shape[1], S.shape[1]))
    for _ in range(steps):
        gradient = np.zeros_like(W)
        for x, y in zip(X, codes, strict=True):
            F = [x @ W @ a for a in S]
            terms = {c: margin + F[c] - F[y] for c in range(len(S)) if c != y}
            for c, weight in pushes(terms).items():
                gradient += weight * np.outer(x, S[c] - S[y])
        W -= rate * gradient / len(X)
    return W


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize(
    ("method", "pushes"),
    [
        (ALE, every_violated_class_weighted_by_rank),
        (SJE, the_worst_violated_class),
        (DeViSE, every_violated_class),
    ],
)
def test_a_step_moves_the_weights_as_the_formula_says(method, pushes, steps):
    rng = np.random.default_rng(0)
    S, codes = rng.uniform(size=(4, 3)), np.repeat([0, 1, 2, 3], 3)
    X = rng.normal(size=(12, 5)).astype(np.float32)
    plain = {"feature_scaling": None, "attribute_scaling": None, "random_state": 0}
    model = method(margin=0.5, learning_rate=0.3, epochs=steps, batch_size=12, **plain).fit(X, codes, S)
    rate = 0.3 / np.mean([x @ x for x in X]) / np.mean([a @ a for a in S])
    np.testing.assert_allclose(model.weights_, steps_by_hand(pushes, X, codes, S, 0.5, rate, steps), atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_the_score_is_bilinear(task, method):
    model = method(random_state=0).fit(task.X, task.y, task.table)
    A = task.A / np.linalg.norm(task.A, axis=1, keepdims=True)
    X = model._scale_features(task.X_unseen)
    expected = [[x @ model.weights_ @ a for a in A] for x in X[:5]]
    np.testing.assert_allclose(model.decision_function(task.X_unseen[:5]), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_margin_and_learning_rate_stretched_together_stretch_the_weights_alone(task, method):
    one = method(margin=1.0, epochs=2, random_state=0).fit(task.X, task.y, task.table)
    two = method(margin=2.0, learning_rate=2 * one.learning_rate, epochs=2, random_state=0)
    two.fit(task.X, task.y, task.table)
    np.testing.assert_array_equal(two.weights_, 2 * one.weights_)  # a factor of two is exact in floating point


@pytest.mark.parametrize("method", METHODS)
def test_unseen_classes_are_recognised_far_above_chance(task, method):
    model = method(random_state=0).fit(task.X, task.y, task.table)
    found = model.predict(task.X_unseen, classes=task.unseen)
    assert mean_class_accuracy(task.y_unseen, found) > 0.6  # chance is 0.2
