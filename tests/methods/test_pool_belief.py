from __future__ import annotations

import numpy as np
import pytest

import firstsight
from firstsight.evaluation.scores import mean_class_accuracy
from firstsight.methods import KernelPrototypes, TransductiveKernelPrototypes
from firstsight.methods.kernel_prototypes.pool import (
    EVEN,
    LEAST_BELIEF,
    STEEPNESS,
    PoolSolution,
    anchor,
    evenness,
    hedge,
    measure_belief,
)
from firstsight.methods.kernel_prototypes.prior import Prototypes
from firstsight.methods.kernel_prototypes.space import HiddenLayer, WhitenedSpace

SEEN, UNSEEN, Q = 4, 3, 6
FIT = {"search": False, "refinement": 0}
RNG = np.random.default_rng(0)
SHARES = np.eye(UNSEEN)[[0, 0, 0, 0, 1, 1, 1, 1, 2, 2]]


def a_space(e, units=0):
    layer = HiddenLayer(*(RNG.normal(size=size).astype(np.float32) for size in ((Q, units), units, (units, e))))
    directions, offset = (RNG.normal(size=size).astype(np.float32) for size in ((Q, e), e))
    return WhitenedSpace(np.eye(Q, dtype=np.float32), directions, offset, layer if units else None)


@pytest.mark.parametrize("sizes", [[7, 7, 7, 7], [3, 1], [5, 0, 0]])
def test_evenness_is_the_exponential_of_the_entropy_per_class(sizes):
    shares = np.array([size / sum(sizes) for size in sizes if size])
    assert evenness(np.array(sizes, dtype=float)) == pytest.approx(np.prod(shares**-shares) / len(sizes))


def test_belief_is_full_for_pools_as_even_as_labelled_classes_and_falls_with_evenness():
    counts = np.array([30.0, 10.0, 20.0])
    assert measure_belief(np.diag(5 * counts), counts) == 1
    assert measure_belief(np.eye(3), counts) == 1
    shares = np.diag([9.0, 7.0, 4.0])
    ratio = evenness(np.array([9.0, 7.0, 4.0]))
    assert measure_belief(shares, np.ones(3)) == pytest.approx((ratio / EVEN) ** STEEPNESS)
    for nothing in (np.diag([1.0, 0, 0]), np.zeros((4, 3)), np.empty((0, 3))):
        assert measure_belief(nothing, np.ones(3)) == LEAST_BELIEF


@pytest.mark.parametrize(("belief", "weight"), [(1.0, 0.0), (0.75, 0.5), (0.5, 1.0), (0.25, 1.0)])
def test_a_class_on_whose_name_the_votes_disagree_moves_to_its_prediction(belief, weight):
    votes = SHARES.copy()
    votes[4:8] = [0.25, 0.5, 0.25]  # of what class 1 takes, half had been given to others
    means, predicted, doubt = RNG.normal(size=(UNSEEN, 5)), RNG.normal(size=(UNSEEN, 5)), np.array([0.2, 0.4, 0.6])
    found = anchor(PoolSolution(None, means, doubt, SHARES, SHARES), votes, predicted, belief)
    beta = 1 - weight * 0.5
    np.testing.assert_allclose(found.unseen_means[[0, 2]], means[[0, 2]])
    np.testing.assert_allclose(found.unseen_means[1], beta * means[1] + (1 - beta) * predicted[1])
    np.testing.assert_allclose(found.doubt, [0.2, 1 - beta * 0.6, 0.6])


@pytest.mark.parametrize("units", [0, 5])
@pytest.mark.parametrize("credit", [0.5, 1.0])
def test_a_hedge_has_the_blended_scores_of_both_models(units, credit):
    K, belief, handicap = RNG.normal(size=(SEEN + UNSEEN, SEEN + UNSEEN)), 0.3, 0.7
    before = Prototypes(a_space(4, units), RNG.normal(size=(SEEN, 4)), RNG.normal(size=(SEEN, 4)), 2.0)
    fitted = Prototypes(a_space(7, units), RNG.normal(size=(SEEN, 7)), RNG.normal(size=(SEEN + UNSEEN, 7)), 3.0)
    means, doubt = RNG.normal(size=(UNSEEN, 7)), np.array([0.1, 0.5, 0.9])
    found = hedge(PoolSolution(fitted, means, doubt, SHARES, SHARES), before, K, belief, credit)
    rows = RNG.normal(size=(20, Q)).astype(np.float32)

    def scores(model, unseen, certainty, handicap):
        scores = model.scores(model.space(rows), unseen).astype(np.float64)
        return scores - handicap * model.unit * np.concatenate([np.ones(SEEN), certainty])

    # The pool's handicap is `credit` times the inductive one.
    expected = belief * scores(fitted, means, 1 - doubt, handicap)
    alone = scores(before, K[SEEN:, :SEEN] @ before.weights, np.zeros(UNSEEN), handicap / credit)
    expected += (1 - belief) * alone
    model = found.model
    np.testing.assert_allclose(scores(model, found.unseen_means, 1 - found.doubt, handicap), expected, atol=1e-3)
    # A class that is described later is predicted by both.
    cross = RNG.normal(size=(2, SEEN + UNSEEN))
    expected = belief * scores(fitted, cross @ fitted.weights, np.zeros(2), 0)[:, SEEN:]
    expected += (1 - belief) * scores(before, cross[:, :SEEN] @ before.weights, np.zeros(2), 0)[:, SEEN:]
    np.testing.assert_allclose(scores(model, cross @ model.weights, np.zeros(2), 0)[:, SEEN:], expected, atol=1e-3)


def tasks(draws=6):
    """Unseen classes (18 and up) so far from where descriptions say that names are easily exchanged."""
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        A = rng.uniform(size=(26, 6))
        centres = A @ rng.normal(size=(6, 20)) + 0.6 * rng.normal(size=(26, 20))
        y = np.repeat(np.arange(26), 20)
        yield centres[y] + 0.3 * rng.normal(size=(len(y), 20)), y, A


@pytest.mark.parametrize("setting", ["zsl", "gzsl"])
def test_a_pool_that_lacks_classes_is_doubted_and_does_no_harm(setting):
    """On no draw; with the pool believed, one of these loses 20 points."""
    gains, lacking, whole = [], [], []
    for X, y, A in tasks():
        unseen = y >= 18
        given = {"X": X[~unseen], "y": y[~unseen], "descriptions": A}
        inductive = KernelPrototypes(**FIT).fit(**given)
        model = TransductiveKernelPrototypes(setting=setting, **FIT)
        pool = np.ones(len(y), dtype=bool) if setting == "gzsl" else unseen
        whole.append(model.fit(**given, X_unlabeled=X[pool]).belief_)
        lacking.append(model.fit(**given, X_unlabeled=X[pool & (y < 23)]).belief_)
        before, after = (
            mean_class_accuracy(y[unseen], m.predict(X[unseen], classes=np.arange(18, 26))) for m in (inductive, model)
        )
        gains.append(after - before)
    assert np.mean(lacking) < 0.5 < np.median(whole)
    assert min(gains) > -0.03
    assert np.mean(gains) > 0


def test_a_pool_without_a_say_has_no_belief():
    X, y, A = next(tasks(1))
    model = TransductiveKernelPrototypes(cap=0, **FIT).fit(X[y < 18], y[y < 18], A, X_unlabeled=X[y >= 18])
    assert model.belief_ == 0


@pytest.mark.parametrize("hidden", [0, 16])
def test_a_model_that_doubts_its_pool_is_saved_and_learns_from_added_samples(hidden, tmp_path):
    *_, (X, y, A) = tasks(3)  # of six, the one on which most goes wrong
    seen, absent = y < 18, y >= 23
    model = TransductiveKernelPrototypes(**FIT, hidden=hidden)
    model.fit(X[seen], y[seen], A, X_unlabeled=X[~absent])
    assert model.belief_ < 0.5
    before = model.decision_function(X)
    firstsight.save(model, tmp_path / "model")
    np.testing.assert_array_equal(firstsight.load(tmp_path / "model").decision_function(X), before)
    labelled = np.flatnonzero(absent)[::4]
    model.add_samples(X[labelled], y[labelled])
    rest = np.setdiff1d(np.flatnonzero(absent), labelled)
    right = [(scores[rest].argmax(axis=1) == y[rest]).mean() for scores in (before, model.decision_function(X))]
    assert right[1] > right[0] + 0.1
    np.testing.assert_array_equal(model.remove_samples().decision_function(X), before)
