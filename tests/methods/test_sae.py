from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import solve_sylvester
from sklearn.metrics.pairwise import cosine_similarity

from firstsight.evaluation import mean_class_accuracy
from firstsight.methods import SAE

PLAIN = {"feature_scaling": None, "attribute_scaling": None}


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(50, 6)), np.arange(50) % 5, rng.uniform(size=(5, 4))


def weight_of(encoding_weight, X, y, S):
    """λ: the parameter in units of the mean eigenvalues of both sides."""
    sides = (np.linalg.eigvalsh(M.T @ M).mean() for M in (S[y], X))
    return encoding_weight * next(sides) / next(sides)


def test_the_weights_have_zero_gradient(data):
    X, y, S = data
    W = SAE(encoding_weight=0.7, **PLAIN).fit(X, y, S).weights_
    gradient = -2 * S[y].T @ (X - S[y] @ W) + 2 * weight_of(0.7, X, y, S) * (X @ W.T - S[y]).T @ X
    assert np.abs(gradient).max() < 1e-10


def test_the_weights_are_those_of_a_general_sylvester_solver(data):
    X, y, S = data
    weight = weight_of(3.0, X, y, S)
    expected = solve_sylvester(S[y].T @ S[y], weight * X.T @ X, (1 + weight) * S[y].T @ X)
    np.testing.assert_allclose(SAE(encoding_weight=3.0, **PLAIN).fit(X, y, S).weights_, expected, atol=1e-10)


def test_directions_that_no_row_and_no_description_has_stay_at_zero():
    rng = np.random.default_rng(0)
    X, y = np.c_[rng.normal(size=(20, 2)), np.zeros(20)], np.arange(20) % 2
    W = SAE(encoding_weight=1.0, **PLAIN).fit(X, y, np.array([[1.0, 0, 0], [0, 1, 0]])).weights_  # (3, 3)
    assert np.isfinite(W).all()
    assert np.abs(W[2]).max() < 1e-12
    assert np.abs(W[:, 2]).max() < 1e-12


def test_each_direction_compares_where_it_says(data):
    X, y, S = data
    for direction, rows, classes in (
        ("semantic", lambda W: X @ W.T, lambda W: S),
        ("visual", lambda W: X, lambda W: S @ W),
    ):
        model = SAE(direction=direction, **PLAIN).fit(X, y, S)
        expected = cosine_similarity(rows(model.weights_), classes(model.weights_))
        np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-12)


@pytest.mark.parametrize("direction", ["semantic", "visual"])
def test_both_directions_recognise_unseen_classes(task, direction):
    model = SAE(direction=direction, encoding_weight=0.1).fit(task.X, task.y, task.table)
    assert mean_class_accuracy(task.y_unseen, model.predict(task.X_unseen, classes=task.unseen)) > 0.6
