"""A hidden layer beside the linear map, learned from the same episodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from firstsight.methods.parts.adam import Adam
from firstsight.methods.parts.episodes import DECAY, cross_entropy_slope, draw_episode
from firstsight.methods.parts.moments import BLOCK, class_sums, mean_square
from firstsight.methods.parts.whitened_space import HiddenLayer, Space

# Chosen once, on validation folds of glyphs; whether there is a layer, simulated tasks say.
PASSES, ROWS, TEMPERATURE, DROPPED = 30, 256, 20.0, 0.5
RATE, RATE_OF_UNITS = 1e-3, 0.02  # entries of U are of size one


def with_hidden_layer(
    space: Space,
    rows: np.ndarray,
    y: np.ndarray,
    means: np.ndarray,
    K: np.ndarray,
    noise_of: np.ndarray,
    nugget: float,
    stretch: float,
    units: int,
) -> tuple[Space, np.ndarray]:
    """The space with z ← zT + relu(xU + b)V of rotated rows x, and the class means (k, e) in it.

    V starts at zero and T at the identity: without a step, nothing is changed. A step takes 256 rows and an episode
    as `episodic_map` does, and follows the same loss, at a higher temperature: there, more rows have a say. Class means
    of units are taken once a pass, so that the means that an episode foretells are linear in T and V. The draws are
    the same in every call.
    """
    rng, (k, e) = np.random.default_rng(0), means.shape
    Z, size = space(rows), np.float32(np.sqrt(mean_square(rows)))
    scale = np.float32(np.sqrt(e / units))  # a row of units is about as long as its z
    U = rng.standard_normal((rows.shape[1], units), dtype=np.float32)
    b = rng.standard_normal(units, dtype=np.float32) / 2
    M = np.vstack([np.eye(e), np.zeros((units, e))]).astype(np.float32)  # T over V
    one, batches = np.eye(e, dtype=np.float32), -(-len(rows) // ROWS)
    adam, steps = Adam(M, U, b), PASSES * batches if k >= 4 else 0
    for step in range(steps):
        if step % batches == 0:
            both = np.hstack([means, scale * _means_of_units(rows, y, k, U / size, b)])
            parts = np.array_split(rng.permutation(len(rows)), batches)
        part, (place, drawn, P) = parts[step % batches], draw_episode(rng, both, K, noise_of, nugget, stretch)
        kept = (rng.random((len(part), units), dtype=np.float32) >= DROPPED) * (scale / np.float32(1 - DROPPED))
        slopes = layer_slopes(Z[part], rows[part] / size, place[y[part]], P, (M, U, b), kept, drawn)
        slopes[0][:e] += 2 * DECAY * (M[:e] - one)
        left = 1 - step / steps
        adam.step(slopes, (RATE * left, RATE_OF_UNITS * left, RATE_OF_UNITS * left))
    layer = HiddenLayer(U / size, b, M[e:] * scale)
    moved = means @ M[:e] + _means_of_units(rows, y, k, layer.inward, b) @ layer.outward
    return replace(space.turned(M[:e]), hidden=layer), moved


def layer_slopes(Z, X, target, P, weights, kept, drawn: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The derivatives by (T over V), U and b of both cross-entropies of rows; scores are −‖z − p‖²/2τ.

    P (k, e + units) are the class means of z and of units before T and V; units are multiplied by `kept`.
    """
    (M, U, b), e, tau = weights, Z.shape[1], np.float32(TEMPERATURE)
    hidden = _units(X, U, b)
    F, on = np.hstack([Z, hidden * kept]), (hidden > 0) * kept
    places, centres = F @ M, P @ M
    scores = (places @ centres.T - (centres**2).sum(axis=1) / 2) / tau
    error = cross_entropy_slope(scores, target, drawn) / tau
    by_place = error @ centres
    by_centre = error.T @ places - error.sum(axis=0)[:, None] * centres
    by_unit = (by_place @ M[e:].T) * on
    return F.T @ by_place + P.T @ by_centre, X.T @ by_unit, by_unit.sum(axis=0)


def _units(X: np.ndarray, U: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.maximum(X @ U + b, 0)


def _means_of_units(rows: np.ndarray, y: np.ndarray, k: int, U: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(k, units), block by block."""
    blocks = (slice(start, start + BLOCK) for start in range(0, len(rows), BLOCK))
    return sum(class_sums(_units(rows[at], U, b), y[at], k) for at in blocks) / np.bincount(y, minlength=k)[:, None]
