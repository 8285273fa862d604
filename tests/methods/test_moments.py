from __future__ import annotations

import numpy as np
import pytest

from firstsight.methods import _moments as moments
from firstsight.methods._moments import GatheredMoments


def test_sums_in_blocks_are_the_sums_of_all_rows(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(25, 3)).astype(np.float32), rng.integers(4, size=25)
    monkeypatch.setattr(moments, "BLOCK", 7)
    np.testing.assert_allclose(moments.gram(X), X.T.astype(np.float64) @ X)
    expected = [X[y == c].sum(axis=0, dtype=np.float64) for c in range(4)]
    np.testing.assert_allclose(moments.class_sums(X, y, 4), expected)


def test_sums_are_in_double_precision():
    X = np.full((3, 2), 1e-4, dtype=np.float32)
    assert moments.gram(X).dtype == moments.class_sums(X, np.zeros(3, int), 1).dtype == np.float64


@pytest.mark.parametrize("n_classes", [3, 200])  # many rows of each class in a block, and hardly one
def test_moments_gathered_in_blocks_are_those_of_all_rows(n_classes):
    random = np.random.default_rng(0)
    X, y = (random.normal(size=(700, 5)) + 100).astype(np.float32), random.integers(0, n_classes, 700)
    gathered = GatheredMoments(n_classes, frozenset({"scatter"}))
    for start in (0, 300):
        gathered.add(X[start : start + 300 + start], y[start : start + 300 + start])
    there = np.unique(y)
    found = gathered.moments(0.0, 1.0)
    of_class = [X[y == c].astype(np.float64) for c in there]
    np.testing.assert_array_equal(found.counts, [len(rows) for rows in of_class])
    np.testing.assert_allclose(found.sums, [rows.sum(axis=0) for rows in of_class], rtol=1e-12)
    np.testing.assert_allclose(
        found.scatter, [((rows - rows.mean(axis=0)) ** 2).sum(axis=0) for rows in of_class], rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("needs", [frozenset(), frozenset({"gram"})])
def test_the_spread_of_gathered_rows_is_that_of_all_rows(needs):
    X = np.random.default_rng(0).normal(size=(40, 3)) * [1, 5, 0.1] + [3, -7, 100]
    gathered = GatheredMoments(2, needs)
    gathered.add(X[:25], np.arange(25) % 2)
    gathered.add(X[25:], np.arange(15) % 2)
    mean, deviation = gathered.scaling(np.float64).values()
    np.testing.assert_allclose(mean, X.mean(axis=0))
    np.testing.assert_allclose(deviation, X.std(axis=0))


def test_the_mean_eigenvalue_is_the_mean_of_the_eigenvalues():
    M = np.array([[4.0, 1.0, 0.0], [1.0, 2.0, 0.5], [0.0, 0.5, 9.0]])
    assert moments.mean_eigenvalue(M) == pytest.approx(np.linalg.eigvalsh(M).mean())
    assert moments.mean_eigenvalue(np.zeros((2, 2))) == 1
