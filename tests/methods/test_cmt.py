from __future__ import annotations

from math import erf, log, pi, sqrt

import numpy as np
import pytest

from firstsight.evaluation import mean_class_accuracy
from firstsight.methods import CMT

SMALL = {"hidden": 64, "learning_rate": 1e-2, "epochs": 30, "penalty": 1e-4, "random_state": 0}
DETECTORS = ("gaussian", "loop")


def test_the_score_is_the_squared_distance_of_the_mapped_row_to_the_description(task):
    model = CMT(**SMALL, feature_scaling=None, attribute_scaling=None).fit(task.X, task.y, task.table)
    w = model.weights_
    scores = model.decision_function(task.X_unseen[:4])
    for x, found in zip(task.X_unseen[:4], scores, strict=True):
        mapped = w["map.1.weight"] @ np.tanh(w["map.0.weight"] @ x + w["map.0.bias"]) + w["map.1.bias"]
        np.testing.assert_allclose(found, [-np.sum((mapped - a) ** 2) for a in task.A], rtol=1e-3, atol=1e-4)


def test_the_history_ends_at_the_mean_squared_error_of_the_map(task):
    model = CMT(**SMALL).fit(task.X, task.y, task.table)
    S = task.A[:20] / np.linalg.norm(task.A[:20], axis=1, keepdims=True)
    targets = S[[list(task.seen).index(name) for name in task.y]]
    error = np.square(model._map(model._scale_features(task.X)) - targets).sum(axis=1).mean()
    assert len(model.history_) == 30
    assert error == pytest.approx(model.history_[-1], rel=0.2)


@pytest.mark.parametrize("detector", DETECTORS)
def test_novel_rows_get_an_unseen_class_and_all_others_a_seen_one(task, detector):
    model = CMT(**SMALL, novelty=detector).fit(task.X, task.y, task.table)
    rows = np.concatenate([task.X_seen, task.X_unseen, 50 + task.X_unseen[:3]])
    novel = model._is_novel(model._map(model._scale_features(rows)))
    assert novel[-3:].all()
    assert not novel.all()
    np.testing.assert_array_equal(np.isin(model.predict(rows), task.unseen), novel)


@pytest.mark.parametrize("detector", DETECTORS)
def test_within_seen_classes_the_softmax_decides_and_within_unseen_ones_the_distance(task, detector):
    model, plain = (CMT(**SMALL, novelty=n).fit(task.X, task.y, task.table) for n in (detector, None))
    rows = np.concatenate([task.X_seen, task.X_unseen])
    np.testing.assert_array_equal(model.predict(rows, classes=task.unseen), plain.predict(rows, classes=task.unseen))
    logits = model._scale_features(rows) @ model.weights_["seen.weight"].T + model.weights_["seen.bias"]
    in_order_of_appearance = task.y[np.sort(np.unique(task.y, return_index=True)[1])]
    np.testing.assert_array_equal(model.predict(rows, classes=task.seen), in_order_of_appearance[logits.argmax(axis=1)])


@pytest.mark.parametrize("detector", DETECTORS)
def test_the_score_of_a_class_does_not_depend_on_the_other_candidates(task, detector):
    model = CMT(**SMALL, novelty=detector).fit(task.X, task.y, task.table)
    some = [task.unseen[1], task.seen[3]]
    columns = [list(model.classes_).index(name) for name in some]
    np.testing.assert_allclose(
        model.decision_function(task.X_unseen, classes=some),
        model.decision_function(task.X_unseen)[:, columns],
        atol=1e-5,
    )


def test_the_gaussian_detector_compares_log_densities_with_the_threshold_of_each_class(task):
    model = CMT(**SMALL, novelty="gaussian", novel_share=0.2).fit(task.X, task.y, task.table)
    names = list(task.y[np.sort(np.unique(task.y, return_index=True)[1])])
    centres = model.seen_attributes_.astype(float)
    training, size = model._map(model._scale_features(task.X)).astype(float), centres.shape[1]
    mapped = model._map(model._scale_features(np.concatenate([task.X_seen, task.X_unseen]))).astype(float)
    novel = np.ones(len(mapped), dtype=bool)
    for c, name in enumerate(names):
        own = training[task.y == name]
        variance = np.square(own - centres[c]).sum() / own.size

        def density(points, variance=variance, centre=centres[c]):
            squared = np.square(points - centre).sum(axis=1)
            return -0.5 * size * log(2 * pi * variance) - squared / (2 * variance)

        novel &= density(mapped) < np.quantile(density(own), 0.2)
    found = model._is_novel(mapped.astype(np.float32))
    assert 0 < found.sum() < len(found)
    np.testing.assert_array_equal(found, novel)


def test_the_outlier_probability_is_the_one_of_a_plain_loop(task):
    model = CMT(**SMALL, novelty="loop", neighbors=7).fit(task.X[:120], task.y[:120], task.table)
    training = model.mapped_.astype(float)
    points = model._map(model._scale_features(task.X_unseen[:6])).astype(float)

    def spread_and_neighbours(p, leave_out=None):
        distances = [(sqrt(np.sum((p - q) ** 2)), j) for j, q in enumerate(training) if j != leave_out]
        nearest = sorted(distances)[:7]
        return sqrt(sum(d**2 for d, _ in nearest) / 7), [j for _, j in nearest]

    own = [spread_and_neighbours(q, leave_out=j) for j, q in enumerate(training)]

    def factor(spread, neighbours):
        return spread / np.mean([own[j][0] for j in neighbours]) - 1

    deviation = sqrt(np.mean([factor(*pair) ** 2 for pair in own]))
    expected = [max(0, erf(factor(*spread_and_neighbours(p)) / (3 * sqrt(2) * deviation))) for p in points]
    assert max(expected) > 0
    np.testing.assert_allclose(model._outlier_probability(points.astype(np.float32)), expected, rtol=1e-3, atol=1e-4)


def test_more_rows_are_novel_when_the_detector_is_told_so(task):
    def share(**settings):
        model = CMT(**SMALL, **settings).fit(task.X, task.y, task.table)
        return np.isin(model.predict(task.X_seen), task.unseen).mean()

    assert share(novelty="gaussian", novel_share=0.5) > share(novelty="gaussian", novel_share=0.01)
    assert share(novelty="loop", novel_probability=0.05) > share(novelty="loop", novel_probability=0.9)


@pytest.mark.parametrize("detector", DETECTORS)
def test_a_few_rows_without_descriptions_suffice(detector):
    X, y = np.repeat(np.eye(2), 10, axis=0), np.repeat(["a", "b"], 10)  # LoOP meets ten equal points
    model = CMT(**SMALL, novelty=detector).fit(X, y)
    assert (model.predict(X) == y).all()


def test_unseen_classes_are_recognised(task):
    model = CMT(**SMALL).fit(task.X, task.y, task.table)
    assert mean_class_accuracy(task.y_unseen, model.predict(task.X_unseen, classes=task.unseen)) > 0.8
