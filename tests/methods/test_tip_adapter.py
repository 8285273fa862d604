from __future__ import annotations

import math

import numpy as np
import pytest

from firstsight.methods import TipAdapter


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    texts = rng.normal(size=(5, 4))
    y = np.array([2, 0, 1, 2, 2, 0])  # classes 3 and 4 have no samples
    return texts[y] + 0.5 * rng.normal(size=(6, 4)), y, texts


def test_scores_are_text_scores_plus_weighted_neighbours_of_the_class(data):
    X, y, texts = data
    new = np.random.default_rng(1).normal(size=(7, 4))
    scores = TipAdapter(alpha=20.0, beta=2.0).fit(X, y, texts).decision_function(new)

    def cosine(u, v):
        return u @ v / math.sqrt(u @ u) / math.sqrt(v @ v)

    for i, x in enumerate(new):
        for c, t in enumerate(texts):
            expected = 100 * cosine(x, t)
            for f, label in zip(X, y, strict=True):
                if label == c:
                    expected += 20 * math.exp(-2 * (1 - cosine(x, f)))
            assert scores[i, c] == pytest.approx(expected, rel=1e-12)


def test_a_seen_class_described_under_a_new_name_has_its_text_alone(data):
    import pandas as pd

    X, y, texts = data
    model = TipAdapter(alpha=20.0).fit(X, y, texts)
    known, new = model.decision_function(X), model.decision_function(X, pd.DataFrame(texts, index=list("abcde")))
    np.testing.assert_array_equal(known[:, 3:], new[:, 3:])
    assert (known[:, :3] > new[:, :3]).all()


def test_blocks_of_samples_do_not_change_scores(data):
    X, y, texts = data
    many = np.tile(X, (200_000, 1))  # so many that few new samples fit into a block
    few = TipAdapter(alpha=20.0 * 200_000, beta=2.0).fit(X, y, texts).decision_function(X)
    model = TipAdapter(alpha=20.0, beta=2.0).fit(many, np.tile(y, 200_000), texts)
    np.testing.assert_allclose(model.decision_function(X), few, rtol=1e-9)
