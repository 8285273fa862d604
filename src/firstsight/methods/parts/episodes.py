"""A linear map learned from episodes in which some seen classes play unseen ones."""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from firstsight.methods.parts.class_mean_prior import mean_weights

# Chosen once, on validation folds of six data sets; the search only says whether the map is used.
RATE, DECAY, TEMPERATURE, SHARE = 1e-3, 0.1, 10.0, 0.3


def episodic_map(
    Z: np.ndarray,
    y: np.ndarray,
    means: np.ndarray,
    K: np.ndarray,
    noise_of: np.ndarray,
    nugget: float,
    stretch: float,
    steps: int,
) -> np.ndarray:
    """T (e, e), near the identity: after it, rows lie nearer to the mean predicted for their class.

    Each of the `steps` draws 30 % of the k classes, foretells their means from those of the others, and takes one
    step of Adam down the cross-entropy of all rows among all classes plus that of the drawn classes' rows among these,
    plus a penalty DECAY·‖T − I‖². The draws are the same in every call.
    """
    rng, k = np.random.default_rng(0), len(means)
    drawn = min(max(2, round(SHARE * k)), k - 2)
    Z, one = Z.astype(np.float32), np.eye(Z.shape[1], dtype=np.float32)
    T, speed, size = one.copy(), np.zeros_like(one), np.zeros_like(one)
    for step in range(1, steps + 1 if k >= 4 else 1):
        order = rng.permutation(k)
        place = np.empty(k, dtype=np.intp)
        place[order] = np.arange(k)
        P = _episode(order, drawn, means, K, noise_of, nugget, stretch)
        slope = loss_slope(Z, place[y], P, T, drawn) + 2 * DECAY * (T - one)
        # Adam, with its customary memory of 10 and of 1,000 steps.
        speed += 0.1 * (slope - speed)
        size += 0.001 * (slope**2 - size)
        T -= RATE * (speed / (1 - 0.9**step)) / (np.sqrt(size / (1 - 0.999**step)) + 1e-8)
    return T


def loss_slope(Z: np.ndarray, target: np.ndarray, P: np.ndarray, T: np.ndarray, drawn: int) -> np.ndarray:
    """The derivative by T of both cross-entropies; scores are −‖zT − pT‖²/2 over the temperature.

    With G = TTᵀ they are (zᵀGp − pᵀGp/2)/τ plus what all classes share, so that rows never meet an e × e matrix.
    """
    turned = P @ T @ T.T  # (k, e): PG
    scores = (Z @ turned.T - (turned * P).sum(axis=1) / 2) / np.float32(TEMPERATURE)
    new = np.flatnonzero(target < drawn)
    error = _error(scores, target)
    error[new, :drawn] += _error(scores[new, :drawn], target[new])
    by_G = (error.T @ Z).T @ P - P.T @ (error.sum(axis=0)[:, None] * P) / 2
    return (by_G + by_G.T) @ T / np.float32(TEMPERATURE)


def _error(scores: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The derivative of the mean cross-entropy by the scores."""
    error = softmax(scores, axis=1)
    error[np.arange(len(target)), target] -= 1
    return error / np.float32(max(len(target), 1))


def _episode(order, drawn, means, K, noise_of, nugget, stretch) -> np.ndarray:
    """Means (k, e) of the classes in `order`; those of the first `drawn` are predicted from the others."""
    new, old = order[:drawn], order[drawn:]
    among = K[np.ix_(old, old)] + nugget * np.eye(len(old))
    weights = mean_weights(among, noise_of[old], means[old])
    return np.vstack([stretch * K[np.ix_(new, old)] @ weights, among @ weights]).astype(np.float32)
