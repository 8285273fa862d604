from __future__ import annotations

import numpy as np
import pytest

from firstsight.methods.parts.description_kernel import SCALINGS, WIDTHS, fit_kernel, kernel


def one_by_one(S, A, B):
    """The kernel by a plain loop, straight from its description."""
    spread = S.std(axis=0)
    spread = spread + 0.1 * spread.mean() + 1e-12

    def view(a, power):
        a = a if power is None else (a - S.mean(axis=0)) / spread**power
        return a / np.linalg.norm(a)

    def distance(a, b, power):
        return ((view(a, power) - view(b, power)) ** 2).sum()

    pairs = [(i, j) for i in range(len(S)) for j in range(len(S)) if i != j]
    units = [np.mean([distance(S[i], S[j], p) for i, j in pairs]) for p in SCALINGS]
    return np.array(
        [
            [
                np.mean(
                    [np.exp(-w * distance(a, b, p) / u) for p, u in zip(SCALINGS, units, strict=True) for w in WIDTHS]
                )
                for b in B
            ]
            for a in A
        ]
    )


def test_the_kernel_is_the_mean_of_gaussians_over_scalings_and_widths():
    rng = np.random.default_rng(0)
    S, A = rng.uniform(size=(6, 5)), rng.uniform(size=(3, 5))
    np.testing.assert_allclose(kernel(fit_kernel(S), A, S), one_by_one(S, A, S), rtol=1e-8)


@pytest.mark.parametrize("S", [np.ones((4, 3)), np.zeros((4, 3)), np.eye(4), np.eye(3)[[0, 0, 1, 2]]])
def test_descriptions_that_say_little_give_a_finite_kernel(S):
    K = kernel(fit_kernel(S), S, S)
    assert np.isfinite(K).all()
    np.testing.assert_allclose(np.diag(K), 1)
