from __future__ import annotations

import numpy as np
import pytest

from firstsight.errors import BadInput
from firstsight.methods import GDA, Cosine


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    texts = rng.normal(size=(5, 4))
    y = np.arange(21) % 3  # classes 3 and 4 have no samples
    return texts[y] + 0.5 * rng.normal(size=(21, 4)), y, texts


def normalised(rows):
    return np.array([row / np.linalg.norm(row) for row in rows])


def expected_scores(X, y, texts, alpha, neighbours, copies):
    """Score of every sample and class, number by number from the docstring."""
    rows, t = normalised(X), normalised(texts)
    N, d = rows.shape
    means = {c: rows[y == c].mean(axis=0) for c in set(y)}
    deviations = np.array([x - means[c] for x, c in zip(rows, y, strict=True)])
    covariance = sum(np.outer(v, v) for v in deviations) / (N - 1)
    inverse = d * np.linalg.inv((N - 1) * covariance + np.trace(covariance) * np.eye(d))
    for c in range(len(t)):
        if c not in means:
            nearest = sorted(rows, key=lambda x: -(x @ t[c]))[:neighbours]
            means[c] = np.mean([*nearest, *[t[c]] * copies], axis=0)
    return [
        [100 * x @ t[c] + alpha * (x @ inverse @ means[c] - 0.5 * means[c] @ inverse @ means[c]) for c in range(len(t))]
        for x in rows
    ]


@pytest.mark.parametrize(("neighbours", "copies"), [(6, 2), (6, 0), (1, 1), (100, 3)])
def test_scores_are_those_of_text_plus_gaussians_of_one_covariance(data, neighbours, copies):
    X, y, texts = data
    model = GDA(alpha=0.7, neighbours=neighbours, copies=copies).fit(X, y, texts)
    expected = expected_scores(X, y, texts, 0.7, neighbours, copies)
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-9)


def test_many_classes_borrow_block_by_block_what_they_borrow_alone(data):
    X, y, texts = data
    model = GDA(neighbours=5).fit(np.tile(X, (5000, 1)), np.tile(y, 5000), texts)  # 105,000 samples: 19 classes at once
    many = np.random.default_rng(1).normal(size=(60, 4))
    together = model._embed_classes(many)[1]
    alone = np.concatenate([model._embed_classes(row[None])[1] for row in many])
    np.testing.assert_allclose(together, alone, rtol=1e-9)


def test_without_weight_the_text_alone_decides(data):
    X, y, texts = data
    scores = GDA(alpha=0.0).fit(X, y, texts).decision_function(X)
    np.testing.assert_allclose(scores, 100 * Cosine().fit(X, y, texts).decision_function(X), rtol=1e-12)


def test_the_length_of_samples_and_texts_does_not_matter(data):
    X, y, texts = data
    one = GDA(alpha=0.7).fit(X, y, texts).decision_function(X)
    other = GDA(alpha=0.7).fit(3 * X, y, 7 * texts).decision_function(5 * X)
    np.testing.assert_allclose(one, other, rtol=1e-9)


def test_samples_without_any_variance_have_scores(data):
    _, y, texts = data
    scores = GDA().fit(normalised(texts)[y], y, texts).decision_function(texts)
    assert (scores.argmax(axis=1) == np.arange(5)).all()


def test_descriptions_of_another_space_are_rejected(data):
    X, y, texts = data
    with pytest.raises(BadInput, match=r"GDA compares rows.*one vision-language model"):
        GDA().fit(X, y, texts[:, :3])
