"""TransCLIP and StatA: their shared loop against a plain one, and what tells them apart."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from firstsight.methods import StatA, TransCLIP
from firstsight.methods._text_mixture import nearest_others

BOTH = pytest.mark.parametrize("method", [TransCLIP, StatA])


def normalised(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    texts = normalised(np.abs(rng.normal(size=(6, 8))))
    y = np.arange(12) % 3  # classes 3, 4 and 5 have no labelled samples
    X = normalised(texts[y] + 0.1 * rng.normal(size=(12, 8)))
    classes = np.repeat([0, 1, 2, 3, 4], 6)  # nothing in the pool is of class 5
    pool = normalised(texts[classes] + 0.1 * rng.normal(size=(30, 8)))
    return X, y, texts, pool, classes


def softmax(values):
    exps = np.exp(values - max(values))
    return exps / exps.sum()


def density(x, mean, variance):
    return norm.logpdf(x, mean, np.sqrt(variance)).sum()


def gaussians_of_transclip(z, samples, texts, start):
    means = normalised(np.array([sum(w * x for w, x in zip(z[:, c], samples, strict=True)) for c in range(len(texts))]))
    parts = [w * (x - m) ** 2 for row, x in zip(z, samples, strict=True) for w, m in zip(row, means, strict=True)]
    return means, [sum(parts) / len(samples)] * len(texts)


def gaussians_of_stata(z, samples, texts, start):
    means, variances = [], []
    for c, text in enumerate(texts):
        n = z[:, c].sum()
        beta = n / (2.0 + n)
        means.append(
            normalised(beta * sum(w * x for w, x in zip(z[:, c], samples, strict=True)) / n + (1 - beta) * text)
        )
        within = sum(w * (x - means[c]) ** 2 for w, x in zip(z[:, c], samples, strict=True)) / n
        variances.append(beta * within + (1 - beta) * (start + (text - means[c]) ** 2))
    return np.array(means), variances


@pytest.mark.parametrize(
    ("model", "gaussians"),
    [(TransCLIP, gaussians_of_transclip), (lambda **p: StatA(anchor=2.0, **p), gaussians_of_stata)],
)
@pytest.mark.parametrize("setting", ["gzsl", "zsl"])
def test_scores_are_those_of_two_iterations_by_hand(data, model, gaussians, setting):
    X, y, texts, pool, _ = data
    allowed = np.arange(3, 6) if setting == "zsl" else np.arange(6)
    samples, known = np.concatenate([X, pool]), np.eye(6)[y]

    def assigned(score):
        z = np.zeros((30, 6))
        for i in range(30):
            z[i, allowed] = softmax(np.array([score(i, c) for c in allowed]))
        return np.concatenate([known, z])

    z = assigned(lambda i, c: 100 * pool[i] @ texts[c])
    parts = [w * (x - t) ** 2 for row, x in zip(z, samples, strict=True) for w, t in zip(row, texts, strict=True)]
    start = sum(parts) / len(samples)
    neighbours = [sorted(set(range(30)) - {i}, key=lambda j: -(pool[i] @ pool[j]))[:2] for i in range(30)]
    for _ in range(2):
        means, variances = gaussians(z, samples, texts, start)
        former = z[12:]
        z = assigned(
            lambda i, c: (
                0.7 * 100 * pool[i] @ texts[c]
                + density(pool[i], means[c], variances[c]) / 5  # noqa: B023
                + sum(max(0, pool[i] @ pool[j]) * former[j, c] for j in neighbours[i])  # noqa: B023
            )
        )
    means, variances = gaussians(z, samples, texts, start)
    fitted = model(setting=setting, text_weight=0.7, temperature=5.0, neighbours=2, iterations=2)
    fitted.fit(X, y, texts, X_unlabeled=pool)
    new = normalised(np.random.default_rng(1).normal(size=(4, 8)))
    expected = [
        [
            0.7 * 100 * x @ t + (density(x, m, v) + 4 * np.log(2 * np.pi)) / 5
            for t, m, v in zip(texts, means, variances, strict=True)
        ]
        for x in new
    ]
    np.testing.assert_allclose(fitted.decision_function(new), expected, rtol=1e-4)


def test_the_nearest_others_are_those_of_a_sort():
    X = normalised(np.random.default_rng(0).normal(size=(40, 3)))
    found = nearest_others(X, 3).toarray()
    for i in range(40):
        order = sorted(set(range(40)) - {i}, key=lambda j: -(X[i] @ X[j]))[:3]
        expected = np.zeros(40)
        expected[order] = [max(0, X[i] @ X[j]) for j in order]
        np.testing.assert_allclose(found[i], expected, atol=1e-12)
    assert nearest_others(X[:1], 3).toarray().tolist() == [[0.0]]
    assert nearest_others(X, 0).nnz == 0


@BOTH
def test_a_class_that_came_with_the_fit_keeps_its_gaussian_under_a_new_name(data, method):
    X, y, texts, pool, _ = data
    model = method().fit(X, y, texts, X_unlabeled=pool)
    renamed = model.decision_function(pool, classes=pd.DataFrame(texts, index=list("abcdef")))
    np.testing.assert_allclose(renamed[:, 3:], model.decision_function(pool)[:, 3:], rtol=1e-9)


def test_a_class_without_samples_stays_at_its_text_with_statas_anchor_only(data):
    X, y, texts, pool, classes = data
    far = pool[np.isin(classes, [3, 4])]
    stata, transclip = (method(setting="zsl").fit(X, y, texts, X_unlabeled=far) for method in (StatA, TransCLIP))
    text, index = texts[5], stata.unseen_code_[5]
    assert stata.unseen_means_[index] @ text > 0.98
    assert transclip.unseen_means_[index] @ text < stata.unseen_means_[index] @ text


@BOTH
def test_a_class_that_comes_later_has_a_score_of_text_and_default_gaussian(data, method):
    X, y, texts, pool, _ = data
    model = method(temperature=5.0).fit(X, y, texts, X_unlabeled=pool)
    new = normalised(np.abs(np.random.default_rng(3).normal(size=8)))
    mean = normalised(new + model.gap_)
    found = model.decision_function(pool, classes=pd.DataFrame([new], index=["new"]))[:, 0]
    expected = [100 * x @ new + (density(x, mean, model.new_variances_) + 4 * np.log(2 * np.pi)) / 5 for x in pool]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    if method is StatA:
        assert (model.gap_ == 0).all()
    else:
        means = np.concatenate([model.seen_means_, model.unseen_means_])
        np.testing.assert_allclose(model.gap_, means.mean(axis=0) - texts.mean(axis=0), atol=1e-12)


@BOTH
def test_without_unseen_classes_labelled_samples_are_enough(data, method):
    X, y, texts, _, _ = data
    assert method().fit(X, y, texts[:3]).score(X, y) == 1.0
