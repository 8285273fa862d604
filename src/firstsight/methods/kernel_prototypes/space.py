"""Feature space of the kernel prototypes: signed powers, rotation, whitening by within-class scatter.

With W the pooled covariance within the seen classes and V the leading eigenvectors of the covariance of all samples::

    x ← (sign(x)|x|^p / ‖·‖ − centre) V                    `Rotation`
    L Lᵀ = (1 − s) W + s (tr W / q) I                      `LabelledMoments.whitening`
    z = unit(x L⁻ᵀ) U / σ − offset                         `WhitenedSpace`

U spans the class means (after whitening and unit length), σ² is the variance within classes that is left. What is known
of labelled samples in such a space is, per class, how many there are and the sum of their features (`ClassStatistics`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import cholesky, eigh, orth, solve_triangular

from firstsight._io.disk_samples import ChangedSamples, blocks_of
from firstsight.methods._moments import BLOCK, class_sums, gram

# Rows whose powers are taken at once: they stay in the processor's cache. Without this it took ten times as long.
CACHED = 128
# Share of the mean variance added to each direction: without shrinkage and with more dimensions than samples, there is
# a Cholesky factor all the same.
FLOOR = 1e-4


def signed_power(X: np.ndarray, power: float) -> np.ndarray:
    """sign(x)|x|^power, each row divided by its length; a row of zeros stays zero. The precision is kept."""
    out = np.empty_like(X)
    for start in range(0, len(X), CACHED):
        rows, done = X[start : start + CACHED], out[start : start + CACHED]
        # Dividing by the largest entry first keeps squares of very large and very small numbers in range.
        size = np.abs(rows)
        largest = size.max(axis=1, keepdims=True)
        np.divide(rows, np.where(largest > 0, largest, 1), out=done)
        if power != 1.0:
            np.abs(done, out=size)
            np.copysign(np.sqrt(size) if power == 0.5 else size**power, done, out=done)
        length = np.sqrt(np.einsum("ij,ij->i", done, done))[:, None]
        done /= np.where(length > 0, length, 1)
    return out


def unit_length(rows: np.ndarray) -> np.ndarray:
    """Each row divided by its length: the length of a whitened row depends on the image's quality, not on its class."""
    length = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return rows / np.maximum(length, 1e-12)


@dataclass(frozen=True)
class Rotation:
    """x ← (signed_power(x) − centre) basis: PCA of the powered samples; a square basis is left out."""

    power: float
    centre: np.ndarray  # (d,)
    basis: np.ndarray | None  # (d, q)

    def __call__(self, X: np.ndarray | ChangedSamples) -> np.ndarray:
        """(n, q) in float32, block by block."""
        out = np.empty((len(X), self.dimensions), dtype=np.float32)
        for part, block in blocks_of(X, BLOCK):
            rows = signed_power(block, self.power).astype(np.float32, copy=False)
            if self.basis is None:
                np.subtract(rows, self.centre, out=out[part])
            else:
                rows -= self.centre
                np.matmul(rows, self.basis, out=out[part])
        return out

    @property
    def dimensions(self) -> int:
        """q."""
        return len(self.centre) if self.basis is None else self.basis.shape[1]

    def compose(self, matrix: np.ndarray) -> np.ndarray:
        """Basis times `matrix` (q, e): the (d, e) matrix that does the work of both."""
        return matrix if self.basis is None else self.basis @ matrix


def fit_rotation(X: np.ndarray | ChangedSamples, power: float, components: int) -> Rotation:
    """PCA from the sums and products of powered samples, which are read once, in blocks."""
    n, d = X.shape
    if components < d and n < d:
        return _rotation_of_few(np.vstack([block for _, block in blocks_of(X, BLOCK)]), power, components)
    products, total, near = np.zeros((d, d)), np.zeros(d), np.empty(0)
    for _, block in blocks_of(X, BLOCK):
        rows = signed_power(block, power)
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


def _rotation_of_few(X: np.ndarray, power: float, components: int) -> Rotation:
    """PCA of fewer samples than dimensions, from their n × n products, which take far less time than d × d ones.

    Directions across the span of the samples are drawn at random. Without them, other samples, which have parts there,
    would seem shorter than they are.
    """
    rows = signed_power(X, power).astype(np.float32, copy=False)
    centre = rows.mean(axis=0, dtype=np.float64).astype(np.float32)
    rows -= centre
    leading = eigh(rows @ rows.T, driver="evd")[1][:, : -components - 1 : -1]
    across = np.random.default_rng(0).normal(size=(rows.shape[1], components - leading.shape[1])).astype(np.float32)
    return Rotation(power, centre, np.linalg.qr(np.hstack([rows.T @ leading, across]))[0])


def refit_rotation(X: np.ndarray, rotation: Rotation) -> Rotation:
    """The rotation that `X`, a part of the samples of `rotation`, would give by itself, by one power step.

    Samples that a basis was fitted to keep more of themselves in it than samples of a class that it has not met. To
    estimate how the latter fare, the basis has to come from other samples; its span is then within that of `X`.
    """
    blocks = [
        signed_power(X[start : start + BLOCK], rotation.power).astype(np.float32, copy=False)
        for start in range(0, len(X), BLOCK)
    ]
    centre = (sum(rows.sum(axis=0, dtype=np.float64) for rows in blocks) / len(X)).astype(np.float32)
    if rotation.basis is None:
        return Rotation(rotation.power, centre, None)
    for rows in blocks:
        rows -= centre
    image = sum(rows.T @ (rows @ rotation.basis) for rows in blocks)
    return Rotation(rotation.power, centre, np.linalg.qr(image)[0])


@dataclass(frozen=True)
class LabelledMoments:
    """All that whitening needs of labelled samples: XᵀX (q, q), class sums (k, q) and class sizes (k,)."""

    products: np.ndarray
    sums: np.ndarray
    counts: np.ndarray

    def whitening(self, shrinkage: float) -> np.ndarray:
        """L⁻ᵀ (q, q) in float32, with LLᵀ = (1 − s) W + s (tr W/q) I: x L⁻ᵀ has unit scatter within classes."""
        between, size = (self.sums / self.counts[:, None]).T @ self.sums, len(self.products)
        W = (self.products - between) / max(self.counts.sum() - len(self.counts), 1.0)
        # One sample per class, or copies of a sample, have no scatter within: a trace of that of all samples stands in.
        total = np.trace(self.products) / self.counts.sum()
        level = max(np.trace(W), 1e-4 * total, 1e-12) / size
        L = cholesky((1 - shrinkage) * W + (shrinkage + FLOOR) * level * np.eye(size), lower=True)
        return solve_triangular(L, np.eye(size), lower=True).T.astype(np.float32)


def labelled_moments(rows: np.ndarray | ChangedSamples, y: np.ndarray, k: int) -> LabelledMoments:
    """The moments of rotated samples of k classes, read once, block by block."""
    q = rows.shape[1]
    products, sums = np.zeros((q, q)), np.zeros((k, q))
    for part, block in blocks_of(rows, BLOCK):
        products += gram(block)
        sums += class_sums(block, y[part], k)
    return LabelledMoments(products, sums, np.bincount(y, minlength=k).astype(np.float64))


@dataclass(frozen=True)
class HiddenLayer:
    """relu(x · inward + bias) · outward of rotated samples x."""

    inward: np.ndarray  # (q, h)
    bias: np.ndarray  # (h,)
    outward: np.ndarray  # (h, e)

    @classmethod
    def stacked(cls, layers: list[HiddenLayer]) -> HiddenLayer:
        """One layer with the units of all; their outward weights lead to the same columns."""
        inward, bias = np.hstack([layer.inward for layer in layers]), np.hstack([layer.bias for layer in layers])
        return cls(inward, bias, np.vstack([layer.outward for layer in layers]))

    def units(self, rows: np.ndarray) -> np.ndarray:
        """(n, h) in float32."""
        return np.maximum(rows @ self.inward + self.bias, 0)


@dataclass(frozen=True)
class WhitenedSpace:
    """z = unit(x · whitening) · directions − offset, in units of the spread within classes; plus a hidden layer's z."""

    whitening: np.ndarray  # (q, q)
    directions: np.ndarray  # (q, e)
    offset: np.ndarray  # (e,)
    hidden: HiddenLayer | None = None

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """z (n, e) of rotated samples, in float32."""
        return self.project(self.features(rows))

    def features(self, rows: np.ndarray) -> np.ndarray:
        """What z is linear in (n, q + h): whitened samples of unit length and, behind them, the hidden units."""
        whitened = unit_length(rows @ self.whitening)
        return whitened if self.hidden is None else np.hstack([whitened, self.hidden.units(rows)])

    def project(self, features: np.ndarray) -> np.ndarray:
        """z (n, e) of `features`."""
        return features @ self.projection - self.offset

    @property
    def projection(self) -> np.ndarray:
        """(q + h, e): directions and, beneath them, the outward weights of the hidden layer."""
        return self.directions if self.hidden is None else np.vstack([self.directions, self.hidden.outward])

    @cached_property
    def basis(self) -> np.ndarray:
        """(q, ·): orthonormal, of the span of the directions."""
        return orth(self.directions.astype(np.float64))

    def class_means(self, sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Means (k, e) of z in float64, from class sums (k, q + h) of features."""
        return sums / counts[:, None] @ self.projection.astype(np.float64) - self.offset

    def transformed(self, T: np.ndarray) -> WhitenedSpace:
        """The space of zT, before there is a hidden layer."""
        return WhitenedSpace(self.whitening, self.directions @ T, self.offset @ T)

    def joined(self, layer: HiddenLayer, offset: np.ndarray, share: float, layer_share: float) -> WhitenedSpace:
        """This z and, behind it, the z of a hidden layer with its offset; each times its share."""
        no_directions = np.zeros((len(self.directions), layer.outward.shape[1]), dtype=np.float32)
        return self.beside(WhitenedSpace(self.whitening, no_directions, offset, layer), share, layer_share)

    def beside(self, other: WhitenedSpace, share: float, other_share: float) -> WhitenedSpace:
        """This z and, behind it, that of another space with the same whitening; each times its share."""
        a, b = np.float32(share), np.float32(other_share)
        directions = np.hstack([a * self.directions, b * other.directions]).astype(np.float32)
        offset = np.concatenate([a * self.offset, b * other.offset]).astype(np.float32)
        e, more = self.directions.shape[1], other.directions.shape[1]
        layers = [
            replace(space.hidden, outward=np.pad(factor * space.hidden.outward, ((0, 0), columns)))
            for space, factor, columns in ((self, a, (0, more)), (other, b, (e, 0)))
            if space.hidden is not None
        ]
        hidden = HiddenLayer.stacked(layers) if layers else None
        return WhitenedSpace(self.whitening, directions, offset, hidden)

    def widened(self, more: np.ndarray, centre: np.ndarray) -> WhitenedSpace:
        """The space with more directions (q, w), about a whitened centre (q,); no hidden unit leads to these."""
        hidden = self.hidden
        if hidden is not None:
            zeros = np.zeros((len(hidden.bias), more.shape[1]), dtype=np.float32)
            hidden = replace(hidden, outward=np.hstack([hidden.outward, zeros]))
        directions = np.hstack([self.directions, more]).astype(np.float32)
        offset = np.concatenate([self.offset, centre @ more]).astype(np.float32)
        return WhitenedSpace(self.whitening, directions, offset, hidden)


def whitened_sums(rows: np.ndarray | ChangedSamples, y: np.ndarray, k: int, whitening: np.ndarray) -> np.ndarray:
    """Class sums (k, q) of rotated samples after whitening and unit length, block by block."""
    total = np.zeros((k, rows.shape[1]))
    for part, block in blocks_of(rows, BLOCK):
        total += class_sums(unit_length(block @ whitening), y[part], k)
    return total


def basis_of_span(means: np.ndarray) -> np.ndarray:
    """Orthonormal directions (q, e) of the differences between means (k, q), the longest first; at least one."""
    centred = np.asarray(means - means.mean(axis=0), dtype=np.float64)
    if len(means) > means.shape[1]:  # many times faster, and the directions are no less orthogonal
        squares, U = np.linalg.eigh(centred.T @ centred)
        U, size = U[:, ::-1], np.sqrt(np.maximum(squares[::-1], 0))
    else:
        U, size, _ = np.linalg.svd(centred.T, full_matrices=False)
    # Classes with equal means still need a direction.
    kept: np.ndarray = U[:, : max(1, int((size[: len(means) - 1] > 1e-6 * size[0]).sum()))]
    return kept


def span_of_means(
    whitening: np.ndarray, sums: np.ndarray, counts: np.ndarray, more: np.ndarray | None = None
) -> WhitenedSpace:
    """The space whose directions span the means of labelled classes (and `more` means (j, q)), all of them whitened.

    The offset is the mean of the labelled classes' means; the scale makes the variance within classes one. Samples have
    unit length, so Σ‖x − mean‖² = n − Σ n_c‖mean_c‖², and they need not be read again.
    """
    means = sums / counts[:, None]  # (k, q)
    both = means if more is None else np.vstack([means, more])
    basis = basis_of_span(both)
    squares = (means**2).sum(axis=1)
    within = (counts * (1 - squares)).sum() / max(counts.sum() - len(counts), 1.0) / len(whitening)
    between = (squares.mean() - (means.mean(axis=0) ** 2).sum()) / len(whitening)
    directions = basis / np.sqrt(max(within, 1e-3 * between, 1e-12))
    offset = means.mean(axis=0) @ directions
    return WhitenedSpace(whitening, directions.astype(np.float32), offset.astype(np.float32))


@dataclass(frozen=True)
class ClassStatistics:
    """What labelled samples say in a space: the mean and the size of each class."""

    space: WhitenedSpace
    means: np.ndarray  # (k, e)
    counts: np.ndarray  # (k,)
    centre: np.ndarray  # (q,): mean of the class means of whitened samples

    @property
    def scale(self) -> float:
        """One over the standard deviation within classes of whitened samples of unit length."""
        return float(np.linalg.norm(self.space.directions[:, 0]))


def class_statistics(
    rows: np.ndarray | ChangedSamples, y: np.ndarray, moments: LabelledMoments, shrinkage: float
) -> ClassStatistics:
    """Whiten labelled rotated samples; their moments are passed, because they serve every shrinkage."""
    whitening = moments.whitening(shrinkage)
    sums = whitened_sums(rows, y, len(moments.counts), whitening)
    space = span_of_means(whitening, sums, moments.counts)
    centre = (sums / moments.counts[:, None]).mean(axis=0)
    return ClassStatistics(space, space.class_means(sums, moments.counts), moments.counts, centre)
