"""Feature maps learned from episodes of simulated unseen classes: a linear map and a hidden layer.

Both minimise by Adam, with p the class means that the Gaussian process predicts from those of other classes:

* the linear map T, after whitening, in episodes whose unseen classes U are drawn from the seen ones::

      s_ic = −‖z_i T − p_c T‖²/2τ
      mean_i CE(s_i, y_i) + mean_{i: y_i ∈ U} CE(s_i restricted to U, y_i) + DECAY ‖T − I‖²

* the hidden layer h = relu(xU + b) of rotated samples x, with a linear classifier (C, c): Algorithm 1 of Zhang et al.
  (see `DeepEmbedding`) with the Gaussian process in place of its semantic network::

      mean_i ‖h_i − p_{y_i}‖² + λ · mean_i CE(h_i C + c, y_i)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import log_softmax, softmax

from firstsight.methods._moments import BLOCK, class_sums, mean_square
from firstsight.methods.kernel_prototypes.prior import PrototypeSettings, leave_one_out_errors, leave_out, precision
from firstsight.methods.kernel_prototypes.space import HiddenLayer, basis_of_span

# Of the linear map: chosen once, on validation folds of six data sets; the search only says whether the map is used.
MAP_LR, DECAY, TEMPERATURE, UNSEEN_SHARE = 1e-3, 0.1, 10.0, 0.3
# Of the hidden layer: λ, the length that samples are scaled to, the learning rate and the end are those of
# `DeepEmbedding`: once the mean cross-entropy of a pass is below STOP_BELOW, classes are told apart.
SEPARATION, LENGTH, LAYER_LR, STOP_BELOW = 300.0, 32.0, 1e-3, 0.05
# The most passes over the samples, samples of a step, and the steps after which no other pass begins: where classes
# overlap the end above is never reached, and of many samples a few passes are enough.
PASSES, BATCH_SIZE, STEPS = 60, 256, 1600


class Adam:
    """Adam (β₁ = 0.9, β₂ = 0.999) on NumPy arrays, which it changes in place."""

    def __init__(self, lr: float, *weights: np.ndarray):
        self.lr, self.weights, self.steps = lr, weights, 0
        self.exp_avg, self.exp_avg_sq = ([np.zeros_like(weight) for weight in weights] for _ in range(2))

    def step(self, grads: Sequence[np.ndarray]) -> None:
        """One step, given the gradient of each array."""
        self.steps += 1
        for weight, grad, avg, avg_sq in zip(self.weights, grads, self.exp_avg, self.exp_avg_sq, strict=True):
            avg += 0.1 * (grad - avg)
            avg_sq += 0.001 * (grad**2 - avg_sq)
            weight -= self.lr * (avg / (1 - 0.9**self.steps)) / (np.sqrt(avg_sq / (1 - 0.999**self.steps)) + 1e-8)


def episodic_map(
    Z: np.ndarray, y: np.ndarray, means: np.ndarray, K: np.ndarray, noise: np.ndarray, settings: PrototypeSettings
) -> np.ndarray:
    """T (e, e), near the identity: after it, samples lie nearer to the mean predicted for their class.

    Each step draws 30 % of the k classes and predicts their means from those of the others. The draws are the same in
    every call.
    """
    rng, k = np.random.default_rng(0), len(means)
    Z, identity = Z.astype(np.float32), np.eye(Z.shape[1], dtype=np.float32)
    T = identity.copy()
    adam, drawn = Adam(MAP_LR, T), min(max(2, round(UNSEEN_SHARE * k)), k - 2)
    inverse = precision(K + settings.nugget * np.eye(k), noise)
    weights = inverse @ means
    for _ in range(settings.refinement if k >= 4 else 0):
        order, position = rng.permutation(k), np.empty(k, dtype=np.intp)
        position[order] = np.arange(k)
        errors, corrections = leave_out(inverse, weights, noise, order[:drawn], order[drawn:])
        P = means[order] - np.vstack([errors, corrections])
        P[:drawn] *= settings.stretch
        adam.step([episode_grad(Z, position[y], P.astype(np.float32), T, drawn) + 2 * DECAY * (T - identity)])
    return T


def episode_grad(Z: np.ndarray, target: np.ndarray, P: np.ndarray, T: np.ndarray, drawn: int) -> np.ndarray:
    """The gradient by T of both cross-entropies; the first `drawn` of the means P (k, e) are those of unseen classes.

    With G = TTᵀ, scores are (zᵀGp − pᵀGp/2)/τ plus what all classes share, so that samples never meet an e × e matrix.
    """
    PG = P @ T @ T.T  # (k, e)
    scores = (Z @ PG.T - (PG * P).sum(axis=1) / 2) / np.float32(TEMPERATURE)
    error, new = _cross_entropy_grad(scores, target), np.flatnonzero(target < drawn)
    error[new, :drawn] += _cross_entropy_grad(scores[new, :drawn], target[new])
    by_G = (error.T @ Z).T @ P - P.T @ (error.sum(axis=0)[:, None] * P) / 2
    return (by_G + by_G.T) @ T / np.float32(TEMPERATURE)


def _cross_entropy_grad(scores: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The gradient (n, k) of the mean cross-entropy by the scores."""
    error = softmax(scores, axis=1)
    error[np.arange(len(target)), target] -= 1
    return error / np.float32(max(len(target), 1))


def hidden_layer(
    rows: np.ndarray, y: np.ndarray, prior: np.ndarray, noise: np.ndarray, units: int
) -> tuple[HiddenLayer, np.ndarray, np.ndarray]:
    """A hidden layer of rotated samples, reduced to the span of its class means: the layer, its offset, the means.

    The means p are predicted again before each pass. The draws are the same in every call.
    """
    rng, (n, d), k = np.random.default_rng(0), rows.shape, len(noise)

    def uniform(*size: int) -> np.ndarray:
        return rng.uniform(-1, 1, size).astype(np.float32)

    factor = np.float32(LENGTH / np.sqrt(mean_square(rows)))
    U, C = uniform(d, units) / np.float32(d**0.5), uniform(units, k) / np.float32(units**0.5)
    b, c = uniform(units), np.zeros(k, dtype=np.float32)
    adam = Adam(LAYER_LR, U, b, C, c)
    inverse, steps = precision(prior, noise), -(-n // BATCH_SIZE)
    for _ in range(min(PASSES, -(-STEPS // steps))):
        means = _means_of_units(HiddenLayer(factor * U, b, C), rows, y, k)
        P = (means - leave_one_out_errors(inverse, means - means.mean(axis=0))).astype(np.float32)
        total = 0.0
        for part in np.array_split(rng.permutation(n), steps):
            grads, entropy = layer_grads(factor * rows[part], y[part], P, (U, b, C, c))
            adam.step(grads)
            total += entropy * len(part)
        if total < STOP_BELOW * n:
            break
    return _reduce_to_span(factor * U, b, rows, y, k)


def layer_grads(
    X: np.ndarray, target: np.ndarray, P: np.ndarray, weights: Sequence[np.ndarray]
) -> tuple[list[np.ndarray], float]:
    """The gradients by U, b, C and c of the objective of samples X, given P (k, units); their mean cross-entropy."""
    (U, b, C, c), index, n = weights, np.arange(len(target)), len(target)
    hidden = np.maximum(X @ U + b, 0)
    logs = log_softmax(hidden @ C + c, axis=1)
    error = np.exp(logs)
    error[index, target] -= 1
    error *= np.float32(SEPARATION / n)
    by_unit = (error @ C.T + np.float32(2 / n) * (hidden - P[target])) * (hidden > 0)
    grads = [X.T @ by_unit, by_unit.sum(axis=0), hidden.T @ error, error.sum(axis=0)]
    return grads, -float(logs[index, target].mean())


def _reduce_to_span(
    U: np.ndarray, b: np.ndarray, rows: np.ndarray, y: np.ndarray, k: int
) -> tuple[HiddenLayer, np.ndarray, np.ndarray]:
    """The layer, its offset and the class means, in the span of these and scaled to a variance of one within classes.

    Predicted means lie in that span: across it none differs from another.
    """
    layer = HiddenLayer(U, b, np.empty((len(b), 0), dtype=np.float32))  # the outward weights are found here
    means = _means_of_units(layer, rows, y, k)
    basis = basis_of_span(means)
    narrow, centres = basis.astype(np.float32), (means @ basis).astype(np.float32)
    squares = sum(
        float(np.square(layer.units(rows[part]) @ narrow - centres[y[part]]).sum()) for part in _parts(len(rows))
    )
    outward = basis / np.sqrt(max(squares / max(len(rows) - k, 1) / basis.shape[1], 1e-12))
    offset = means.mean(axis=0) @ outward
    return HiddenLayer(U, b, outward.astype(np.float32)), offset, means @ outward - offset


def _means_of_units(layer: HiddenLayer, rows: np.ndarray, y: np.ndarray, k: int) -> np.ndarray:
    """(k, units), block by block."""
    sums = sum(class_sums(layer.units(rows[part]), y[part], k) for part in _parts(len(rows)))
    return sums / np.bincount(y, minlength=k)[:, None]


def _parts(n: int) -> list[slice]:
    return [slice(start, start + BLOCK) for start in range(0, n, BLOCK)]
