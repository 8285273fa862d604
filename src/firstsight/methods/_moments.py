"""Sums over samples that closed forms need instead of the samples, and the base of the methods fitted from them."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from sklearn.utils.validation import column_or_1d, validate_data

from firstsight._io.disk_samples import DiskSamples
from firstsight.errors import BadInput
from firstsight.methods._validation import (
    Descriptions,
    attribute_names,
    check_finite,
    name_array,
    read_descriptions,
    validate_params,
)
from firstsight.methods.base import (
    ZeroShotClassifier,
    fit_in_range,
    fit_scaling,
    forget_former_fit,
    restored_on_error,
    scale,
)

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
    """tr(M)/d, the unit of a ridge penalty on M: it follows the number of samples and the length of what is summed."""
    return float(np.trace(symmetric)) / len(symmetric) or 1.0


def mean_square(X: np.ndarray) -> float:
    """Mean squared length of samples; 1 where all are zero, so that it can be divided by."""
    return float(np.einsum("ij,ij->", X, X, dtype=np.float64)) / len(X) or 1.0


def class_sums(X: np.ndarray, y: np.ndarray, n_classes: int) -> np.ndarray:
    """The sum of the samples of each class, YᵀX (k, d) in float64 with Y the one-hot codes."""
    total = np.zeros((n_classes, X.shape[1]))
    for start in range(0, len(X), BLOCK):
        block, codes = X[start : start + BLOCK].astype(np.float64), y[start : start + BLOCK]
        total += csr_array((np.ones(len(codes)), (codes, np.arange(len(codes)))), (n_classes, len(codes))) @ block
    return total


def class_scatter(X: np.ndarray, y: np.ndarray, means: np.ndarray) -> np.ndarray:
    """The sum of (x − μ_c)² over the samples of each class, (k, d) in float64."""
    total, means = np.zeros(means.shape), means.astype(X.dtype)
    for start in range(0, len(X), BLOCK):
        codes = y[start : start + BLOCK]
        total += class_sums((X[start : start + BLOCK] - means[codes]) ** 2, codes, len(means))
    return total


@dataclass(frozen=True)
class Moments:
    """What a closed form may know of n samples of k classes; of `gram` and `scatter`, what it has asked for."""

    counts: np.ndarray  # (k,)
    sums: np.ndarray  # (k, d)
    gram: np.ndarray | None  # (d, d): XᵀX
    scatter: np.ndarray | None  # (k, d): the squares about the mean of the class
    dtype: np.dtype  # of the rows

    @property
    def means(self) -> np.ndarray:
        return self.sums / self.counts[:, None]


def moments_in_memory(X: np.ndarray, y: np.ndarray, n_classes: int, needs: frozenset[str]) -> Moments:
    """The moments of samples in memory."""
    counts, sums = np.bincount(y, minlength=n_classes), class_sums(X, y, n_classes)
    scatter = class_scatter(X, y, sums / counts[:, None]) if "scatter" in needs else None
    return Moments(counts, sums, gram(X) if "gram" in needs else None, scatter, X.dtype)


class GatheredMoments:
    """The moments of samples that come in blocks, in any order, each seen once.

    Sums are of x − near, with `near` the mean of the first block: so that squares lose no digits to a large mean.
    """

    def __init__(self, n_classes: int, needs: frozenset[str]):
        self.n_classes, self.needs = n_classes, needs
        self.counts = np.zeros(n_classes, dtype=np.int64)
        self.near = np.empty(0)

    def add(self, X: np.ndarray, y: np.ndarray) -> None:
        """Take in samples and their codes."""
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
        for members in np.split(order, np.flatnonzero(np.diff(y[order])) + 1):
            for start in range(0, len(members), 256):
                rows = X[members[start : start + 256]] - self.near
                self.sums[y[members[0]]] += rows.sum(axis=0)
                self.squares[y[members[0]]] += np.einsum("ij,ij->j", rows, rows)

    def _add_together(self, X: np.ndarray, y: np.ndarray) -> None:
        rows = X - self.near
        of_class = csr_array((np.ones(len(y)), (y, np.arange(len(y)))), (self.n_classes, len(y)))
        self.sums += of_class @ rows
        if self.gram is not None:
            self.gram += rows.T @ rows
        if "scatter" in self.needs or self.gram is None:
            rows *= rows
            self.squares += of_class @ rows

    def scaling(self, dtype: Any) -> dict[str, np.ndarray]:
        """What `scale` needs for a "standard" scaling: mean and standard deviation of each feature over all samples."""
        n = self.counts.sum()
        offset = self.sums.sum(axis=0) / n
        squares = np.diag(self.gram) if self.gram is not None else self.squares.sum(axis=0)
        mean, spread = self.near + offset, np.sqrt(np.maximum(squares / n - offset**2, 0))
        spread[spread <= 1e-12 * np.abs(mean)] = 1.0  # a constant column, up to the rounding of its mean
        return {"offset": mean.astype(dtype), "spread": spread.astype(dtype)}

    def moments(self, offset: np.ndarray | float = 0.0, spread: np.ndarray | float = 1.0) -> Moments:
        """Of (x − offset)/spread, for the classes that have samples."""
        seen = self.counts > 0
        counts, sums = self.counts[seen], self.sums[seen]
        shift = self.near - offset  # from x − near to x − offset
        gram = self.gram
        if gram is not None:
            total = np.outer(sums.sum(axis=0), shift)
            gram = (gram + total + total.T + counts.sum() * np.outer(shift, shift)) / np.outer(spread, spread)
        scatter = None
        if "scatter" in self.needs:
            scatter = np.maximum(self.squares[seen] - sums**2 / counts[:, None], 0) / np.square(spread)
        return Moments(counts, (sums + counts[:, None] * shift) / spread, gram, scatter, self.dtype)


def fit_scaling_from_disk(kind: str | None, X: DiskSamples) -> dict[str, np.ndarray]:
    """As `fit_scaling`, in one pass over the disk."""
    if kind != "standard":
        return {}
    gathered = GatheredMoments(1, frozenset())
    for _, rows in X.blocks():
        gathered.add(rows, np.zeros(len(rows), dtype=np.int64))
    return gathered.scaling(X.dtype)


class MomentClassifier(ZeroShotClassifier):
    """Base of the closed forms: a subclass writes `_solve(moments, S)` and says which moments it needs.

    Samples in memory are scaled and summed as they are; of samples on the disk (`DiskSamples`), and of those that
    `partial_fit` is given, each is read once, and a "standard" scaling is applied to the sums.
    """

    reads_blocks = True
    needs: ClassVar[frozenset[str]] = frozenset()  # "gram", "scatter"
    _gathered: GatheredMoments  # of all calls of `partial_fit`; not saved

    def _solve(self, moments: Moments, S: np.ndarray) -> None:
        raise NotImplementedError

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        descriptions: Descriptions | None = None,
        *,
        classes: ArrayLike | None = None,
    ) -> Self:
        """Learn from more samples; after any number of calls the model is that of `fit` on all samples, up to rounding.

        Parameters
        ----------
        X : array (n, d)
            Features of the samples to add.
        y : array (n,)
            Their classes.
        descriptions : DataFrame indexed by class, or array whose row numbers are the labels
            Of every class that will ever have samples; of the first call, later ones may leave them out.
        classes : array, optional
            In the place of descriptions, for an ordinary classifier: the names; else those in the first `y`.

        Returns
        -------
        self
            A `fit` before is forgotten, and a saved model does not keep the sums.
        """
        with restored_on_error(self):
            validate_params(self)
            first = "_gathered" not in vars(self)
            rows: np.ndarray
            rows, labels = validate_data(self, X, y, dtype=list(self.dtypes), reset=first, ensure_all_finite=False)
            check_finite(rows, "X")
            if first:
                self._begin(descriptions, labels if classes is None else classes, rows.dtype)
            codes = self._codes_of(column_or_1d(labels))
            gathered = copy.deepcopy(self._gathered)  # a call that is rejected changes nothing
            gathered.add(self._of_unit_length(rows), codes)
            self._gathered = gathered
            seen = gathered.counts > 0
            self.seen_code_ = np.where(seen, np.cumsum(seen) - 1, -1)
            self.attribute_scaler_ = fit_scaling(self.attribute_scaling, self.descriptions_[seen])
            fit_in_range(self, gathered, np.flatnonzero(seen), self._scale_descriptions(self.descriptions_[seen]))
        return self

    def _fit(self, X, y, S):
        if isinstance(X, np.ndarray):
            self._solve(moments_in_memory(X, y, len(S), self.needs), S)
            return
        gathered = X
        if isinstance(X, DiskSamples):
            vars(self).pop("_gathered", None)
            gathered = GatheredMoments(len(S), self.needs)
            for part, rows in X.blocks():
                gathered.add(self._of_unit_length(rows), y[part])
        self.feature_scaler_ = gathered.scaling(gathered.dtype) if self.feature_scaling == "standard" else {}
        self._solve(gathered.moments(**self.feature_scaler_), S)

    def _of_unit_length(self, X: np.ndarray) -> np.ndarray:
        return scale("unit", {}, X) if self.feature_scaling == "unit" else X

    def _begin(self, descriptions: Any, classes: Any, dtype: Any) -> None:
        forget_former_fit(self)
        self.described_ = descriptions is not None
        if descriptions is None:
            self.classes_ = np.unique(np.asarray(classes))
            self.descriptions_ = np.eye(len(self.classes_), dtype=dtype)
        else:
            self.classes_, self.descriptions_ = read_descriptions(descriptions, dtype, "descriptions")
            if (names := attribute_names(descriptions)) is not None:
                self.attribute_names_in_ = name_array(names)
        self._gathered = GatheredMoments(len(self.classes_), self.needs)

    def _codes_of(self, y: np.ndarray) -> np.ndarray:
        codes = pd.Index(self.classes_).get_indexer(pd.Index(y))
        if (codes < 0).any():
            raise BadInput(
                f"`y` contains class {y[codes < 0].tolist()[0]!r}, which the first partial_fit did not get. Name "
                "every class there, also those whose rows come later."
            )
        return codes
