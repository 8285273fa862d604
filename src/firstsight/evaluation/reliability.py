"""How far confidence can be trusted: the reliability curve and the expected calibration error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

BINS = 15


@dataclass(frozen=True)
class Reliability:
    """Equal-width bins of confidence: how many rows, how confident, how often right (NaN in an empty bin)."""

    share: np.ndarray  # (bins,) sums to one
    confidence: np.ndarray  # (bins,) mean
    accuracy: np.ndarray  # (bins,)

    @property
    def ece(self) -> float:
        """Expected calibration error: mean over rows of |accuracy − confidence| of the row's bin."""
        return float(np.nansum(self.share * np.abs(self.accuracy - self.confidence)))


def reliability(
    confidence: ArrayLike, right: ArrayLike, weights: ArrayLike | None = None, bins: int = BINS
) -> Reliability:
    """Bins of rows by the confidence (n,) of their answer; `right (n,)` says whether the answer was.

    >>> reliability([0.9, 0.9, 0.9, 0.9], [True, True, True, False]).ece.__round__(6)
    0.15
    """
    confidence, right = np.asarray(confidence, dtype=np.float64), np.asarray(right, dtype=np.float64)
    weights = np.ones(len(confidence)) if weights is None else np.asarray(weights, dtype=np.float64)
    which = np.clip((confidence * bins).astype(int), 0, bins - 1)
    total = np.bincount(which, weights=weights, minlength=bins)
    with np.errstate(invalid="ignore"):
        mean_confidence, accuracy = (
            np.bincount(which, weights=weights * values, minlength=bins) / total for values in (confidence, right)
        )
    return Reliability(total / total.sum(), mean_confidence, accuracy)


def expected_calibration_error(confidence: ArrayLike, right: ArrayLike, bins: int = BINS) -> float:
    """ECE over `bins` equal-width bins, as a fraction."""
    return reliability(confidence, right, bins=bins).ece
