from __future__ import annotations

import numpy as np
import pytest

from firstsight.methods._simulated_tasks import (
    sample_of_classes,
    simulate_tasks,
)


@pytest.mark.parametrize("k", [4, 5, 12, 33, 150])
def test_classes_and_rows_of_a_task_are_disjoint_and_every_class_plays_unseen_as_often(k):
    y = np.repeat(np.arange(k), 10)
    tasks = simulate_tasks(y)
    times = np.zeros(k, dtype=int)
    for task in tasks:
        assert not set(task.train) & set(task.test)
        assert 2 <= task.seen <= k - 2
        assert sorted(task.classes) == list(range(k))
        np.testing.assert_array_equal(task.classes[task.y_train], y[task.train])
        np.testing.assert_array_equal(task.classes[task.y_test], y[task.test])
        assert task.y_train.max() == task.seen - 1
        assert set(task.y_test) == set(range(k))
        times[task.classes[task.seen :]] += 1
    assert 4 <= len(tasks) <= 12
    assert times.max() - times.min() <= 1


def test_the_same_labels_give_the_same_tasks_and_three_classes_give_none():
    y = np.arange(60) % 6
    for one, other in zip(simulate_tasks(y), simulate_tasks(y), strict=True):
        np.testing.assert_array_equal(one.train, other.train)
        np.testing.assert_array_equal(one.classes, other.classes)
    assert simulate_tasks(np.arange(60) % 3) == []


def test_a_class_of_one_row_keeps_it_for_training():
    y = np.r_[np.arange(6), np.repeat(np.arange(5), 10)]
    for task in simulate_tasks(y):
        assert set(task.y_train) == set(range(task.seen))


def test_accuracies_are_means_over_classes_by_a_plain_loop():
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(np.arange(8), rng.integers(5, 20, 8)))
    task = simulate_tasks(y)[0]
    scores = rng.normal(size=(len(task.test), 8))

    def mean_accuracy(answers, rows):
        truth = task.y_test[rows]
        return np.mean([np.mean(answers[rows][truth == c] == c) for c in np.unique(truth)])

    among_unseen = task.seen + scores[:, task.seen :].argmax(axis=1)
    assert task.scored(scores).t1 == pytest.approx(mean_accuracy(among_unseen, task.unseen_rows))
    constants = np.linspace(-1, 1, 9)
    for constant, h in zip(constants, task.scored(scores).trade_off(constants).h[1:], strict=True):
        answers = (scores - constant * (np.arange(8) < task.seen)).argmax(axis=1)
        ts, tr = mean_accuracy(answers, task.unseen_rows), mean_accuracy(answers, ~task.unseen_rows)
        assert h == pytest.approx(2 * ts * tr / (ts + tr) if ts + tr else 0)


@pytest.mark.parametrize(
    ("most", "taken"),
    [
        (1000, [3, 40, 100, 200]),  # all there are
        (343, [3, 40, 100, 200]),
        (342, [3, 40, 100, 199]),
        (200, [3, 40, 78, 78]),  # 3 + 40 + 2 × 78 = 199, and 2 × 79 would be too many
        (20, [3, 5, 5, 5]),
        (1, [2, 2, 2, 2]),
    ],
)
def test_a_sample_has_equally_many_rows_of_each_class_as_far_as_they_have_them(most, taken):
    y = np.random.default_rng(0).permutation(np.repeat(np.arange(4), [3, 40, 100, 200]))
    rows = sample_of_classes(y, most)
    assert np.bincount(y[rows]).tolist() == taken
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(rows, sample_of_classes(y, most))
