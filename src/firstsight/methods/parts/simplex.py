"""Vectors as mixtures of given ones: least squares over the simplex."""

from __future__ import annotations

import numpy as np


def mixtures(A: np.ndarray, S: np.ndarray, penalty: float, steps: int = 500) -> np.ndarray:
    """Each row a of A as a mixture of the rows of S: argmin over α ≥ 0, Σα = 1 of ½‖a − Sᵀα‖² + penalty/2 ‖α‖²  (C, k).

    Accelerated projected gradient steps for all rows at once, as many for one row as for a thousand: how a class is
    described must not depend on which others are asked for.
    """
    A, S = A.astype(np.float64), S.astype(np.float64)
    curvature, target = S @ S.T + penalty * np.eye(len(S)), A @ S.T
    rate = 1 / np.linalg.norm(curvature, 2)
    alpha = ahead = np.full(target.shape, 1 / len(S))
    for step in range(steps):  # Nesterov's acceleration
        previous, alpha = alpha, _onto_simplex(ahead - rate * (ahead @ curvature - target))
        ahead = alpha + step / (step + 3) * (alpha - previous)
    return alpha.astype(np.float32)


def _onto_simplex(points: np.ndarray) -> np.ndarray:
    """The nearest point with entries ≥ 0 that sum to one, for each row: all entries lose the same and stop at zero."""
    largest = -np.sort(-points, axis=1)
    loss = (largest.cumsum(axis=1) - 1) / np.arange(1, points.shape[1] + 1)
    kept = (largest > loss).sum(axis=1, keepdims=True)
    return np.maximum(points - np.take_along_axis(loss, kept - 1, axis=1), 0)
