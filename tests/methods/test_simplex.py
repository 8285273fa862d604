from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from firstsight.methods.sse import mixtures


def test_mixtures_are_the_minimum_that_a_general_solver_finds():
    rng = np.random.default_rng(0)
    A, S = rng.uniform(size=(3, 4)), rng.uniform(size=(5, 4))
    for a, found in zip(A, mixtures(A, S, 0.1), strict=True):
        solution = minimize(
            lambda alpha, a=a: 0.5 * np.sum((a - S.T @ alpha) ** 2) + 0.05 * alpha @ alpha,
            np.full(5, 0.2),
            bounds=[(0, 1)] * 5,
            constraints={"type": "eq", "fun": lambda alpha: alpha.sum() - 1},
            tol=1e-12,
        )
        np.testing.assert_allclose(found, solution.x, atol=1e-4)


def test_entries_are_not_negative_and_sum_to_one():
    rng = np.random.default_rng(0)
    found = mixtures(10 * rng.normal(size=(20, 4)), rng.normal(size=(7, 4)), 0.01)
    assert found.min() >= 0
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)


def test_a_row_of_the_given_ones_is_made_of_itself_when_spreading_out_costs_nothing():
    S = np.eye(4) + 0.1
    np.testing.assert_allclose(mixtures(S, S, 1e-6), np.eye(4), atol=1e-3)
