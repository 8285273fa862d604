"""The figures of zero-shot papers, computed here alone: mean per-class accuracy, T1, ts, tr and H, as fractions."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

TITLES = {"t1": "T1", "ts": "ts", "tr": "tr", "h": "H"}
Pair = tuple[ArrayLike, ArrayLike]  # classes of rows, and what they were taken for


def per_class_accuracy(y_true: ArrayLike, y_pred: ArrayLike) -> dict[str, float]:
    """The share of each class's rows that were named right, by class."""
    truth, predicted = np.asarray(y_true), np.asarray(y_pred)
    classes, codes = np.unique(truth, return_inverse=True)
    right = np.bincount(codes, weights=truth == predicted, minlength=len(classes))
    return dict(zip(classes.tolist(), (right / np.bincount(codes)).tolist(), strict=True))


def mean_class_accuracy(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """The mean over classes of per-class accuracy: a class counts the same whether it has 10 rows or 1,000.

    >>> mean_class_accuracy(["ox", "ox", "ox", "okapi"], ["ox", "ox", "ox", "ox"])
    0.5
    """
    return _mean(per_class_accuracy(y_true, y_pred))


def harmonic_mean(ts: float, tr: float) -> float:
    """H = 2·ts·tr / (ts + tr), zero when both are."""
    return 2 * ts * tr / (ts + tr) if ts + tr else 0.0


@dataclass(frozen=True)
class Figures:
    """T1, ts, tr and H, None where they were not asked for, and the accuracies of single classes behind them."""

    t1: float | None = None  # unseen rows, unseen classes to choose from
    ts: float | None = None  # unseen rows, all classes
    tr: float | None = None  # test rows of seen classes, all classes
    h: float | None = None
    per_class: dict[str, dict[str, float]] = field(default_factory=dict, repr=False)  # "t1", "ts", "tr" → class → …


def figures(t1: Pair | None = None, ts: Pair | None = None, tr: Pair | None = None) -> Figures:
    """Every figure that these pairs (classes of rows, answers) decide; H needs `ts` and `tr`. No rows at all score 0.

    >>> figures(ts=(["okapi", "okapi"], ["okapi", "ox"]), tr=(["ox"], ["ox"])).h.__round__(4)
    0.6667
    """
    pairs = {name: pair for name, pair in (("t1", t1), ("ts", ts), ("tr", tr)) if pair is not None}
    per_class = {name: per_class_accuracy(*pair) for name, pair in pairs.items()}
    mean = {name: _mean(accuracies) for name, accuracies in per_class.items()}
    h = harmonic_mean(mean["ts"], mean["tr"]) if "ts" in mean and "tr" in mean else None
    return Figures(**mean, h=h, per_class=per_class)


def percent(fraction: float | None) -> float | None:
    """A fraction as records hold it: a percentage with two decimals."""
    return None if fraction is None else round(100 * float(fraction), 2)


def _mean(accuracies: dict[str, float]) -> float:
    return float(np.mean(list(accuracies.values()))) if accuracies else 0.0
