from __future__ import annotations

import numpy as np
import pytest

from firstsight.methods.kernel_prototypes.space import CACHED, fit_rotation, refit_rotation, signed_power


def test_a_rotation_learned_from_some_rows_knows_nothing_of_the_others():
    rng = np.random.default_rng(0)
    some, others = np.zeros((40, 30), np.float32), np.zeros((40, 30), np.float32)
    some[:, :15], others[:, 15:] = rng.normal(size=(2, 40, 15))
    together = fit_rotation(np.vstack([some, others]), 1.0, 12)
    alone = refit_rotation(some, together)
    assert np.abs(together(others)).max() > 0.1
    assert np.abs(alone(others) - alone(np.zeros((1, 30), np.float32))).max() < 1e-5
    np.testing.assert_allclose(alone.basis.T @ alone.basis, np.eye(12), atol=1e-5)


def test_it_is_nearly_the_one_that_these_rows_give():
    rng = np.random.default_rng(1)
    rows = (rng.normal(size=(90, 30)) * np.geomspace(1, 1e-3, 30)).astype(np.float32)
    alone, exact = (
        refit_rotation(rows[:60], fit_rotation(rows, 0.5, 6)),
        fit_rotation(rows[:60], 0.5, 6),
    )
    np.testing.assert_allclose(alone.centre, exact.centre, atol=1e-6)
    energy = [(rotation(rows[:60]) ** 2).sum() for rotation in (alone, exact)]
    assert 0.99 * energy[1] < energy[0] < 1.0001 * energy[1]


def test_without_a_basis_only_the_centre_is_fitted_again():
    rows = np.random.default_rng(2).normal(size=(50, 8)).astype(np.float32)
    alone = refit_rotation(rows[:20], fit_rotation(rows, 1.0, 8))
    assert alone.basis is None
    np.testing.assert_allclose(alone(rows[:20]).mean(axis=0), 0, atol=1e-6)


@pytest.mark.parametrize("components", [6, 39, 50])
def test_fewer_rows_than_dimensions_are_turned_to_their_own_leading_directions(components):
    X = (np.random.default_rng(3).normal(size=(40, 60)) * np.geomspace(1, 0.1, 60)).astype(np.float32)
    found = fit_rotation(X, 0.5, components)
    np.testing.assert_allclose(found.basis.T @ found.basis, np.eye(components), atol=1e-5)
    sizes = np.linalg.svd(signed_power(X, 0.5) - signed_power(X, 0.5).mean(axis=0), compute_uv=False)
    np.testing.assert_allclose((found(X) ** 2).sum(), (sizes[:components] ** 2).sum(), rtol=1e-4)


@pytest.mark.parametrize("power", [0.5, 0.7, 1.0])
def test_powers_keep_signs_and_zeros_and_have_unit_length_in_every_block(power):
    X = np.random.default_rng(4).normal(size=(2 * CACHED + 3, 5))
    X[CACHED] = 0
    expected = np.sign(X) * np.abs(X) ** power
    expected[np.arange(len(X)) != CACHED] /= np.linalg.norm(np.delete(expected, CACHED, axis=0), axis=1, keepdims=True)
    before = X.copy()
    np.testing.assert_allclose(signed_power(X, power), expected, atol=1e-12)
    np.testing.assert_array_equal(X, before)
