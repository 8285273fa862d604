"""Sums over rows that closed forms need instead of the rows, and units that make parameters mean the same."""

from __future__ import annotations

from dataclasses import dataclass

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


def class_scatter(X: np.ndarray, y: np.ndarray, means: np.ndarray) -> np.ndarray:
    """The sum of (x − μ_c)² over the rows of each class, (k, d) in float64."""
    total, means = np.zeros(means.shape), means.astype(X.dtype)
    for start in range(0, len(X), BLOCK):
        codes = y[start : start + BLOCK]
        total += class_sums((X[start : start + BLOCK] - means[codes]) ** 2, codes, len(means))
    return total


@dataclass(frozen=True)
class Moments:
    """What a closed form may know of n rows of k classes; of `gram` and `scatter`, what it has asked for."""

    counts: np.ndarray  # (k,)
    sums: np.ndarray  # (k, d)
    gram: np.ndarray | None  # (d, d): XᵀX
    scatter: np.ndarray | None  # (k, d): the squares about the mean of the class
    dtype: np.dtype  # of the rows

    @property
    def means(self) -> np.ndarray:
        return self.sums / self.counts[:, None]


def moments_in_memory(X: np.ndarray, y: np.ndarray, n_classes: int, needs: frozenset[str]) -> Moments:
    """The moments of rows in memory."""
    counts, sums = np.bincount(y, minlength=n_classes), class_sums(X, y, n_classes)
    scatter = class_scatter(X, y, sums / counts[:, None]) if "scatter" in needs else None
    return Moments(counts, sums, gram(X) if "gram" in needs else None, scatter, X.dtype)


class GatheredMoments:
    """The moments of rows that come in blocks, in any order, each seen once.

    Sums are of x − near, with `near` the mean of the first block: so that squares lose no digits to a large mean.
    """

    def __init__(self, n_classes: int, needs: frozenset[str]):
        self.n_classes, self.needs = n_classes, needs
        self.counts = np.zeros(n_classes, dtype=np.int64)
        self.near = np.empty(0)

    def add(self, X: np.ndarray, y: np.ndarray) -> None:
        """Take in rows and their codes."""
        if not len(self.near):
            d = X.shape[1]
            self.near, self.dtype = X.mean(axis=0, dtype=np.float64), X.dtype
            self.sums, self.squares = np.zeros((self.n_classes, d)), np.zeros((self.n_classes, d))
            self.gram = np.zeros((d, d)) if "gram" in self.needs else None
        self.counts += np.bincount(y, minlength=self.n_classes)
        for start in range(0, len(X), BLOCK):
            rows, codes = X[start : start + BLOCK], y[start : start + BLOCK]
            # Without the large matrix product, memory is what takes time: so rows of a class are read together, few
            # enough to stay in the cache. One by one, that would be slower than the sums.
            if self.gram is None and len(codes) >= 16 * len(np.unique(codes)):
                self._add_by_class(rows, codes)
            else:
                self._add_together(rows, codes)

    def _add_by_class(self, X: np.ndarray, y: np.ndarray) -> None:
        order = np.argsort(y, kind="stable")
        for places in np.split(order, np.flatnonzero(np.diff(y[order])) + 1):
            for start in range(0, len(places), 256):
                rows = X[places[start : start + 256]] - self.near
                self.sums[y[places[0]]] += rows.sum(axis=0)
                self.squares[y[places[0]]] += np.einsum("ij,ij->j", rows, rows)

    def _add_together(self, X: np.ndarray, y: np.ndarray) -> None:
        rows = X - self.near
        of_class = csr_array((np.ones(len(y)), (y, np.arange(len(y)))), (self.n_classes, len(y)))
        self.sums += of_class @ rows
        if self.gram is not None:
            self.gram += rows.T @ rows
        if "scatter" in self.needs or self.gram is None:
            rows *= rows
            self.squares += of_class @ rows

    def spread(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of each feature over all rows."""
        n = self.counts.sum()
        offset = self.sums.sum(axis=0) / n
        squares = np.diag(self.gram) if self.gram is not None else self.squares.sum(axis=0)
        return self.near + offset, np.sqrt(np.maximum(squares / n - offset**2, 0))

    def moments(self, offset: np.ndarray | float, spread: np.ndarray | float) -> Moments:
        """Of (x − offset)/spread, for the classes that have rows."""
        there = self.counts > 0
        counts, sums = self.counts[there], self.sums[there]
        shift = self.near - offset  # from x − near to x − offset
        gram = self.gram
        if gram is not None:
            total = np.outer(sums.sum(axis=0), shift)
            gram = (gram + total + total.T + counts.sum() * np.outer(shift, shift)) / np.outer(spread, spread)
        scatter = None
        if "scatter" in self.needs:
            scatter = np.maximum(self.squares[there] - sums**2 / counts[:, None], 0) / np.square(spread)
        return Moments(counts, (sums + counts[:, None] * shift) / spread, gram, scatter, self.dtype)
