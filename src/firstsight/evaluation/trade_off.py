"""The seen–unseen trade-off: what a constant taken off the seen classes' scores buys, and the area under it.

Chao et al. (An Empirical Study and Analysis of Generalized Zero-Shot Learning, ECCV 2016) choose
argmax_c F(x, c) − γ [c is seen]. From γ = −∞ to ∞, accuracy on unseen classes (ts) rises from zero and that on seen
classes (tr) falls to zero; the area under the curve (ts, tr), AUSUC, judges a method without choosing a γ.

Only two numbers of a row matter: the γ at which it changes sides, (best seen score) − (best unseen score), and
whether the best class of its own side is the right one. So the exact curve costs one sort of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from firstsight.evaluation.metrics import harmonic_mean


@dataclass(frozen=True)
class TradeOff:
    """The exact curve; `constants` (m,) ascending, after each of which the point is (`ts`, `tr`) (m + 1 each)."""

    constants: np.ndarray
    ts: np.ndarray
    tr: np.ndarray

    @property
    def area(self) -> float:
        """AUSUC as a fraction of the unit square."""
        return float(np.trapezoid(self.tr, self.ts))

    @property
    def best_h(self) -> float:
        """The highest H on the curve, as a fraction: what the best constant gives on these very rows."""
        return max(harmonic_mean(ts, tr) for ts, tr in zip(self.ts, self.tr, strict=True))

    def at(self, constant: float) -> tuple[float, float]:
        """(ts, tr) when `constant` is taken off every seen score; a tie goes to the unseen class."""
        position = np.searchsorted(self.constants, constant, side="right")
        return float(self.ts[position]), float(self.tr[position])

    def points(self, at_most: int = 60) -> list[list[float]]:
        """The curve as [ts, tr] in percent, thinned evenly along its length; the method as it is stays on it."""
        length = np.r_[0, np.cumsum(np.hypot(np.diff(self.ts), np.diff(self.tr)))]
        keep = np.searchsorted(length, np.linspace(0, length[-1], at_most - 1))
        as_it_is = np.searchsorted(self.constants, 0.0, side="right")
        keep = np.unique(np.r_[keep[: at_most - 2], as_it_is, len(length) - 1])
        return [[round(100 * float(self.ts[i]), 2), round(100 * float(self.tr[i]), 2)] for i in keep]


def trade_off(
    unseen_scores: ArrayLike, unseen_truth: ArrayLike, seen_scores: ArrayLike, seen_truth: ArrayLike, is_seen: ArrayLike
) -> TradeOff:
    """The curve from scores (n, C) of test rows of unseen and of seen classes.

    `*_truth` are the columns of the right classes; `is_seen` (C,) tells which columns are seen classes.
    """
    seen = np.asarray(is_seen)
    of_unseen, right_unseen, _ = _sides(np.asarray(unseen_scores), np.asarray(unseen_truth), seen)
    of_seen, _, right_seen = _sides(np.asarray(seen_scores), np.asarray(seen_truth), seen)
    gain = right_unseen * _weights(unseen_truth)  # what ts wins when this row goes over to the unseen classes
    loss = right_seen * _weights(seen_truth)  # what tr loses
    changes = np.concatenate([of_unseen, of_seen])
    constants, where = np.unique(changes, return_inverse=True)
    n = len(of_unseen)
    ts = np.bincount(where[:n], weights=gain, minlength=len(constants)).cumsum()
    tr = loss.sum() - np.bincount(where[n:], weights=loss, minlength=len(constants)).cumsum()
    return TradeOff(constants, np.r_[0.0, ts], np.r_[loss.sum(), np.maximum(tr, 0)])


def best_constant(*curves: TradeOff) -> float:
    """The constant with the highest mean H over the curves; 0 if no constant makes any H.

    H changes where a row of some curve changes sides. Taken is the middle of the best stretch between two such changes,
    so that it is robust.
    """
    changes = np.unique(np.concatenate([curve.constants for curve in curves]))
    total = np.zeros(len(changes) + 1)  # of H before the first change, after it, …, after the last
    for curve in curves:
        h = np.array([harmonic_mean(ts, tr) for ts, tr in zip(curve.ts, curve.tr, strict=True)])
        total += h[np.r_[0, np.searchsorted(curve.constants, changes, side="right")]]
    if not total.any():
        return 0.0
    best = int(np.argmax(total))
    return float((changes[max(best - 1, 0)] + changes[min(best, len(changes) - 1)]) / 2)


def _sides(scores: np.ndarray, truth: np.ndarray, is_seen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The constant at which each row changes sides, and whether the best class of either side is right."""
    unseen = np.where(is_seen, -np.inf, scores)
    seen = np.where(is_seen, scores, -np.inf)
    change = seen.max(axis=1).astype(np.float64) - unseen.max(axis=1)
    return change, unseen.argmax(axis=1) == truth, seen.argmax(axis=1) == truth


def _weights(truth: ArrayLike) -> np.ndarray:
    """One share per row that makes a sum over rows a mean over classes of per-class means."""
    _, codes, counts = np.unique(truth, return_inverse=True, return_counts=True)
    return 1 / (counts[codes] * len(counts))
