from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from firstsight.methods._linear_models import cross_entropy, fit_linear, logistic, squared_hinge


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    return 10 * rng.normal(size=(3, 5))[y] * [1, 1, 1, 0.1, 3] + 8 * rng.normal(size=(90, 5)) + 4, y


@pytest.mark.parametrize("kind", ["softmax", "logistic", "hinge"])
def test_the_minimum_has_zero_gradient_in_the_callers_own_coordinates(data, kind):
    X, y = data
    signs = np.where(y[:, None] == np.arange(3), 1.0, -1.0)
    loss = {"softmax": cross_entropy(y), "logistic": logistic(signs), "hinge": squared_hinge(signs)}[kind]
    W, b = fit_linear(X, loss, 3, 0.5)
    slope = loss(X @ W + b)[1] / len(X)
    rows = X - X.mean(axis=0)
    assert np.abs(slope.sum(axis=0)).max() < 2e-3
    assert np.abs(rows.T @ slope + 0.5 * X.var(axis=0).mean() * W).max() < 2e-2  # at W = 0 it is above 1


@pytest.mark.parametrize("kind", ["softmax", "logistic", "hinge"])
def test_a_loss_returns_its_own_derivative(kind):
    rng = np.random.default_rng(0)
    Z, y = rng.normal(size=(4, 3)), np.array([0, 2, 1, 1])
    signs = np.where(y[:, None] == np.arange(3), 1.0, -1.0)
    loss = {"softmax": cross_entropy(y), "logistic": logistic(signs), "hinge": squared_hinge(signs)}[kind]
    value, slope = loss(Z)
    for i, j in np.ndindex(Z.shape):
        step = np.zeros_like(Z)
        step[i, j] = 1e-6
        assert (loss(Z + step)[0] - value) / 1e-6 == pytest.approx(slope[i, j], abs=1e-5)


def test_softmax_agrees_with_scikit_learn(data):
    X, y = data
    W, _ = fit_linear(X, cross_entropy(y), 3, 0.5)
    expected = LogisticRegression(C=1 / (0.5 * X.var(axis=0).mean() * len(X)), tol=1e-9, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(W, expected.coef_.T, atol=5e-3)


def test_squared_hinge_agrees_with_scikit_learn(data):
    X, y = data
    W, _ = fit_linear(X, squared_hinge(np.where(y[:, None] == np.arange(3), 1.0, -1.0)), 3, 0.5)
    # LinearSVC penalises the intercept too, unless it is scaled out of reach; its loss is a sum.
    expected = LinearSVC(
        C=1 / (0.5 * X.var(axis=0).mean() * len(X)), intercept_scaling=1e3, tol=1e-9, max_iter=100000
    ).fit(X, y)
    np.testing.assert_allclose(W, expected.coef_.T, atol=5e-3)


def test_single_precision_in_gives_single_precision_out(data):
    X, y = data
    single = fit_linear(X.astype(np.float32), cross_entropy(y), 3, 0.5)
    assert all(part.dtype == np.float32 for part in single)
    np.testing.assert_allclose(single[0], fit_linear(X, cross_entropy(y), 3, 0.5)[0], atol=5e-3)
