"""A small zero-shot task whose unseen classes follow from their descriptions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest


class Task:
    """20 seen and 5 unseen classes, 10 attributes, 16 features: features are a noisy linear image of attributes."""

    def __init__(self, seed: int = 0):
        rng = np.random.default_rng(seed)
        self.A = rng.uniform(size=(25, 10))
        names = np.array([f"class{i:02d}" for i in range(25)])
        self.table = pd.DataFrame(self.A, index=names)
        self.seen, self.unseen = names[:20], names[20:]
        mixing = rng.normal(size=(10, 16))
        codes = np.repeat(np.arange(25), 30)
        X = np.maximum(self.A[codes] @ mixing + 0.05 * rng.normal(size=(len(codes), 16)), 0)
        order = rng.permutation(len(codes))
        X, codes = X[order].astype(np.float32), codes[order]
        known = codes < 20
        train = known & (rng.uniform(size=len(codes)) < 0.8)
        self.X, self.y = X[train], names[codes[train]]
        self.X_seen, self.y_seen = X[known & ~train], names[codes[known & ~train]]
        self.X_unseen, self.y_unseen = X[~known], names[codes[~known]]
        self.pool = np.concatenate([self.X_seen, self.X_unseen])


@pytest.fixture(scope="session")
def task() -> Task:
    return Task()
