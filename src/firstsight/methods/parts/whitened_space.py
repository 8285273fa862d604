"""A space in which classes are round: rows whitened by the scatter within classes, cut to the span of class means."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import cholesky, orth, solve_triangular

from firstsight.disk_rows import ChangedRows, blocks_of
from firstsight.methods.parts.moments import BLOCK, class_sums, gram

# Of the mean variance, added to each: with more dimensions than rows and no shrinkage there is a Cholesky factor, too.
FLOOR = 1e-4


@dataclass(frozen=True)
class Moments:
    """All that whitening needs of labelled rows: XᵀX (q, q), class sums (k, q), rows per class (k,)."""

    products: np.ndarray
    sums: np.ndarray
    counts: np.ndarray

    def within(self) -> np.ndarray:
        """The pooled covariance within classes (q, q)."""
        between = (self.sums / self.counts[:, None]).T @ self.sums
        return (self.products - between) / max(self.counts.sum() - len(self.counts), 1.0)

    def whitening(self, shrinkage: float) -> np.ndarray:
        """L⁻ᵀ (q, q) in float32, with LLᵀ = (1 − s) W + s (tr W/q) I: x L⁻ᵀ has unit scatter within classes."""
        W, size = self.within(), len(self.products)
        # One row per class, or copies of a row, have no scatter within: a trace of that of all rows stands in.
        total = np.trace(self.products) / self.counts.sum()
        level = max(np.trace(W), 1e-4 * total, 1e-12) / size
        L = cholesky((1 - shrinkage) * W + (shrinkage + FLOOR) * level * np.eye(size), lower=True)
        return solve_triangular(L, np.eye(size), lower=True).T.astype(np.float32)


def moments_of(rows: np.ndarray | ChangedRows, y: np.ndarray, k: int) -> Moments:
    """Read once, block by block."""
    q = rows.shape[1]
    products, sums = np.zeros((q, q)), np.zeros((k, q))
    for part, block in blocks_of(rows, BLOCK):
        products += gram(block)
        sums += class_sums(block, y[part], k)
    return Moments(products, sums, np.bincount(y, minlength=k).astype(np.float64))


@dataclass(frozen=True)
class HiddenLayer:
    """relu(x · inward + bias) · outward of rotated rows x."""

    inward: np.ndarray  # (q, h)
    bias: np.ndarray  # (h,)
    outward: np.ndarray  # (h, e)

    def units(self, rows: np.ndarray) -> np.ndarray:
        """(n, h) in float32."""
        return np.maximum(rows @ self.inward + self.bias, 0)


@dataclass(frozen=True)
class Space:
    """z = unit(x · whitening) · directions − offset, in units of the spread within classes; plus a hidden layer's z."""

    whitening: np.ndarray  # (q, q)
    directions: np.ndarray  # (q, e)
    offset: np.ndarray  # (e,)
    hidden: HiddenLayer | None = None

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """(n, e) in float32."""
        return self.places(self.read(rows))

    def read(self, rows: np.ndarray) -> np.ndarray:
        """What `places` is linear in (n, q + h): whitened rows of unit length and, behind them, the hidden units."""
        whitened = of_unit_length(rows @ self.whitening)
        return whitened if self.hidden is None else np.hstack([whitened, self.hidden.units(rows)])

    def places(self, read: np.ndarray) -> np.ndarray:
        """(n, e) of rows that `read` has seen, or of sums of them."""
        return read @ self.projection - self.offset

    @property
    def projection(self) -> np.ndarray:
        """(q + h, e): directions and, beneath them, what leads from the hidden units."""
        return self.directions if self.hidden is None else np.vstack([self.directions, self.hidden.outward])

    @cached_property
    def basis(self) -> np.ndarray:
        """(q, ·): orthonormal, of the span of the directions."""
        return orth(self.directions.astype(np.float64))

    def turned(self, T: np.ndarray) -> Space:
        """The space with every z replaced by zT, before there is a hidden layer."""
        return Space(self.whitening, self.directions @ T, self.offset @ T)

    def beside(self, layer: HiddenLayer, offset: np.ndarray, share: float, others: float) -> Space:
        """This z and, behind it, what leads from a hidden layer, less its offset; each times its share."""
        a, b, (h, more) = np.float32(share), np.float32(others), layer.outward.shape
        q, e = self.directions.shape
        hidden = replace(layer, outward=np.hstack([np.zeros((h, e), dtype=np.float32), b * layer.outward]))
        directions = np.hstack([a * self.directions, np.zeros((q, more), dtype=np.float32)])
        offset = np.concatenate([a * self.offset, b * offset]).astype(np.float32)
        return Space(self.whitening, directions, offset, hidden)

    def widened(self, more: np.ndarray, centre: np.ndarray) -> Space:
        """The space with more directions (q, w), about a whitened centre (q,); no hidden unit leads there."""
        hidden = self.hidden
        if hidden is not None:
            nothing = np.zeros((len(hidden.bias), more.shape[1]), dtype=np.float32)
            hidden = replace(hidden, outward=np.hstack([hidden.outward, nothing]))
        directions = np.hstack([self.directions, more]).astype(np.float32)
        offset = np.concatenate([self.offset, centre @ more]).astype(np.float32)
        return Space(self.whitening, directions, offset, hidden)


def of_unit_length(rows: np.ndarray) -> np.ndarray:
    """Each row divided by its length; whitened rows differ in length by how well they were taken, not by class."""
    length = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return rows / np.maximum(length, 1e-12)


def whitened_sums(rows: np.ndarray | ChangedRows, y: np.ndarray, k: int, whitening: np.ndarray) -> np.ndarray:
    """The sum over each class's rows (k, q) after whitening and unit length, block by block."""
    total = np.zeros((k, rows.shape[1]))
    for part, block in blocks_of(rows, BLOCK):
        total += class_sums(of_unit_length(block @ whitening), y[part], k)
    return total


def span_of_means(whitening: np.ndarray, sums: np.ndarray, counts: np.ndarray, more: np.ndarray | None = None) -> Space:
    """The space whose directions span the means of labelled classes (and `more` means (j, q)), all of them whitened.

    The offset is the mean of the labelled classes' means; the scale makes the variance within classes one. Rows have
    unit length, so Σ‖row − mean‖² = n − Σ n_c‖mean_c‖²: it needs no second look at them.
    """
    means = sums / counts[:, None]  # (k, q)
    both = means if more is None else np.vstack([means, more])
    U, size, _ = np.linalg.svd((both - both.mean(axis=0)).T, full_matrices=False)
    keep = max(1, int((size[: len(both) - 1] > 1e-6 * size[0]).sum()))  # classes with one mean still need a place
    squares = (means**2).sum(axis=1)
    within = (counts * (1 - squares)).sum() / max(counts.sum() - len(counts), 1.0) / len(whitening)
    between = (squares.mean() - (means.mean(axis=0) ** 2).sum()) / len(whitening)
    directions = U[:, :keep] / np.sqrt(max(within, 1e-3 * between, 1e-12))
    offset = means.mean(axis=0) @ directions
    return Space(whitening, directions.astype(np.float32), offset.astype(np.float32))
