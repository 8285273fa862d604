"""Rows as the kernel prototypes read them: a signed power, unit length, centred, turned to their leading directions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from firstsight.disk_rows import ChangedRows, blocks_of
from firstsight.methods.parts.moments import BLOCK

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
