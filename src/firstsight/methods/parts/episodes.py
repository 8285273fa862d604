"""A linear map learned from episodes in which some seen classes play unseen ones."""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from firstsight.methods.parts.adam import Adam
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
    Z, one = Z.astype(np.float32), np.eye(Z.shape[1], dtype=np.float32)
    T = one.copy()
    adam = Adam(T)
    for _ in range(steps if k >= 4 else 0):
        place, drawn, P = draw_episode(rng, means, K, noise_of, nugget, stretch)
        adam.step([loss_slope(Z, place[y], P, T, drawn) + 2 * DECAY * (T - one)], [RATE])
    return T


def loss_slope(Z: np.ndarray, target: np.ndarray, P: np.ndarray, T: np.ndarray, drawn: int) -> np.ndarray:
    """The derivative by T of both cross-entropies; scores are −‖zT − pT‖²/2 over the temperature.

    With G = TTᵀ they are (zᵀGp − pᵀGp/2)/τ plus what all classes share, so that rows never meet an e × e matrix.
    """
    turned = P @ T @ T.T  # (k, e): PG
    scores = (Z @ turned.T - (turned * P).sum(axis=1) / 2) / np.float32(TEMPERATURE)
    error = cross_entropy_slope(scores, target, drawn)
    by_G = (error.T @ Z).T @ P - P.T @ (error.sum(axis=0)[:, None] * P) / 2
    return (by_G + by_G.T) @ T / np.float32(TEMPERATURE)


def cross_entropy_slope(scores: np.ndarray, target: np.ndarray, drawn: int) -> np.ndarray:
    """The derivative (n, k) by the scores: of all rows among all classes, of the first `drawn` classes' among these."""
    new, error = np.flatnonzero(target < drawn), _error(scores, target)
    error[new, :drawn] += _error(scores[new, :drawn], target[new])
    return error


def _error(scores: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The derivative of the mean cross-entropy by the scores."""
    error = softmax(scores, axis=1)
    error[np.arange(len(target)), target] -= 1
    return error / np.float32(max(len(target), 1))


def draw_episode(rng: np.random.Generator, means, K, noise_of, nugget, stretch) -> tuple[np.ndarray, int, np.ndarray]:
    """The place of each class in an order that is drawn, how many are foretold, and the means (k, e) in that order.

    Those of the first 30 % are predicted from the others.
    """
    k = len(means)
    drawn, order = min(max(2, round(SHARE * k)), k - 2), rng.permutation(k)
    new, old, place = order[:drawn], order[drawn:], np.empty(k, dtype=np.intp)
    place[order] = np.arange(k)
    among = K[np.ix_(old, old)] + nugget * np.eye(len(old))
    weights = mean_weights(among, noise_of[old], means[old])
    P = np.vstack([stretch * K[np.ix_(new, old)] @ weights, among @ weights])
    return place, drawn, P.astype(np.float32)
