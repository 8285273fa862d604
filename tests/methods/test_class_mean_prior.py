from __future__ import annotations

import numpy as np
import pytest

from firstsight.methods.kernel_prototypes.prior import (
    error_unit,
    leave_one_out_errors,
    leave_out,
    match_rows,
    mean_weights,
    precision,
)


@pytest.fixture
def classes():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(9, 3))
    K = np.exp(-((A[:, None] - A) ** 2).sum(axis=2) / 4)
    return K, rng.uniform(0.05, 0.5, size=9), rng.normal(size=(9, 4))


def test_the_leave_one_class_out_error_is_that_of_refitting_without_the_class(classes):
    K, noise, means = classes
    inverse = precision(K, noise)
    errors = leave_one_out_errors(inverse, means)
    for c in range(len(K)):
        others = np.delete(np.arange(len(K)), c)
        weights = mean_weights(K[np.ix_(others, others)], noise[others], means[others])
        np.testing.assert_allclose(errors[c], means[c] - K[c, others] @ weights, rtol=1e-8)
    assert error_unit(inverse, means) == pytest.approx(np.mean([e @ e for e in errors]) / 2)


def test_leaving_several_classes_out_is_refitting_without_them(classes):
    K, noise, means = classes
    new, old = np.array([6, 1, 4]), np.array([0, 8, 2, 3, 7, 5])
    inverse = precision(K, noise)
    errors, corrections = leave_out(inverse, inverse @ means, noise, new, old)
    weights = mean_weights(K[np.ix_(old, old)], noise[old], means[old])
    np.testing.assert_allclose(errors, means[new] - K[np.ix_(new, old)] @ weights, rtol=1e-8)
    np.testing.assert_allclose(corrections, means[old] - K[np.ix_(old, old)] @ weights, rtol=1e-8)


def test_weights_give_the_mean_of_the_joint_gaussian_given_the_means_that_were_seen(classes):
    K, noise, means = classes
    seen, new = np.arange(7), np.array([7, 8])
    joint = K + np.diag(np.r_[noise[:7], 0, 0])
    # The conditional mean by its precision matrix: another formula, the same number.
    inverse = np.linalg.inv(joint)
    expected = -np.linalg.solve(inverse[np.ix_(new, new)], inverse[np.ix_(new, seen)] @ means[:7])
    weights = mean_weights(K[np.ix_(seen, seen)], noise[:7], means[:7])
    np.testing.assert_allclose(K[np.ix_(new, seen)] @ weights, expected, rtol=1e-6)


def test_match_rows_forgives_rounding_and_nothing_else():
    known = np.array([[0.1, 0.2], [0.3, 0.4]])
    asked = np.array([[0.3, 0.4], [0.1, 0.2 + 1e-9], [0.1, 0.21]])
    assert match_rows(asked, known).tolist() == [1, 0, -1]
    assert match_rows(asked, known[:0]).tolist() == [-1, -1, -1]
