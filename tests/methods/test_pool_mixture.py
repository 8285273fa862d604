from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from firstsight.methods.kernel_prototypes.pool import (
    FEW,
    LabelledClasses,
    PoolProblem,
    PoolSettings,
    mixture_class_sums,
    responsibilities,
    update_means,
    widen_space,
)
from firstsight.methods.kernel_prototypes.prior import Prototypes, PrototypeSettings, closeness, posterior_prototypes
from firstsight.methods.kernel_prototypes.space import WhitenedSpace

SEEN, UNSEEN, Q = 6, 4, 12
SETTINGS = PoolSettings(
    PrototypeSettings(noise=2.0, nugget=0.1), seen_handicap=0.3, temperature=1.5, rounds=2, pool_nugget=0.05, cap=30.0
)


@pytest.fixture
def case():
    """Labelled classes in a flat space, a pool of other classes, and a smooth kernel over all of them."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(SEEN + UNSEEN, 3))
    K = np.exp(-((A[:, None] - A) ** 2).sum(axis=2) / 6)
    centres = 4 * A @ rng.normal(size=(3, Q)) / Q**0.5
    counts = np.full(SEEN, 20.0)
    labelled = LabelledClasses(20 * centres[:SEEN], counts, K)
    truth = np.repeat(np.arange(UNSEEN), 15)
    pool = (centres[SEEN + truth] + rng.normal(size=(60, Q))).astype(np.float32)
    U = np.linalg.svd(centres[:SEEN].T, full_matrices=False)[0]
    space = WhitenedSpace(
        np.eye(Q, dtype=np.float32), U.astype(np.float32), (centres[:SEEN].mean(axis=0) @ U).astype(np.float32)
    )
    return labelled, pool, truth, space


def objective(fitted, unseen, labelled, Z, space):
    """What EM climbs, by a plain loop: log-likelihood of pool and labelled rows, and log-prior of the means."""
    tau, means = SETTINGS.temperature, np.vstack([fitted.means, unseen])

    def near(z, mean):
        return -((z - mean) @ (z - mean)) / (2 * tau)

    rows = labelled.sums / 20 @ space.directions - space.offset
    total = sum(np.log(sum(np.exp(near(z, m)) for m in unseen)) for z in Z.astype(np.float64))
    total += sum(20 * near(z, m) for z, m in zip(rows, fitted.means, strict=True))
    K = labelled.K + SETTINGS.pool_nugget * np.eye(SEEN + UNSEEN)
    return total - SETTINGS.model.noise / (2 * tau) * np.trace(means.T @ np.linalg.inv(K) @ means)


def test_em_never_lowers_its_objective(case):
    labelled, pool, _, space = case
    Z = pool @ space.directions - space.offset
    R = np.full((len(pool), UNSEEN), 1 / UNSEEN) + 0.1 * np.random.default_rng(1).uniform(size=(len(pool), UNSEEN))
    R /= R.sum(axis=1, keepdims=True)
    values = []
    for _ in range(12):
        # With an infinite cap the pool rows count in full: then, and only then, this is EM as in the book.
        fitted, unseen, _ = update_means(
            space, labelled, Z, R, replace(SETTINGS, cap=1e12), labelled.precision(SETTINGS)
        )
        values.append(objective(fitted, unseen, labelled, Z, space))
        R = responsibilities(Z, fitted.means, unseen, np.zeros(UNSEEN), False, SETTINGS.temperature)
    assert (np.diff(values) > -1e-4).all()
    assert values[-1] > values[0] + 0.1


def test_the_m_step_is_the_posterior_mean_by_a_plain_loop(case):
    labelled, pool, truth, space = case
    Z, R = pool @ space.directions - space.offset, np.eye(UNSEEN)[truth]
    fitted, unseen, _ = update_means(space, labelled, Z, R, replace(SETTINGS, cap=5.0), labelled.precision(SETTINGS))
    counted = 15 * 5 / (5 + 15)  # the pool rows of a class count as fewer than the cap
    means = [labelled.sums[c] / 20 @ space.directions - space.offset for c in range(SEEN)]
    means += [Z[truth == c].mean(axis=0) for c in range(UNSEEN)]
    K = labelled.K + 0.05 * np.eye(SEEN + UNSEEN)
    noise = np.diag([2.0 / 20] * SEEN + [2.0 / counted] * UNSEEN)
    expected = K @ np.linalg.inv(K + noise) @ np.array(means)
    np.testing.assert_allclose(np.vstack([fitted.means, unseen]), expected, rtol=1e-4, atol=1e-5)


def test_a_wider_space_holds_the_pools_means_and_leaves_the_old_directions_as_they_were(case):
    labelled, pool, truth, space = case
    R = np.eye(UNSEEN)[truth]
    wide = widen_space(space, labelled, pool, R)
    e = space.directions.shape[1]
    np.testing.assert_array_equal(wide.directions[:, :e], space.directions)
    gaps = R.T @ pool / 15 - labelled.sums.mean(axis=0) / 20
    basis = np.linalg.qr(wide.directions)[0]
    np.testing.assert_allclose(gaps @ basis @ basis.T, gaps, atol=1e-4)
    assert np.abs(wide.directions[:, e:].T @ space.directions).max() < 1e-5


@pytest.mark.parametrize("seen_too", [True, False])
@pytest.mark.parametrize("rows", [1, 60])
def test_the_pool_corrects_means_and_one_row_does_no_harm(case, seen_too, rows):
    labelled, pool, truth, space = case
    means = labelled.sums / 20 @ space.directions - space.offset
    weights = np.linalg.solve(labelled.K[:SEEN, :SEEN] + 0.15 * np.eye(SEEN), means)
    model = Prototypes(space, means, weights, 1.0)
    problem = PoolProblem(model, labelled, pool[:rows], seen_too)
    fitted, unseen, _, R, _ = problem.solve(SETTINGS)
    assert R.shape == (rows, UNSEEN)
    assert np.isfinite(unseen).all()
    before = closeness(pool @ space.directions - space.offset, labelled.K[SEEN:, :SEEN] @ weights)
    after = closeness(pool @ fitted.space.directions - fitted.space.offset, unseen)
    right_before, right_after = ((scores.argmax(axis=1) == truth).mean() for scores in (before, after))
    assert right_after >= right_before - (0.05 if rows == 1 else 0)


def problem_by(K, case, **changes):
    """The problem as it is set from the labelled rows' sums alone, by a kernel of all classes."""
    labelled, pool, _, space = case
    labelled = LabelledClasses(labelled.sums, labelled.counts, K)
    means = space.class_means(labelled.sums, labelled.counts)
    model = posterior_prototypes(space, means, labelled.counts, K[:SEEN, :SEEN], SETTINGS.model)
    return PoolProblem(model, labelled, pool, False), replace(SETTINGS, **changes)


def test_kernels_vote_on_where_em_begins(case):
    K = case[0].K
    problem, settings = problem_by(K, case)
    by = [problem_by(other, case)[0].solve(settings).shares for other in (K, K, K**2, K**0.5)]
    assert not np.allclose(*by[2:], atol=1e-3)
    found = problem.solve_by_vote(settings, [K**2, K**0.5]).shares
    np.testing.assert_allclose(found, problem.solve(settings, np.mean(by, axis=0)).shares, atol=1e-5)


def test_a_kernel_that_knows_much_less_has_no_vote(case):
    problem, settings = problem_by(case[0].K, case)
    nothing = np.eye(SEEN + UNSEEN)
    for kernels in ([], [nothing]):
        np.testing.assert_array_equal(problem.solve_by_vote(settings, kernels).shares, problem.solve(settings).shares)


def test_em_continues_from_given_shares(case):
    """Names that go round in a circle are a solution of their own: only another beginning leads out of it."""
    truth = case[2]
    problem, settings = problem_by(case[0].K, case, cap=1e6, temperature=1.0)
    right, round_in_a_circle = (
        problem.solve(settings, np.eye(UNSEEN, dtype=np.float32)[names[truth]]).shares.argmax(axis=1)
        for names in (np.arange(UNSEEN), np.roll(np.arange(UNSEEN), 1))
    )
    assert (right == truth).mean() > 0.9
    assert (round_in_a_circle == truth).mean() < 0.5


def test_doubt_is_the_variance_of_a_mean_against_that_of_a_predicted_one(case):
    labelled, pool, truth, space = case
    Z, R = pool @ space.directions - space.offset, np.eye(UNSEEN)[truth]
    R[truth == 0] = 0  # this class has no rows
    doubt = update_means(space, labelled, Z, R, replace(SETTINGS, cap=5.0), labelled.precision(SETTINGS))[2]
    K = labelled.K + 0.05 * np.eye(SEEN + UNSEEN)

    def variance(of, rows):  # the last one of a joint Gaussian, given noisy values of the others
        B = K[np.ix_(rows, rows)] + np.diag([2.0 / (20 if c < SEEN else 15 * 5 / 20) for c in rows])
        return K[of, of] - K[of, rows] @ np.linalg.inv(B) @ K[rows, of]

    rows = [*range(SEEN), *range(SEEN + 1, SEEN + UNSEEN)]
    alone = np.mean([variance(c, [o for o in range(SEEN) if o != c]) for c in range(SEEN)])
    np.testing.assert_allclose(doubt, [variance(c, rows) / alone for c in range(SEEN, SEEN + UNSEEN)], rtol=1e-6)
    assert doubt[0] > 1.2 * doubt[1:].max()


def test_rows_of_a_class_that_takes_far_fewer_than_others_count_for_less(case):
    labelled, pool, truth, space = case
    R = np.eye(UNSEEN)[truth]
    R[(truth == 0) & (np.arange(60) % 5 > 0)] = 0  # 3 rows of 15 are left
    counts, sums = mixture_class_sums(space, labelled, pool @ space.directions - space.offset, R, 10.0)
    believed = (3 / (FEW * 15)) ** 2
    np.testing.assert_allclose(counts[SEEN:], [believed * 30 / 13, 6, 6, 6])
    taken = (pool[(truth == 0) & (R.sum(axis=1) > 0)] @ space.directions - space.offset).mean(axis=0)
    np.testing.assert_allclose(sums[SEEN] / counts[SEEN], taken, rtol=1e-4)
