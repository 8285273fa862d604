"""Sums over rows that closed forms need instead of the rows, and units that make parameters mean the same."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

# Rows turned into float64 at once: large enough for the matrix product, small beside the features.
BLOCK = 8192


def gram(X: np.ndarray) -> np.ndarray:
    """XᵀX (d, d) in float64, whatever the precision of `X`: what is inverted deserves every digit."""
    total = np.zeros((X.shape[1], X.shape[1]))
    for start in range(0, len(X), BLOCK):
        block = X[start : start + BLOCK].astype(np.float64)
        total += block.T @ block
    return total


def mean_eigenvalue(symmetric: np.ndarray) -> float:
    """tr(M)/d, the unit of a ridge penalty on M: it follows the number of rows and the length of what is summed."""
    return float(np.trace(symmetric)) / len(symmetric) or 1.0


def mean_square(X: np.ndarray) -> float:
    """Mean squared length of rows; 1 where all are zero, so that it can be divided by."""
    return float(np.einsum("ij,ij->", X, X, dtype=np.float64)) / len(X) or 1.0


def class_sums(X: np.ndarray, y: np.ndarray, n_classes: int) -> np.ndarray:
    """The sum of the rows of each class, YᵀX (k, d) in float64 with Y the one-hot codes."""
    total = np.zeros((n_classes, X.shape[1]))
    for start in range(0, len(X), BLOCK):
        block, codes = X[start : start + BLOCK].astype(np.float64), y[start : start + BLOCK]
        total += csr_array((np.ones(len(codes)), (codes, np.arange(len(codes)))), (n_classes, len(codes))) @ block
    return total
