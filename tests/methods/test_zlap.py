from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from firstsight.methods import ZLaP
from firstsight.methods.zlap import spread


def normalised(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    texts = normalised(np.abs(rng.normal(size=(5, 8))) @ np.diag([1, 1, 1, 1, 0.2, 0.2, 0.2, 0.2]))
    y = np.arange(9) % 3  # classes 3 and 4 have no labelled samples
    X = normalised(texts[y] + 0.2 * rng.normal(size=(9, 8)))
    pool = normalised(texts[np.arange(20) % 5] + 0.2 * rng.normal(size=(20, 8)))
    return X, y, texts, pool


def graph(X, texts, pool, allowed, neighbours, power):
    """Weights of links between labelled samples, pool samples and texts, one by one from the docstring."""
    samples = np.concatenate([X, pool])
    m = len(samples)
    W = np.zeros((m + len(texts),) * 2)
    for i in range(m):
        for j in sorted(set(range(m)) - {i}, key=lambda j: -(samples[i] @ samples[j]))[:neighbours]:
            W[i, j] = W[j, i] = max(0, samples[i] @ samples[j]) ** power
        if i >= len(X):
            total = sum(np.exp(100 * samples[i] @ texts[c]) for c in allowed)
            for c in sorted(allowed, key=lambda c: -(samples[i] @ texts[c]))[:neighbours]:
                W[i, m + c] = W[m + c, i] = np.exp(100 * samples[i] @ texts[c]) / total
    return samples, W


@pytest.mark.parametrize("setting", ["gzsl", "zsl"])
def test_labels_solve_the_objective_and_scores_follow_from_them(data, setting):
    X, y, texts, pool = data
    allowed = [3, 4] if setting == "zsl" else range(5)
    samples, W = graph(X, texts, pool, allowed, 2, 3.0)
    m, D = len(samples), 1 + W.sum(axis=1)
    Y = np.concatenate([0.4 * np.eye(5)[y], np.zeros((20, 5)), np.eye(5)])
    Z = 0.3 * np.linalg.inv(np.eye(len(W)) - 0.7 * W / np.sqrt(np.outer(D, D))) @ Y

    def objective(Z):
        Zd = Z / np.sqrt(D)[:, None]
        links = sum(W[i, j] * ((Zd[i] - Zd[j]) ** 2).sum() for i in range(len(W)) for j in range(len(W)))
        stays = sum((1 - 0.7 * W[i].sum() / D[i]) * (Z[i] ** 2).sum() for i in range(len(W)))
        return 0.7 * links / 2 + stays - 2 * 0.3 * (Z * Y).sum()

    rng = np.random.default_rng(2)
    for _ in range(5):  # a minimum: any step away, and back, is no better
        step = 1e-3 * rng.normal(size=Z.shape)
        assert min(objective(Z + step), objective(Z - step)) > objective(Z)

    model = ZLaP(setting=setting, alpha=0.7, neighbours=2, power=3.0, label_weight=0.4)
    model.fit(X, y, texts, X_unlabeled=pool)
    labels = np.hstack([model.seen_labels_, model.unseen_labels_[:, model.unseen_code_[3:]]])
    np.testing.assert_allclose(labels, Z[:m] / np.sqrt(D[:m])[:, None], atol=1e-7)
    for x, scores in zip(pool[:4], model.decision_function(pool[:4]), strict=True):
        nearest = sorted(range(m), key=lambda j: -(x @ samples[j]))[:2]
        weights = [max(0, x @ samples[j]) ** 3 for j in nearest]
        total = sum(np.exp(100 * x @ texts[c]) for c in allowed)
        to_texts = np.array([min(1, np.exp(100 * x @ t) / total) for t in texts])
        degree = 1 + sum(weights) + sum(sorted(to_texts[allowed])[-2:])
        expected = to_texts * Z[m:].diagonal() / np.sqrt(D[m:])
        expected += sum(w * Z[j] / np.sqrt(D[j]) for w, j in zip(weights, nearest, strict=True))
        np.testing.assert_allclose(scores, 0.7 * expected / np.sqrt(degree), atol=1e-7)


def test_spreading_solves_the_linear_system_column_by_column():
    rng = np.random.default_rng(0)
    M = rng.uniform(size=(30, 30)) * (rng.uniform(size=(30, 30)) < 0.1)
    W = M + M.T
    W /= np.abs(np.linalg.eigvalsh(W)).max()
    Y = np.column_stack([rng.normal(size=(30, 3)), np.zeros(30), 1e6 * rng.normal(size=30)])
    expected = 0.05 * np.linalg.solve(np.eye(30) - 0.95 * W, Y)
    np.testing.assert_allclose(spread(csr_array(W), Y, 0.95), expected, rtol=1e-5, atol=1e-7)


def test_without_weight_labels_of_samples_do_not_matter(data):
    X, y, texts, pool = data
    one, other = (
        ZLaP(label_weight=0.0).fit(X, labels, texts, X_unlabeled=pool).decision_function(pool)
        for labels in (y, y[::-1])
    )
    np.testing.assert_allclose(one, other, atol=1e-7)


def test_a_class_that_comes_later_has_the_score_of_its_own_link(data):
    X, y, texts, pool = data
    model = ZLaP().fit(X, y, texts, X_unlabeled=pool)
    new = normalised(np.ones(8))
    table = pd.DataFrame([new, texts[4]], index=["new", "known under another name"])
    found = model.decision_function(pool, classes=table)
    np.testing.assert_allclose(found[:, 1], model.decision_function(pool)[:, 4], rtol=1e-9)
    links = np.minimum(1, np.exp(100 * pool @ new) / np.exp(100 * pool @ texts.T).sum(axis=1))
    ratio = found[:, 0] / links  # what is left is the mean label of texts over the degree of the sample
    label = np.concatenate([model.seen_text_labels_, model.unseen_text_labels_]).mean()
    degrees = (0.6 * label / ratio) ** 2
    assert (degrees >= 1).all()
    assert (degrees <= 1 + 5 + 1 + 1e-9).all()  # itself, at most five samples, all texts
