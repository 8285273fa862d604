"""Class means under a Gaussian-process prior over descriptions: what rows and what other classes say of a mean."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve


def mean_weights(K: np.ndarray, noise_of: np.ndarray, means: np.ndarray) -> np.ndarray:
    """(K + diag noise_of)⁻¹ means (k, e): the mean of any class is its kernel with these k classes times this."""
    return cho_solve(cho_factor(K + np.diag(noise_of), lower=True), means)


def precision(K: np.ndarray, noise_of: np.ndarray) -> np.ndarray:
    """B⁻¹ (k, k) of B = K + diag noise_of: all that predicting each class from the others needs."""
    return np.linalg.inv(K + np.diag(noise_of))


def leave_one_out_errors(inverse: np.ndarray, means: np.ndarray) -> np.ndarray:
    """mean_c − (the mean of c predicted from the other classes) (k, e), for every class at once and without refitting.

    By B⁻¹ it is [B⁻¹ means]_c / [B⁻¹]_cc.
    """
    return inverse @ means / np.diag(inverse)[:, None]


def mean_variances(K: np.ndarray, noise_of: np.ndarray, across: np.ndarray, own: np.ndarray) -> np.ndarray:
    """How uncertain (m,) each coordinate of a class's mean is that has kernel `across` (m, k) with the k classes.

    `own` (m,) is its kernel with itself: the variance before anything is known.
    """
    return own - (across.T * cho_solve(cho_factor(K + np.diag(noise_of), lower=True), across.T)).sum(axis=0)


def leave_one_out_variances(inverse: np.ndarray, noise_of: np.ndarray) -> np.ndarray:
    """The same (k,) of the k classes, each of them predicted from the others by B⁻¹: 1/[B⁻¹]_cc − noise_c."""
    return 1 / np.diag(inverse) - noise_of


def mean_squared_error(errors: np.ndarray) -> float:
    """The mean over classes of the squared length of an error: how far a predicted mean is from where it should be."""
    return float((errors**2).sum(axis=1).mean())


def same_rows(A: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The position (n,) of the first of the `known` descriptions that each row of A is, but for rounding; else −1."""
    if not len(known):
        return np.full(len(A), -1)
    gaps = np.array([np.abs(known - row).max(axis=1) for row in A])  # (n, j)
    return np.where(gaps.min(axis=1) <= 1e-6 * max(np.abs(known).max(), 1e-12), gaps.argmin(axis=1), -1)
