from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import silhouette_samples

from firstsight.evaluation.spaces import compactness_and_separability, hubness, space_facts


def _blobs(spread, n=60, classes=4, seed=0):
    random = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    return 10 * np.eye(classes)[labels] + spread * random.normal(size=(n, classes)), labels


def test_tight_classes_are_more_compact_and_more_separable_than_loose_ones():
    tight, loose = (compactness_and_separability(*_blobs(spread)) for spread in (0.1, 3.0))
    assert tight["compactness"] < 0.1 < loose["compactness"]
    assert tight["separability"] > 0.9 > loose["separability"]


def test_compactness_is_the_ratio_of_distances_that_the_definition_says():
    points = np.array([[0.0, 1], [0, -1], [6, 2], [6, -2]])
    # Class means (0, 0) and (6, 0), 6 apart; distances to the own mean: 1, 1, 2, 2.
    found = compactness_and_separability(points, ["a", "a", "b", "b"])
    assert found["compactness"] == pytest.approx(1.5 / 6, abs=1e-4)
    near, far = np.hypot(6, 1), np.hypot(6, 2)
    assert found["separability"] == pytest.approx(((near - 1) / near + (far - 2) / far) / 2, abs=1e-4)


def test_both_are_free_of_scale_and_place():
    points, labels = _blobs(2.0)
    assert compactness_and_separability(points, labels) == compactness_and_separability(300 * points + 7, labels)


def test_separability_orders_spaces_as_the_full_silhouette_does():
    ours, full = [], []
    for spread in (0.5, 2, 4, 8):
        points, labels = _blobs(spread)
        ours.append(compactness_and_separability(points, labels)["separability"])
        full.append(silhouette_samples(points, labels).mean())
    assert np.argsort(ours).tolist() == np.argsort(full).tolist()


def test_a_class_counts_the_same_whether_it_has_few_rows_or_many():
    points = np.array([[0.0, 1], [0, -1], [6, 2], [6, -2]])
    labels = np.array([0, 0, 1, 1])
    many = np.r_[0, 1, np.repeat([2, 3], 50)]
    assert compactness_and_separability(points[many], labels[many]) == compactness_and_separability(points, labels)


@pytest.mark.parametrize("points", [np.zeros((6, 3)), np.full((6, 3), np.nan)])
def test_a_collapsed_space_has_no_numbers(points):
    assert compactness_and_separability(points, [0, 0, 1, 1, 2, 2]) == {"compactness": None, "separability": None}


def test_a_class_that_is_everybodys_neighbour_is_a_hub():
    random = np.random.default_rng(1)
    truth = np.arange(400) % 20
    scores = random.normal(size=(400, 20))
    even = hubness(scores, truth, k=1)
    scores[:, 7] += 4
    assert hubness(scores, truth, k=1) > 3 > abs(even)


def test_nobody_is_a_hub_where_all_classes_are_equally_often_best():
    assert hubness(np.eye(8), np.arange(8), k=1) is None


def test_hubness_counts_every_class_the_same():
    truth = np.r_[np.zeros(90, dtype=int), 1, 2, 3]  # ninety rows of class 0, each named right, are no hub
    assert hubness(np.eye(4)[truth], truth, k=1) is None


def test_facts_of_scores_do_not_change_when_a_rows_scores_are_shifted():
    random = np.random.default_rng(2)
    truth = np.arange(60) % 6
    scores = np.eye(6)[truth] + 0.5 * random.normal(size=(60, 6))
    assert space_facts(scores + random.normal(size=(60, 1)), truth) == space_facts(scores, truth)
