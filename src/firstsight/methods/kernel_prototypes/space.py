"""Feature space of the kernel prototypes: signed powers, rotation, whitening by within-class scatter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import cholesky, eigh, orth, solve_triangular

from firstsight._io.disk_samples import ChangedRows, blocks_of
from firstsight.methods._moments import BLOCK, class_sums, gram

# Rows as the kernel prototypes read them: a signed power, unit length, centred, turned to their leading directions.

# Rows whose powers are taken at once: they stay in the processor's cache. Without this it took ten times as long.
CACHED = 128


def powered(X: np.ndarray, power: float) -> np.ndarray:
    """sign(x)|x|^power, each row divided by its length; a row of zeros stays one. The precision is kept."""
    out = np.empty_like(X)
    for start in range(0, len(X), CACHED):
        rows, done = X[start : start + CACHED], out[start : start + CACHED]
        # Divided by the largest entry first: a row near either end of the range of numbers has a length, too.
        size = np.abs(rows)
        largest = size.max(axis=1, keepdims=True)
        np.divide(rows, np.where(largest > 0, largest, 1), out=done)
        if power != 1.0:
            np.abs(done, out=size)
            np.copysign(np.sqrt(size) if power == 0.5 else size**power, done, out=done)
        length = np.sqrt(np.einsum("ij,ij->i", done, done))[:, None]
        done /= np.where(length > 0, length, 1)
    return out


def _powered_floats(X: np.ndarray, power: float) -> np.ndarray:
    return powered(X, power).astype(np.float32, copy=False)


@dataclass(frozen=True)
class Rotation:
    """x ← (powered(x) − centre) basis: what PCA makes of the powered rows; the basis is left out if it is square."""

    power: float
    centre: np.ndarray  # (d,)
    basis: np.ndarray | None  # (d, q)

    def __call__(self, X: np.ndarray | ChangedRows) -> np.ndarray:
        """(n, q) in float32, block by block."""
        out = np.empty((len(X), self.dimensions), dtype=np.float32)
        for part, block in blocks_of(X, BLOCK):
            rows = _powered_floats(block, self.power)
            if self.basis is None:
                np.subtract(rows, self.centre, out=out[part])
            else:
                rows -= self.centre
                np.matmul(rows, self.basis, out=out[part])
        return out

    @property
    def dimensions(self) -> int:
        return len(self.centre) if self.basis is None else self.basis.shape[1]

    def followed_by(self, matrix: np.ndarray) -> np.ndarray:
        """The (d, e) matrix that takes centred powered rows through the basis and `matrix` (q, e) at once."""
        return matrix if self.basis is None else self.basis @ matrix


def as_learned_from(X: np.ndarray, rotation: Rotation) -> Rotation:
    """The rotation that `X` alone, some of the rows it was made of, would give: nearly, by a step of the power method.

    Rows that a basis was made of keep more of themselves in it than rows of a class that it has not met. Whoever wants
    to know how the latter fare must take the basis from other rows; its span is then within that of `X`.
    """
    kept = [_powered_floats(X[start : start + BLOCK], rotation.power) for start in range(0, len(X), BLOCK)]
    centre = (sum(rows.sum(axis=0, dtype=np.float64) for rows in kept) / len(X)).astype(np.float32)
    if rotation.basis is None:
        return Rotation(rotation.power, centre, None)
    for rows in kept:
        rows -= centre
    image = sum(rows.T @ (rows @ rotation.basis) for rows in kept)
    return Rotation(rotation.power, centre, np.linalg.qr(image)[0])


def leading_directions(parts: Sequence[np.ndarray | ChangedRows], power: float, components: int) -> Rotation:
    """The rotation of all rows of `parts` together, from their sums and products; rows are read once, in blocks."""
    blocks = (block for X in parts for _, block in blocks_of(X, BLOCK))
    d, n = parts[0].shape[1], sum(len(X) for X in parts)
    if components < d and n < d:
        return _directions_of_few(np.vstack(list(blocks)), power, components)
    products, total, near = np.zeros((d, d)), np.zeros(d), np.empty(0)
    for block in blocks:
        rows = powered(block, power)
        if not len(near):  # products of nearly centred rows keep their digits in float32
            near = rows.mean(axis=0).astype(np.float32)
        rows = rows.astype(np.float32, copy=False)
        rows -= near
        total += rows.sum(axis=0, dtype=np.float64)
        if components < d:
            products += rows.T @ rows
    offset = total / n
    centre = (near + offset).astype(np.float32)
    if components >= d:
        return Rotation(power, centre, None)
    products -= n * np.outer(offset, offset)
    basis = eigh(products.astype(np.float32), driver="evd")[1][:, -components:]
    return Rotation(power, centre, np.ascontiguousarray(basis))


def _directions_of_few(X: np.ndarray, power: float, components: int) -> Rotation:
    """With fewer rows than dimensions, their n × n products say the same as d × d ones, in far less time.

    Across the span of the rows any direction is as good as another. Some are drawn all the same: other rows have parts
    there, and would else seem shorter than they are.
    """
    rows = _powered_floats(X, power)
    centre = rows.mean(axis=0, dtype=np.float64).astype(np.float32)
    rows -= centre
    leading = eigh(rows @ rows.T, driver="evd")[1][:, : -components - 1 : -1]
    across = np.random.default_rng(0).normal(size=(rows.shape[1], components - leading.shape[1])).astype(np.float32)
    return Rotation(power, centre, np.linalg.qr(np.hstack([rows.T @ leading, across]))[0])


# A space in which classes are round: rows whitened by the scatter within classes, cut to the span of class means.

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
