from __future__ import annotations

import numpy as np
import pytest

from firstsight.methods.kernel_prototypes.prior import (
    BIAS,
    SCALINGS,
    WIDTHS,
    arc_cosine,
    fit_kernel,
    kernel,
    kernels_of_halves,
)


def one_by_one(S, A, B):
    """The kernel by a plain loop, straight from its description."""
    spread = S.std(axis=0)
    spread = spread + 0.1 * spread.mean() + 1e-12

    def view(a, power):
        a = a if power is None else (a - S.mean(axis=0)) / spread**power
        return a / np.linalg.norm(a)

    def distance(a, b, power):
        return ((view(a, power) - view(b, power)) ** 2).sum()

    def rectified(a, b, power):
        """E[relu(w·a) relu(w·b)] over normal w, of descriptions with a constant behind them; 1 for the same one."""
        a, b = np.append(view(a, power), BIAS), np.append(view(b, power), BIAS)
        cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
        return (np.sqrt(max(0, 1 - cosine**2)) + (np.pi - np.arccos(min(1, cosine))) * cosine) / np.pi

    pairs = [(i, j) for i in range(len(S)) for j in range(len(S)) if i != j]
    units = [np.mean([distance(S[i], S[j], p) for i, j in pairs]) for p in SCALINGS]

    def alike(a, b):
        gaussians = [np.exp(-w * distance(a, b, p) / u) for p, u in zip(SCALINGS, units, strict=True) for w in WIDTHS]
        return np.mean([np.mean(gaussians), np.mean([rectified(a, b, p) for p in SCALINGS])])

    return np.array([[alike(a, b) for b in B] for a in A])


def test_the_kernel_is_the_mean_over_scalings_half_gaussian_half_arc_cosine():
    rng = np.random.default_rng(0)
    S, A = rng.uniform(size=(6, 5)), rng.uniform(size=(3, 5))
    np.testing.assert_allclose(kernel(fit_kernel(S), A, S), one_by_one(S, A, S), rtol=1e-7)


def test_the_arc_cosine_kernel_is_that_of_many_random_rectified_units():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 4))
    w = rng.normal(size=(400_000, 5))
    units = [np.maximum(w @ np.append(v, BIAS), 0) for v in (a, b)]
    expected = units[0] @ units[1] / np.sqrt((units[0] @ units[0]) * (units[1] @ units[1]))
    assert arc_cosine(a[None], b[None])[0, 0] == pytest.approx(expected, abs=5e-3)


@pytest.mark.parametrize("S", [np.ones((4, 3)), np.zeros((4, 3)), np.eye(4), np.eye(3)[[0, 0, 1, 2]]])
def test_descriptions_that_say_little_give_a_finite_kernel(S):
    K = kernel(fit_kernel(S), S, S)
    assert np.isfinite(K).all()
    np.testing.assert_allclose(np.diag(K), 1)


def test_halves_share_no_attribute_and_leave_none_out():
    A = np.random.default_rng(0).uniform(size=(7, 2))
    by_one, by_other = (kernel(fit_kernel(A[:5, [i]]), A[:, [i]], A[:, [i]]) for i in (0, 1))
    for first, second in zip(*[kernels_of_halves(A, 5, 3)] * 2, strict=True):
        order = (by_one, by_other) if np.array_equal(first, by_one) else (by_other, by_one)
        np.testing.assert_array_equal(first, order[0])
        np.testing.assert_array_equal(second, order[1])


@pytest.mark.parametrize(("attributes", "pairs", "expected"), [(5, 3, 6), (5, 0, 0), (1, 3, 0)])
def test_as_many_kernels_as_there_are_halves(attributes, pairs, expected):
    A = np.random.default_rng(0).uniform(size=(7, attributes))
    assert len(list(kernels_of_halves(A, 5, pairs))) == expected
