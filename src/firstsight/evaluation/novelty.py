""" "None of these": detect samples that are far from all training samples.

A model ranks its classes for noise, too, and a score tells little of whether the row is anything like what it was
fitted on. So rows are compared with training rows, by direction and by length::

    z = (x / ‖x‖, log(‖x‖ / ℓ))        ℓ: the median length of training rows

and the distance of a row is ‖z − z′‖ to the tenth nearest of up to 1,000 training rows, the same share of every class.
(Deep nearest neighbours: Sun et al., "Out-of-distribution detection with deep nearest neighbors", ICML 2022.) There
is nothing to fit, so one row per class and more dimensions than rows will do, and the unit of the features does not
matter. `benchmarks/rejection.py` compares it with Mahalanobis' distance, the residual of a principal subspace and
energy. One near neighbour would trust every stray picture in the training set; ten do not.

What is near and what is far is measured on folds: rows of held-out classes, and held-out rows of the others, against
the fold's training rows. A row that is farther than all but FAR_SHARE of these is far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from pydantic import Field

from firstsight._io.schemas import Schema
from firstsight.data import ZeroShotDataset

SHARES = np.linspace(0, 1, 101)
NEIGHBOURS = 10
KEPT_ROWS = 1000  # twice as many change the third digit of the AUROC
BLOCK_ROWS = 1024  # of the table of distances that is held at a time
# New classes differ more than folds tell. At most 5 % of known rows are to be lost; on folds of folds of CUB, ANIMALS42
# and APASCAL, 1 % became up to 2.2 %, and 5 % up to 10 %.
FAR_SHARE = 0.01


class KnownDistances(Schema):
    """What is known of distances, but for the rows that they lead to."""

    length: float = Field(description="ℓ: the median length of training rows")
    distances: list[float] = Field(description="quantiles 0 %, 1 %, … 100 % of known rows' distances to training rows")


@dataclass(frozen=True, eq=False)
class NoveltyDetector:
    """Training rows to compare with, and the distances of known rows that were held out of training."""

    rows: np.ndarray = field(repr=False)  # (m, d + 1) z, float16: its rounding is far below any distance
    length: float  # ℓ
    distances: list[float]  # of known rows: quantiles 0 %, 1 %, … 100 %

    def to_json(self) -> dict[str, Any]:
        """Everything but `rows`: a `KnownDistances`."""
        return {"length": self.length, "distances": self.distances}

    def distance(self, X: Any, added: np.ndarray | None = None) -> np.ndarray:
        """Distance (n,) of each row to its tenth nearest training row or, if that is nearer, to the nearest of `added`.

        Those are samples that a person has labelled after training (m, d): each of them is trusted by itself.
        """
        kept, squares = self._whole_rows
        # Of six rows the tenth nearest, or the farthest, would say little.
        nearest = self._nearest(X, kept, squares, min(NEIGHBOURS, 1 + len(kept) // 4))
        if added is None or not len(added):
            return nearest
        z = _directions(added, self.length)
        lower: np.ndarray = np.minimum(nearest, self._nearest(X, z, (z**2).sum(axis=1), 1))
        return lower

    def _nearest(self, X: Any, kept: np.ndarray, squares: np.ndarray, k: int) -> np.ndarray:
        squared = np.empty(len(X))
        for start in range(0, len(X), BLOCK_ROWS):
            z = _directions(X[start : start + BLOCK_ROWS], self.length)
            apart = (z**2).sum(axis=1)[:, None] + squares - 2 * z @ kept.T  # (block, m)
            squared[start : start + BLOCK_ROWS] = np.partition(apart, k - 1, axis=1)[:, k - 1]
        distance: np.ndarray = np.sqrt(np.maximum(squared, 0))
        return distance

    @cached_property
    def _whole_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows as float32, and their squared lengths: for one picture, this would take longer than the rest."""
        kept = self.rows.astype(np.float32)
        return kept, (kept**2).sum(axis=1)

    def share_nearer(self, distance: np.ndarray) -> np.ndarray:
        """The share (n,) of known rows that are nearer than this."""
        return np.searchsorted(self.distances, distance) / len(self.distances)

    def far(self, distance: np.ndarray) -> np.ndarray:
        """Whether each row (n,) looks like nothing that training has seen."""
        return distance > self._at(1 - FAR_SHARE)

    def confidence_factor(self, distance: np.ndarray) -> np.ndarray:
        """Return what confidence is multiplied by (n,): 1 up to where "far" begins, and less the farther a sample is.

        Predictions of farther known samples were no worse than others. Beyond the border, the factor falls as known
        samples get rarer, if they continue as from the last 5 % to the last 1 %.
        """
        border = self._at(1 - FAR_SHARE)
        tail = max(border - self._at(1 - 5 * FAR_SHARE), 1e-6)
        return 5.0 ** np.minimum(0, (border - distance) / tail)

    def _at(self, share: float) -> float:
        return float(np.interp(share, SHARES, self.distances))


def fit_novelty_detector(dataset: ZeroShotDataset, folds: Sequence[ZeroShotDataset]) -> NoveltyDetector:
    """Keep training samples of `dataset`; measure on its folds how far known samples may be from them."""
    apart: dict[str, list[np.ndarray]] = {"test_unseen": [], "test_seen": []}
    for fold in folds:
        detector = NoveltyDetector(*_kept(fold), distances=[])
        for part, distances in apart.items():
            distances.append(detector.distance(fold.part(part)[0]))
    # The worse of the two, so that neither new classes nor new rows of seen ones lose more than they should.
    known = [np.quantile(np.concatenate(distances), SHARES) for distances in apart.values() if any(map(len, distances))]
    return NoveltyDetector(*_kept(dataset), distances=np.max(known, axis=0).tolist())


def _kept(dataset: ZeroShotDataset) -> tuple[np.ndarray, float]:
    """z of up to KEPT_ROWS training rows, evenly from all classes, and ℓ."""
    by_class = dataset.train[np.argsort(dataset.labels[dataset.train], kind="stable")]
    X = dataset.features[by_class[np.unique(np.linspace(0, len(by_class) - 1, KEPT_ROWS).astype(int))]]
    length = float(np.median(_lengths(X))) or 1.0
    return _directions(X, length).astype(np.float16), length


def _lengths(X: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # beyond 1e154 a length is infinite, which is far enough
        lengths: np.ndarray = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))
        return lengths


def _directions(X: Any, length: float) -> np.ndarray:
    """z (n, d + 1) as float32; a row of zeros has no direction and a tiny length."""
    X = np.asarray(X)
    lengths = np.maximum(_lengths(X), 1e-6 * length)
    return np.column_stack([X / lengths[:, None], np.log(np.minimum(lengths / length, 1e6))]).astype(np.float32)
