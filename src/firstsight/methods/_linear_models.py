"""Linear classifiers with many outputs, and attribute patterns for DAP and IAP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.special import expit, softmax

from firstsight.methods._moments import gram, mean_eigenvalue

# A loss takes scores Z (n, m) and gives its sum over everything and its derivative (n, m).
Loss = Callable[[np.ndarray], tuple[float, np.ndarray]]


def fit_linear(X: np.ndarray, loss: Loss, n_outputs: int, penalty: float) -> tuple[np.ndarray, np.ndarray]:
    """W (d, m) and b (m,) that minimise  loss(XW + b)/n + α/2 ‖W‖²  by L-BFGS, all outputs together.

    `penalty` is α as a multiple of the mean variance of the features: stretched features leave scores as they are.
    The unknowns are rotated first. With X centred and LLᵀ = XᵀX/n + α·I, put W = L⁻ᵀU and Z = X L⁻ᵀ U: then
    α ‖W‖² = ‖U‖² − ‖Z‖²/n, so the same objective costs nothing more, and its curvature in U is close to that
    of a sphere however unequal the features are. Some tens of iterations do, of two matrix products each.
    """
    (n, d), mean = X.shape, X.mean(axis=0)
    rows = X - mean
    scatter = gram(rows) / n
    L = cholesky(scatter + penalty * mean_eigenvalue(scatter) * np.eye(d), lower=True)
    rotation = solve_triangular(L, np.eye(d), lower=True).T.astype(X.dtype)  # (d, d): L⁻ᵀ
    rows = rows @ rotation  # (n, d)

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        U, b = flat[:-n_outputs].reshape(d, n_outputs), flat[-n_outputs:]
        Z = rows @ U.astype(X.dtype)  # (n, m)
        value, slope = loss(Z + b.astype(X.dtype))
        # Sums in float64: a line search that meets rounding errors of its own objective wanders.
        value = value / n + (np.vdot(U, U) - np.square(Z).sum(dtype=np.float64) / n) / 2
        return value, np.vstack([rows.T @ (slope - Z) / n + U, slope.mean(axis=0, dtype=np.float64)]).ravel()

    start = np.zeros((d + 1) * n_outputs)
    # Weights that are more exact than this do not move an accuracy.
    options = {"maxiter": 200, "ftol": 1e-6, "gtol": 1e-5}
    best = minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x
    W = rotation @ best[:-n_outputs].reshape(d, n_outputs)
    return W.astype(X.dtype), (best[-n_outputs:] - mean @ W).astype(X.dtype)


def cross_entropy(y: np.ndarray) -> Loss:
    """−log softmax(z)_y for class codes y (n,)."""
    every_row = np.arange(len(y))

    def loss(Z):
        P = softmax(Z, axis=1)
        value = -np.log(np.maximum(P[every_row, y], np.finfo(P.dtype).tiny)).sum(dtype=np.float64)
        P[every_row, y] -= 1
        return value, P

    return loss


def logistic(signs: np.ndarray) -> Loss:
    """log(1 + exp(−tz)) for signs t (n, m) in {−1, 1}."""

    def loss(Z):
        M = signs * Z
        return np.logaddexp(0, -M).sum(dtype=np.float64), -signs * expit(-M)

    return loss


def squared_hinge(signs: np.ndarray) -> Loss:
    """max(0, 1 − tz)² for signs t (n, m) in {−1, 1}."""

    def loss(Z):
        short = np.maximum(0, 1 - signs * Z)
        return np.square(short).sum(dtype=np.float64), -2 * signs * short

    return loss


# Classes as binary attribute patterns (DAP, IAP)


def binarise(A: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """1 where an attribute of a class exceeds its threshold, else 0; (C, a) in the type of `A`."""
    return (thresholds < A).astype(A.dtype)


def pattern_scores(log_yes: np.ndarray, log_no: np.ndarray, priors: np.ndarray, patterns: np.ndarray) -> np.ndarray:
    """Σ_m log p(a_m^c|x) − log p(a_m^c)  (n, C).

    `log_yes`, `log_no (n, a)` are the log-probabilities that a sample has an attribute and that it has not, `priors
    (a,)` the share of seen classes that have it, `patterns (C, a)` the classes. An attribute that all seen classes
    share (or lack) has a prior of 1 or 0; it tells nothing and is left out.
    """
    useful = (priors > 0) & (priors < 1)
    yes = log_yes[:, useful] - np.log(priors[useful])
    no = log_no[:, useful] - np.log1p(-priors[useful])
    return (yes - no) @ patterns[:, useful].T + no.sum(axis=1, keepdims=True)


def export_pattern_scores(
    graph: Any, log_yes: str, log_no: str, priors: np.ndarray, A: str, thresholds: np.ndarray
) -> str:
    """`pattern_scores` of the binarised descriptions `A`, in an ONNX graph."""
    useful = np.flatnonzero((priors > 0) & (priors < 1))
    yes, no, A = (graph("Gather", value, graph.constant(useful, np.int64), axis=1) for value in (log_yes, log_no, A))
    yes = graph("Sub", yes, graph.constant(np.log(priors[useful])))
    no = graph("Sub", no, graph.constant(np.log1p(-priors[useful])))
    patterns = graph.single(graph("Greater", A, graph.constant(thresholds[useful])))
    return graph("Add", graph.products(graph("Sub", yes, no), patterns), graph.row_sums(no))
