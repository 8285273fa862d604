from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.kernel_ridge import KernelRidge

from firstsight.methods import GFZSL

PLAIN = {"feature_scaling": None, "attribute_scaling": None}


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    S, y = rng.uniform(size=(6, 4)), np.arange(60) % 6
    return S[y] @ rng.normal(size=(4, 3)) + 0.2 * rng.normal(size=(60, 3)), y, S, rng.uniform(size=(2, 4))


def gaussians(X, y):
    """μ_c, log σ²_c and the average class, class by class and straight from the docstring."""
    within = np.mean([(x - X[y == c].mean(axis=0)) ** 2 for x, c in zip(X, y, strict=True)], axis=0)
    within += 1e-6 * within.mean() + 1e-12
    means = np.array([X[y == c].mean(axis=0) for c in range(y.max() + 1)])
    squares = [((X[y == c] - means[c]) ** 2).sum(axis=0) for c in range(y.max() + 1)]
    variances = np.array([(s + within) / ((y == c).sum() + 1) for c, s in enumerate(squares)])
    return means, np.log(variances), means.mean(axis=0), np.log(within)


def test_scores_are_log_likelihoods_under_gaussians_from_kernel_ridge_regression(data):
    X, y, S, new = data
    model = GFZSL(mean_penalty=0.1, variance_penalty=2.0, **PLAIN).fit(X, y, np.vstack([S, new]))
    means, logs, mean, log = gaussians(X, y)
    ridge = {"kernel": "poly", "degree": 2, "gamma": 1, "coef0": 1}
    A = np.vstack([S, new])
    mu = mean + KernelRidge(alpha=0.1, **ridge).fit(S, means - mean).predict(A)
    sigma = np.exp((log + KernelRidge(alpha=2.0, **ridge).fit(S, logs - log).predict(A)) / 2)
    expected = np.array([[norm.logpdf(x, m, s).sum() for m, s in zip(mu, sigma, strict=True)] for x in X])
    constant = -1.5 * np.log(2 * np.pi)  # three features
    np.testing.assert_allclose(model.decision_function(X), expected - constant, rtol=1e-8)


def test_estimated_gaussians_stand_for_seen_classes_only(data):
    X, y, S, new = data
    A = np.vstack([S, new])
    estimated = GFZSL(seen_gaussians="estimated", **PLAIN).fit(X, y, A).decision_function(X)
    regressed = GFZSL(**PLAIN).fit(X, y, A).decision_function(X)
    np.testing.assert_array_equal(estimated[:, 6:], regressed[:, 6:])
    means, logs, _, _ = gaussians(X, y)
    expected = norm.logpdf(X[:, None], means, np.exp(logs / 2)).sum(axis=2) + 1.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(estimated[:, :6], expected, rtol=1e-8)


def test_a_class_of_one_row_and_a_feature_that_never_varies_give_finite_scores():
    X = np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 5.0], [1.1, 0.0, 5.0]])
    scores = GFZSL().fit(X, [0, 1, 1], np.eye(2)).decision_function(X + 1)
    assert np.isfinite(scores).all()
