from __future__ import annotations

import numpy as np

from firstsight.methods.parts import moments


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
