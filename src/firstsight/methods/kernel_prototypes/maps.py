"""Feature maps learned from episodes of simulated unseen classes: a linear map and a hidden layer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import log_softmax, softmax

from firstsight.methods._moments import BLOCK, class_sums, mean_square
from firstsight.methods.kernel_prototypes.prior import leave_one_out_errors, mean_weights, precision
from firstsight.methods.kernel_prototypes.space import HiddenLayer

# Adam on numpy arrays.


class Adam:
    """Changes the arrays that it is given in place, with the customary memory of 10 and of 1,000 steps."""

    def __init__(self, *weights: np.ndarray):
        self.weights, self.steps = weights, 0
        self.speeds, self.sizes = ([np.zeros_like(weight) for weight in weights] for _ in range(2))

    def step(self, slopes: Sequence[np.ndarray], rates: Sequence[float]) -> None:
        """One step down the slopes, of the rate that each array is given."""
        self.steps += 1
        for weight, slope, speed, size, rate in zip(self.weights, slopes, self.speeds, self.sizes, rates, strict=True):
            speed += 0.1 * (slope - speed)
            size += 0.001 * (slope**2 - size)
            weight -= rate * (speed / (1 - 0.9**self.steps)) / (np.sqrt(size / (1 - 0.999**self.steps)) + 1e-8)


# A linear map learned from episodes in which some seen classes play unseen ones.

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


# A hidden layer beside the linear map: the paper's Algorithm 1 with the Gaussian process in the place of ψ.

# λ, the length that rows are brought to, the rate and the end are those of `DeepEmbedding`: once the mean cross-entropy
# of a pass is below ENOUGH, classes are told apart. Whether there is a layer at all, simulated tasks say.
SEPARATION, LENGTH, LAYER_RATE, ENOUGH = 300.0, 32.0, 1e-3, 0.05
# The most passes over the rows, rows of a step, and the steps after which no other pass begins: where classes
# overlap the end above never comes, and many rows have told all they know long before the last pass.
PASSES, ROWS, STEPS = 60, 256, 1600


def hidden_layer(
    rows: np.ndarray, y: np.ndarray, among: np.ndarray, noise_of: np.ndarray, units: int
) -> tuple[HiddenLayer, np.ndarray, np.ndarray]:
    """Units relu(xU + b) of rotated rows x, cut to the span of their class means: the layer, its offset, the means.

    With h_i the units of a row, and p_c the mean of h of a class as the Gaussian process foretells it from those of all
    other classes, it minimises mean_i ‖h_i − p_{y_i}‖² + λ · mean_i CE(h_i C + c, y_i) by Adam: classes come to lie
    apart, and where their descriptions say. p is found anew before each pass. The draws are the same in every call.
    """
    rng, (n, d), k = np.random.default_rng(0), rows.shape, len(noise_of)
    factor = np.float32(LENGTH / np.sqrt(mean_square(rows)))
    U, C = _drawn(rng, d, units) / np.float32(d**0.5), _drawn(rng, units, k) / np.float32(units**0.5)
    b, c = _drawn(rng, units), np.zeros(k, dtype=np.float32)
    adam = Adam(U, b, C, c)
    inverse, steps = precision(among, noise_of), -(-n // ROWS)
    for _ in range(min(PASSES, -(-STEPS // steps))):
        means = _means_of_units(HiddenLayer(factor * U, b, C), rows, y, k)
        P = means - leave_one_out_errors(inverse, means - means.mean(axis=0))
        P, total = P.astype(np.float32), 0.0
        for part in np.array_split(rng.permutation(n), steps):
            slopes, entropy = layer_slopes(factor * rows[part], y[part], P, (U, b, C, c))
            adam.step(slopes, [LAYER_RATE] * len(slopes))
            total += entropy * len(part)
        if total < ENOUGH * n:
            break
    return _cut_to_span(factor * U, b, rows, y, k)


def layer_slopes(X, target, P, weights) -> tuple[list[np.ndarray], float]:
    """The derivatives by U, b, C and c of the objective of rows X, given P (k, units); their mean cross-entropy."""
    (U, b, C, c), own, n = weights, np.arange(len(target)), len(target)
    hidden = np.maximum(X @ U + b, 0)
    logs = log_softmax(hidden @ C + c, axis=1)
    error = np.exp(logs)
    error[own, target] -= 1
    error *= np.float32(SEPARATION / n)
    by_unit = (error @ C.T + np.float32(2 / n) * (hidden - P[target])) * (hidden > 0)
    slopes = [X.T @ by_unit, by_unit.sum(axis=0), hidden.T @ error, error.sum(axis=0)]
    return slopes, -float(logs[own, target].mean())


def _drawn(rng: np.random.Generator, *size: int) -> np.ndarray:
    """Numbers from −1 to 1."""
    return rng.uniform(-1, 1, size).astype(np.float32)


def _cut_to_span(U: np.ndarray, b: np.ndarray, rows: np.ndarray, y: np.ndarray, k: int):
    """The layer, its offset and the class means, cut to the span of these and scaled to a spread of one within classes.

    Means that are predicted lie in that span: across it none differs from another.
    """
    layer = HiddenLayer(U, b, np.empty((len(b), 0), dtype=np.float32))  # what leads from the units is found here
    means = _means_of_units(layer, rows, y, k)
    basis, size, _ = np.linalg.svd((means - means.mean(axis=0)).T, full_matrices=False)
    basis = basis[:, : max(1, int((size[: k - 1] > 1e-6 * size[0]).sum()))]
    narrow, places = basis.astype(np.float32), (means @ basis).astype(np.float32)
    squares = sum(float(np.square(layer.units(rows[at]) @ narrow - places[y[at]]).sum()) for at in _blocks(len(rows)))
    outward = basis / np.sqrt(max(squares / max(len(rows) - k, 1) / basis.shape[1], 1e-12))
    offset = means.mean(axis=0) @ outward
    return HiddenLayer(U, b, outward.astype(np.float32)), offset, means @ outward - offset


def _means_of_units(layer: HiddenLayer, rows: np.ndarray, y: np.ndarray, k: int) -> np.ndarray:
    """(k, units), block by block."""
    sums = sum(class_sums(layer.units(rows[at]), y[at], k) for at in _blocks(len(rows)))
    return sums / np.bincount(y, minlength=k)[:, None]


def _blocks(n: int) -> list[slice]:
    return [slice(start, start + BLOCK) for start in range(0, n, BLOCK)]
