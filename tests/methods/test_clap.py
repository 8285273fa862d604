from __future__ import annotations

import math

import numpy as np
import pytest

from firstsight.methods import CLAP


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    texts = rng.normal(size=(5, 4))
    texts /= np.linalg.norm(texts, axis=1, keepdims=True)
    y = np.arange(30) % 3  # classes 3 and 4 have no samples
    X = texts[y] + 0.6 * rng.normal(size=(30, 4))
    return X / np.linalg.norm(X, axis=1, keepdims=True), y, texts


def probabilities(x, W):
    exps = [math.exp(100 * (x @ w) - 100) for w in W]
    return [value / sum(exps) for value in exps]


def penalties(X, y, texts):
    return [np.mean([probabilities(x, texts[:3])[c] for x in X[y == c]]) for c in range(3)]


def test_a_class_is_held_by_the_probability_that_its_text_gives_its_samples(data):
    X, y, texts = data
    np.testing.assert_allclose(CLAP().fit(X, y, texts).class_penalties_, penalties(X, y, texts), rtol=1e-9)


def test_the_gradient_of_the_objective_is_zero_at_the_weights(data):
    X, y, texts = data
    model = CLAP(penalty=20.0, iterations=5000).fit(X, y, texts)

    def objective(W):
        entropy = np.mean([-math.log(probabilities(x, W)[label]) for x, label in zip(X, y, strict=True)])
        held = zip(penalties(X, y, texts), W, texts[:3], strict=True)
        return entropy + 20 / 3 * sum(p * ((w - t) ** 2).sum() for p, w, t in held)

    def slope(W, at, step=1e-6):
        off = np.zeros_like(W)
        off[at] = step
        return (objective(W + off) - objective(W - off)) / (2 * step)

    places = list(np.ndindex(3, 4))
    first = max(abs(slope(texts[:3], at)) for at in places)
    assert max(abs(slope(model.weights_, at)) for at in places) < 1e-3 * first
    assert objective(model.weights_) == pytest.approx(model.history_[-1], rel=1e-9)


def test_seen_classes_are_scored_by_their_weights_and_others_by_their_texts(data):
    X, y, texts = data
    model = CLAP(penalty=20.0).fit(X, y, texts)
    expected = [[100 * x @ w for w in [*model.weights_, *texts[3:]]] for x in X]
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-9)


def test_a_large_penalty_leaves_the_texts_and_a_small_one_fits_the_samples(data):
    X, y, texts = data
    weights = CLAP(penalty=1e9).fit(X, y, texts).weights_
    np.testing.assert_allclose(weights, texts[:3], atol=1e-4)
    seen = [0, 1, 2]
    fitted, held = (CLAP(penalty=p).fit(X, y, texts).score(X, y, seen) for p in (1.0, 1e9))
    assert fitted > held
