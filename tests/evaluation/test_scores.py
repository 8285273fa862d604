from __future__ import annotations

import itertools

import numpy as np
import pytest

from firstsight.evaluation import (
    TaskScores,
    best_constant,
    harmonic_mean,
    mean_class_accuracy,
    per_class_accuracy,
    percent,
)

# Metrics of predictions.


def _accuracies(y_true, y_pred):
    """Per-class accuracy by a plain loop."""
    right, count = {}, {}
    for truth, answer in zip(y_true, y_pred, strict=True):
        count[truth] = count.get(truth, 0) + 1
        right[truth] = right.get(truth, 0) + (truth == answer)
    return {name: right[name] / count[name] for name in count}


@pytest.mark.parametrize("names", [["ox", "okapi", "Ñandú", "a"], [7, 3, 0, 12]], ids=["text", "numbers"])
def test_accuracies_equal_a_plain_loop(names):
    random = np.random.default_rng(0)
    # Classes of very different sizes, and answers that also name a class without samples.
    y_true = np.array(names[:3])[random.choice(3, size=500, p=[0.9, 0.08, 0.02])]
    known = random.random(500) < np.where(y_true == names[0], 0.9, 0.3)
    y_pred = np.where(known, y_true, np.array(names)[random.integers(4, size=500)])
    expected = _accuracies(y_true.tolist(), y_pred.tolist())
    assert per_class_accuracy(y_true, y_pred) == pytest.approx(expected)
    assert mean_class_accuracy(y_true, y_pred) == pytest.approx(sum(expected.values()) / 3)
    assert mean_class_accuracy(y_true, y_pred) != pytest.approx(np.mean(y_true == y_pred), abs=0.01)


def test_every_class_counts_the_same_whatever_its_size():
    y_true = ["ox"] * 98 + ["okapi"] * 2
    y_pred = ["ox"] * 98 + ["ox", "okapi"]
    assert per_class_accuracy(y_true, y_pred) == {"ox": 1.0, "okapi": 0.5}
    assert mean_class_accuracy(y_true, y_pred) == 0.75


def test_a_class_that_is_only_answered_does_not_count():
    assert per_class_accuracy(["ox", "ox"], ["okapi", "ox"]) == {"ox": 0.5}


@pytest.mark.parametrize(
    ("ts", "tr", "h"),
    [
        (0.5, 0.5, 0.5),
        (0.2, 0.8, 0.32),  # 0.32 / 1
        (1.0, 0.25, 0.4),  # 0.5 / 1.25
        (0.0, 0.9, 0.0),
        (0.9, 0.0, 0.0),
        (0.0, 0.0, 0.0),  # not a division by zero
    ],
)
def test_the_harmonic_mean(ts, tr, h):
    assert harmonic_mean(ts, tr) == pytest.approx(h)
    assert harmonic_mean(tr, ts) == harmonic_mean(ts, tr)
    assert isinstance(harmonic_mean(ts, tr), float)
    np.testing.assert_array_equal(harmonic_mean(np.array([ts, 0.3]), np.array([tr, 0.4]))[:1], harmonic_mean(ts, tr))


def test_the_harmonic_mean_of_the_papers_own_row():
    # Xian et al., CUB, ALE: ts 23.7, tr 62.8, H 34.4.
    assert harmonic_mean(0.237, 0.628) == pytest.approx(0.344, abs=5e-4)


@pytest.mark.parametrize(("fraction", "shown"), [(None, None), (0.0, 0.0), (1.0, 100.0), (0.571428, 57.14)])
def test_fractions_become_percent_with_two_decimals(fraction, shown):
    assert percent(fraction) == shown


# Scores of a task.


def _by_hand(task, constant=0.0, tie="first"):
    """t1, ts, tr and the predictions from the definitions: each sample compared with each candidate in turn."""
    right = {"t1": {}, "ts": {}, "tr": {}}
    predictions = []
    for scores, code in zip(np.asarray(task.scores, dtype=float).tolist(), task.codes.tolist(), strict=True):
        shifted = [score - constant * (column < task.n_seen) for column, score in enumerate(scores)]
        order = range(len(shifted)) if tie == "first" else [*range(task.n_seen, len(shifted)), *range(task.n_seen)]
        best = max(order, key=lambda column: shifted[column])
        predictions.append(best)
        if code < task.n_seen:
            right["tr"].setdefault(code, []).append(best == code)
        else:
            among_unseen = max(range(task.n_seen, len(scores)), key=scores.__getitem__)
            right["t1"].setdefault(code, []).append(among_unseen == code)
            right["ts"].setdefault(code, []).append(best == code)
    classes = {metric: {c: sum(rows) / len(rows) for c, rows in by.items()} for metric, by in right.items()}
    means = {metric: sum(by.values()) / len(by) if by else None for metric, by in classes.items()}
    return means, classes, predictions


@pytest.fixture(scope="module")
def task():
    """Scores that are right more often than not, classes of unequal size, and two without any sample."""
    random = np.random.default_rng(8)
    codes = random.choice(9, size=160, p=[0.05, 0.1, 0.15, 0.2, 0, 0.3, 0.15, 0.05, 0])
    scores = random.normal(size=(160, 9)) + 1.5 * np.eye(9)[codes] + 0.7 * (np.arange(9) < 5)
    return TaskScores(scores, codes, n_seen=5)


def test_metrics_equal_a_plain_loop(task):
    means, classes, predictions = _by_hand(task)
    assert task.predictions.tolist() == predictions
    for metric, expected in means.items():
        assert getattr(task, metric) == pytest.approx(expected)
        assert task.per_class(metric) == pytest.approx(classes[metric])
    assert task.h == pytest.approx(2 * means["ts"] * means["tr"] / (means["ts"] + means["tr"]))
    assert task.metrics("zsl") == {"t1": task.t1}
    assert task.metrics("gzsl") == {"ts": task.ts, "tr": task.tr, "h": task.h}
    assert task.right == sum(one == other for one, other in zip(predictions, task.codes.tolist(), strict=True))
    assert 4 not in task.per_class("tr")  # a class without samples is no zero
    assert set(task.per_class("t1")) == {5, 6, 7}


def test_names_of_columns_are_names_of_classes(task):
    names = ["yak", "ox", "eland", "gnu", "kudu", "okapi", "bongo", "zebu", "ibex"]
    named = TaskScores(task.scores, task.codes, 5, names)
    assert named.per_class("tr") == {names[code]: value for code, value in task.per_class("tr").items()}
    assert list(named.per_class("tr")) == sorted(["yak", "ox", "eland", "gnu"])
    assert named.labels.tolist() == [names[code] for code in task.codes]
    assert (named.t1, named.h) == pytest.approx((task.t1, task.h))


def test_of_equal_scores_the_first_column_wins_and_on_the_curve_the_unseen_class():
    task = TaskScores(np.array([[1.0, 0, 1, 1], [2, 2, 0, 2], [0, 0, 3, 3]]), np.array([2, 0, 3]), n_seen=2)
    assert task.predictions.tolist() == [0, 0, 2]
    assert (task.ts, task.tr, task.t1) == (0, 1, 0.5)
    means, _, _ = _by_hand(task, tie="unseen")
    assert task.curve.at(0.0) == (means["ts"], means["tr"]) == (0.5, 0.0)


def test_without_samples_of_seen_classes_there_is_t1_alone():
    scores = np.array([[0.9, 0.1, 0.0], [0.9, 0.6, 0.3], [0.1, 0.2, 0.7]])
    conventional = TaskScores(scores, np.array([0, 1, 2]), n_seen=0)
    assert conventional.t1 == pytest.approx(2 / 3)
    assert (conventional.tr, conventional.h) == (None, None)
    seen_columns = TaskScores(scores, np.array([2, 1, 2]), n_seen=1)
    assert (seen_columns.t1, seen_columns.ts) == (0.75, 0.25)
    assert (seen_columns.tr, seen_columns.h) == (None, None)


def test_without_samples_of_unseen_classes_there_is_tr_alone():
    task = TaskScores(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 0]), n_seen=2)
    assert (task.t1, task.ts, task.tr, task.h) == (None, None, 0.5, None)


def test_a_single_class_is_always_right():
    task = TaskScores(np.zeros((3, 1)), np.zeros(3, dtype=int), n_seen=0)
    assert (task.t1, task.confusions()) == (1.0, [])


def test_no_samples_have_no_metrics():
    task = TaskScores(np.zeros((0, 3)), np.zeros(0, dtype=int), n_seen=1)
    assert task.metrics("zsl") | task.metrics("gzsl") == {"t1": None, "ts": None, "tr": None, "h": None}


@pytest.mark.parametrize("constant", [-3.0, 0.0, 0.4, 1.3])
def test_shifting_equals_scoring_with_the_constant(task, constant):
    means, classes, predictions = _by_hand(task, constant)
    shifted = task.shifted(constant)
    assert shifted.predictions.tolist() == predictions
    for metric in ("t1", "ts", "tr"):
        assert getattr(shifted, metric) == pytest.approx(means[metric])
        assert shifted.per_class(metric) == pytest.approx(classes[metric])
    assert shifted.t1 == task.t1  # no seen class is a candidate there


@pytest.mark.parametrize("seen", [True, False])
def test_one_kind_of_classes_alone_is_a_task_of_its_samples_and_columns(task, seen):
    part = task.among(seen)
    rows = [row for row, code in enumerate(task.codes) if (code < 5) == seen]
    columns = list(range(5)) if seen else list(range(5, 9))
    assert part.scores.tolist() == [[task.scores[row, column] for column in columns] for row in rows]
    assert part.codes.tolist() == [columns.index(task.codes[row]) for row in rows]
    assert part.seen_samples.all() if seen else not part.seen_samples.any()
    if not seen:
        assert part.t1 == part.ts == pytest.approx(task.t1)


def test_confusions_are_counted_the_most_frequent_first():
    answers = ["ox", "yak", "yak", "gnu", "gnu", "gnu", "ox"]
    truth = ["ox", "ox", "ox", "yak", "yak", "yak", "gnu"]
    names = ["ox", "yak", "gnu"]
    scores = np.array([[name == answer for name in names] for answer in answers], dtype=float)
    task = TaskScores(scores, np.array([names.index(name) for name in truth]), 2, names)
    assert task.confusions() == [["yak", "gnu", 3], ["ox", "yak", 2], ["gnu", "ox", 1]]
    assert task.confusions(most=1) == [["yak", "gnu", 3]]


# The seen–unseen trade-off.


@pytest.mark.parametrize("constant", [-30.0, -0.4, 0.0, 0.31, 1.2, 2.5, 30.0])
def test_every_point_of_the_curve_is_what_shifting_all_scores_gives(task, constant):
    means, _, _ = _by_hand(task, constant)
    assert task.curve.at(constant) == pytest.approx((means["ts"], means["tr"]))


def test_the_curve_at_chosen_constants_equals_the_exact_one(task):
    constants = np.linspace(-1, 3, 17)
    chosen = task.trade_off(constants)
    for number, constant in enumerate(constants):
        assert (chosen.ts[number + 1], chosen.tr[number + 1]) == pytest.approx(task.curve.at(constant))
        assert chosen.h[number + 1] == pytest.approx(harmonic_mean(*task.curve.at(constant)))


def test_the_area_is_that_of_the_curve_traced_by_shifting_scores_in_a_loop(task):
    means = [_by_hand(task, constant)[0] for constant in [-30, *(task.curve.constants + 1e-9)]]
    area = sum((b["ts"] - a["ts"]) * (a["tr"] + b["tr"]) / 2 for a, b in itertools.pairwise(means))
    assert task.curve.area == pytest.approx(area)


def test_the_curve_goes_from_nothing_unseen_to_nothing_seen(task):
    curve = task.curve
    assert curve.ts[0] == 0
    assert curve.tr[-1] == pytest.approx(0)
    assert curve.ts[-1] == pytest.approx(task.t1)  # no seen class is left
    assert (np.diff(curve.ts) >= 0).all()
    assert (np.diff(curve.tr) <= 1e-12).all()


def test_a_perfect_method_has_area_one_and_one_that_is_always_wrong_zero():
    codes = np.array([4, 5, 6, 4, 0, 2, 3, 1])
    assert TaskScores(np.eye(7)[codes], codes, 4).curve.area == pytest.approx(1)
    wrong = TaskScores(-np.eye(7)[codes], codes, 4)
    assert wrong.curve.area == 0
    assert best_constant(wrong) == 0  # where no constant helps, none is chosen


def test_adding_a_constant_to_seen_scores_changes_the_constant_but_not_the_area(task):
    moved = task.shifted(-5.0)
    assert moved.curve.area == pytest.approx(task.curve.area)
    assert best_constant(moved) == pytest.approx(best_constant(task) + 5)


def test_no_constant_has_a_higher_h_than_the_best_one(task):
    best = harmonic_mean(*task.curve.at(best_constant(task)))
    tried = [_by_hand(task, constant)[0] for constant in np.linspace(-4, 6, 400)]
    assert best == pytest.approx(max(harmonic_mean(means["ts"], means["tr"]) for means in tried), abs=0.01)
    assert best == pytest.approx(task.curve.best_h)
    assert best > task.h  # seen classes were favoured: there is something to gain


def test_the_best_constant_of_several_tasks_has_the_highest_mean_h(task):
    other = TaskScores(task.scores[::2], task.codes[::2], 5).shifted(-0.6)  # half the samples, seen classes higher
    tasks = [task, other]

    def mean_h(constant):
        means = [_by_hand(scored, constant)[0] for scored in tasks]
        return np.mean([harmonic_mean(of_task["ts"], of_task["tr"]) for of_task in means])

    found = best_constant(*tasks)
    changes = np.sort(np.concatenate([scored.curve.constants for scored in tasks]))
    assert mean_h(found) == pytest.approx(max(mean_h(c) for c in (changes[1:] + changes[:-1]) / 2))
    below, above = changes[changes < found].max(), changes[changes > found].min()
    assert found == pytest.approx((below + above) / 2)  # in the middle: no prediction is about to change
    assert best_constant(task, task) == best_constant(task)


def test_the_thinned_curve_keeps_its_ends_its_number_and_nearly_its_area(task):
    curve = task.curve
    points = np.array(curve.points(40))
    assert 30 <= len(points) <= 40
    assert points[0] == pytest.approx([0, 100 * curve.tr[0]], abs=0.01)
    assert points[-1] == pytest.approx([100 * curve.ts[-1], 0], abs=0.01)
    assert np.trapezoid(points[:, 1], points[:, 0]) / 1e4 == pytest.approx(curve.area, abs=0.02)


def test_the_thinned_curve_passes_through_the_method_as_it_is():
    random = np.random.default_rng(0)
    scores, codes = random.normal(size=(400, 20)), random.integers(20, size=400)
    scores[np.arange(400), codes] += 1.5
    scores[:, :12] += 0.7
    curve = TaskScores(scores, codes, 12).curve
    points = curve.points(at_most=10)
    assert len(points) <= 10
    assert [round(100 * value, 2) for value in curve.at(0.0)] in points
