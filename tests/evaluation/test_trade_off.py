from __future__ import annotations

import itertools

import numpy as np
import pytest

from firstsight.evaluation import harmonic_mean, mean_class_accuracy
from firstsight.evaluation.scores import best_constant, trade_off

RANDOM = np.random.default_rng(8)
IS_SEEN = np.array([True, False, True, True, False, False, True])
SEEN, UNSEEN = np.flatnonzero(IS_SEEN), np.flatnonzero(~IS_SEEN)


@pytest.fixture(scope="module")
def scored():
    """Scores that are right more often than not, with classes of unequal size."""
    truths = [RANDOM.choice(UNSEEN, size=90, p=[0.6, 0.3, 0.1]), RANDOM.choice(SEEN, size=70, p=[0.1, 0.2, 0.3, 0.4])]
    scores = [RANDOM.normal(size=(len(truth), 7)) + 1.5 * np.eye(7)[truth] + 0.7 * IS_SEEN for truth in truths]
    return scores[0], truths[0], scores[1], truths[1]


def _by_hand(scored, constant):
    unseen_scores, unseen_truth, seen_scores, seen_truth = scored
    shift = constant * IS_SEEN
    ts = mean_class_accuracy(unseen_truth, (unseen_scores - shift).argmax(axis=1))
    return ts, mean_class_accuracy(seen_truth, (seen_scores - shift).argmax(axis=1))


@pytest.mark.parametrize("constant", [-30.0, -0.4, 0.0, 0.31, 1.2, 2.5, 30.0])
def test_every_point_is_what_shifting_all_scores_gives(scored, constant):
    assert trade_off(*scored, IS_SEEN).at(constant) == pytest.approx(_by_hand(scored, constant))


def test_the_area_is_that_of_the_curve_traced_by_shifting_scores_in_a_loop(scored):
    curve = trade_off(*scored, IS_SEEN)
    points = np.array([_by_hand(scored, c) for c in [-30, *(curve.constants + 1e-9)]])
    area = sum((t2 - t1) * (r1 + r2) / 2 for (t1, r1), (t2, r2) in itertools.pairwise(points))
    assert curve.area == pytest.approx(area)


def test_the_curve_goes_from_nothing_unseen_to_nothing_seen(scored):
    curve = trade_off(*scored, IS_SEEN)
    assert curve.ts[0] == 0
    assert curve.tr[-1] == pytest.approx(0)
    assert (np.diff(curve.ts) >= 0).all()
    assert (np.diff(curve.tr) <= 1e-12).all()


def test_a_perfect_method_has_area_one_and_one_that_is_always_wrong_zero():
    truth = np.array([1, 4, 5, 1]), np.array([0, 2, 3, 6])
    right = [np.eye(7)[t] for t in truth]
    assert trade_off(right[0], truth[0], right[1], truth[1], IS_SEEN).area == pytest.approx(1)
    assert trade_off(-right[0], truth[0], -right[1], truth[1], IS_SEEN).area == 0


def test_adding_a_constant_to_seen_scores_changes_the_constant_but_not_the_area(scored):
    before = trade_off(*scored, IS_SEEN)
    moved = trade_off(scored[0] + 5 * IS_SEEN, scored[1], scored[2] + 5 * IS_SEEN, scored[3], IS_SEEN)
    assert moved.area == pytest.approx(before.area)
    assert best_constant(moved) == pytest.approx(best_constant(before) + 5)


def test_no_constant_has_a_higher_h_than_the_best_one(scored):
    curve = trade_off(*scored, IS_SEEN)
    best = harmonic_mean(*curve.at(best_constant(curve)))
    assert best == pytest.approx(max(harmonic_mean(*_by_hand(scored, c)) for c in np.linspace(-4, 6, 400)), abs=0.01)
    assert best > harmonic_mean(*curve.at(0.0))  # seen classes were favoured: there is something to gain


def test_the_best_constant_of_several_curves_has_the_highest_mean_h(scored):
    a, b, c, d = scored
    folds = [scored, (a[::2] + 0.6 * IS_SEEN, b[::2], c[::2] + 0.6 * IS_SEEN, d[::2])]  # half the rows, more favour

    def mean_h(constant):
        return np.mean([harmonic_mean(*_by_hand(one, constant)) for one in folds])

    curves = [trade_off(*one, IS_SEEN) for one in folds]
    found = best_constant(*curves)
    changes = np.sort(np.concatenate([curve.constants for curve in curves]))
    assert mean_h(found) == pytest.approx(max(mean_h(c) for c in (changes[1:] + changes[:-1]) / 2))
    below, above = changes[changes < found].max(), changes[changes > found].min()
    assert found == pytest.approx((below + above) / 2)  # in the middle: no row is about to change sides
    assert best_constant(curves[0], curves[0]) == best_constant(curves[0])


def test_where_no_constant_helps_none_is_taken():
    truth = np.array([1, 4, 5, 1]), np.array([0, 2, 3, 6])
    assert best_constant(trade_off(-np.eye(7)[truth[0]], truth[0], -np.eye(7)[truth[1]], truth[1], IS_SEEN)) == 0


def test_the_thinned_curve_keeps_its_ends_its_number_and_nearly_its_area(scored):
    curve = trade_off(*scored, IS_SEEN)
    points = np.array(curve.points(40))
    assert 30 <= len(points) <= 40
    assert points[0] == pytest.approx([0, 100 * curve.tr[0]], abs=0.01)
    assert points[-1] == pytest.approx([100 * curve.ts[-1], 0], abs=0.01)
    assert np.trapezoid(points[:, 1], points[:, 0]) / 1e4 == pytest.approx(curve.area, abs=0.02)


def test_the_thinned_curve_passes_through_the_method_as_it_is():
    random = np.random.default_rng(0)
    is_seen = np.arange(20) < 12
    scores, truth = random.normal(size=(400, 20)), random.integers(20, size=400)
    scores[np.arange(400), truth] += 1.5
    scores[:, is_seen] += 0.7
    own = is_seen[truth]
    curve = trade_off(scores[~own], truth[~own], scores[own], truth[own], is_seen)
    points = curve.points(at_most=10)
    assert len(points) <= 10
    assert [round(100 * value, 2) for value in curve.at(0.0)] in points
