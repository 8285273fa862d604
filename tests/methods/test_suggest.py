"""Which unlabelled samples to label: `suggest`."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from firstsight.errors import BadInput
from firstsight.evaluation.scores import mean_class_accuracy
from firstsight.methods import Blend, Cosine, IncrementalClassifier, KernelPrototypes, _coverage
from firstsight.methods._coverage import WIDTH, most_covering

NONE = np.empty((0, 2)), np.empty(0)


@pytest.fixture(scope="module")
def model(task):
    return KernelPrototypes(search=False, refinement=0).fit(task.X, task.y, task.table)


class Plain(IncrementalClassifier):
    """An incremental method that writes nothing for `suggest`: nearest mean in feature space."""

    def __init__(self, *, feature_scaling=None, attribute_scaling=None):
        self.feature_scaling = feature_scaling
        self.attribute_scaling = attribute_scaling

    def _fit(self, X, y, S):
        self.means_ = np.stack([X[y == code].mean(axis=0) for code in range(len(S))])

    def _scores(self, X, E, seen):
        return X @ self.means_[np.maximum(seen, 0)].T


def coverage(points, chosen, known, certainty):
    """The sum that the docstring of the module maximises, by plain loops."""
    pairs = [((p - q) ** 2).sum() for p in points for q in points]
    s = WIDTH * np.mean(pairs)
    total = 0.0
    for p in points:
        near = [np.exp(-((p - points[i]) ** 2).sum() / s) for i in chosen]
        near += [w * np.exp(-2 * ((p - m) ** 2).sum() / s) for m, w in zip(known, certainty, strict=True)]
        total += max(near, default=0.0)
    return total


@pytest.mark.parametrize("seed", range(4))
def test_each_sample_adds_most_to_what_is_covered(seed):
    random = np.random.default_rng(seed)
    points, known, certainty = random.normal(size=(25, 2)), random.normal(size=(2, 2)), np.array([1.0, 0.4])
    chosen = most_covering(points, 6, known, certainty).tolist()
    for step, best in enumerate(chosen):
        values = [coverage(points, [*chosen[:step], i], known, certainty) for i in range(25)]
        assert values[best] == pytest.approx(max(values), rel=1e-5)


def test_copies_are_chosen_once_and_the_middle_of_a_crowd_comes_before_an_outlier():
    crowd = np.random.default_rng(0).normal(size=(20, 2))
    points = np.vstack([crowd, crowd, [[9.0, 9.0]]])
    chosen = most_covering(points, 41, *NONE)
    assert len(chosen) == 21
    assert len(np.unique(points[chosen], axis=0)) == 21
    assert chosen[0] != 40


def test_a_class_that_is_known_needs_no_label():
    random = np.random.default_rng(1)
    a, b = random.normal(size=(2, 30, 2)) * 0.3
    points = np.vstack([a, b + 5])
    assert most_covering(points, 1, np.array([[0.0, 0.0]]), np.array([1.0]))[0] >= 30
    assert most_covering(points, 1, np.array([[5.0, 5.0]]), np.array([1.0]))[0] < 30
    # A mean that is hardly known covers little of the larger class.
    points = np.vstack([a, b[:10] + 5])
    assert most_covering(points, 1, np.array([[0.0, 0.0]]), np.array([0.1]))[0] < 30


def test_a_pool_of_equal_samples_or_a_single_one_has_one_suggestion():
    assert most_covering(np.ones((5, 3)), 3, np.empty((0, 3)), np.empty(0)).tolist() == [0]
    assert most_covering(np.ones((1, 3)), 3, np.empty((0, 3)), np.empty(0)).tolist() == [0]


def test_of_a_large_pool_evenly_spaced_samples_are_looked_at(monkeypatch):
    monkeypatch.setattr(_coverage, "LARGEST_POOL", 10)
    chosen = most_covering(np.random.default_rng(2).normal(size=(100, 2)), 100, *NONE)
    assert sorted(chosen) == list(range(0, 100, 11))


@pytest.mark.parametrize("method", [KernelPrototypes, Plain])
def test_suggestions_cover_the_classes_that_have_no_labels(task, model, method):
    fitted = model if method is KernelPrototypes else Plain().fit(task.X, task.y, task.table)
    chosen = fitted.suggest(task.X_unseen, len(task.unseen))
    assert len(set(chosen.tolist())) == len(task.unseen)
    found = len(set(task.y_unseen[chosen]))
    random = np.random.default_rng(0)
    drawn = [len(set(random.permutation(task.y_unseen)[: len(task.unseen)])) for _ in range(200)]
    assert found > np.mean(drawn)


def test_samples_of_known_classes_are_not_suggested_before_those_of_unknown_ones(task, model):
    pool = np.vstack([task.X_seen, task.X_unseen])
    chosen = model.suggest(pool, len(task.unseen))
    share = (chosen >= len(task.X_seen)).mean()
    assert share > len(task.X_unseen) / len(pool)


def test_a_class_that_samples_were_added_of_is_not_suggested_first(task, model):
    X, y = task.X_unseen[1::2], task.y_unseen[1::2]
    name = y[model.suggest(X, 1)[0]]
    others = np.flatnonzero(task.y_unseen[::2] == name) * 2
    changed = copy.copy(model).add_samples(task.X_unseen[others], task.y_unseen[others])
    assert y[changed.suggest(X, 1)[0]] != name


@pytest.mark.parametrize("estimator", [Cosine(), Blend(["cosine", "eszsl"], weights=[1, 1]), Blend(["eszsl", "sae"])])
def test_cosine_and_blends_suggest_too(estimator):
    random = np.random.default_rng(4)
    texts = random.normal(size=(8, 6))
    y = np.repeat(np.arange(8), 20)
    X = texts[y] + 0.3 * random.normal(size=(160, 6))
    model = copy.copy(estimator).fit(X[y < 5], y[y < 5], texts)
    pool, truth = X[y >= 5], y[y >= 5]
    first = model.suggest(pool, 3)
    assert set(truth[first]) == {5, 6, 7}
    if any(isinstance(part, Cosine) for part in getattr(model, "parts_", {"": model}).values()):
        model.add_samples(pool[truth != 6][::2], truth[truth != 6][::2])
        assert truth[model.suggest(pool, 1)[0]] == 6


def test_accuracy_rises_faster_than_with_random_samples(task, model):
    """Over random halves of the pool: what is learned from eight suggested samples, tested on the other half."""
    gains = []
    for draw in range(8):
        random = np.random.default_rng(draw)
        asked = random.random(len(task.X_unseen)) < 0.5
        X, y = task.X_unseen[asked], task.y_unseen[asked]
        accuracies = []
        for rows in (model.suggest(X, 8), random.permutation(len(X))[:8]):
            learned = copy.copy(model).add_samples(X[rows], y[rows])
            answers = learned.predict(task.X_unseen[~asked], classes=task.unseen)
            accuracies.append(mean_class_accuracy(task.y_unseen[~asked], answers))
        gains.append(accuracies[0] - accuracies[1])
    assert np.mean(gains) > 0


@pytest.mark.parametrize("n", [0, -1, 2.5, True, "3"])
def test_how_many_is_a_number_from_one(task, model, n):
    with pytest.raises(BadInput, match="`n` must be the number of samples to choose"):
        model.suggest(task.X_unseen, n)


def test_the_order_of_the_pool_does_not_matter(task, model):
    order = np.random.default_rng(3).permutation(len(task.X_unseen))
    assert set(order[model.suggest(task.X_unseen[order], 6)]) == set(model.suggest(task.X_unseen, 6))
