"""The figures of zero-shot papers: mean per-class accuracy and the harmonic mean, as fractions."""

from __future__ import annotations

import numpy as np


def per_class_accuracy(y_true, y_pred) -> dict:
    """The share of each class's rows that were named right, by class."""
    y_true, y_pred = np.asarray(y_true), np.asarray(y_pred)
    classes, codes = np.unique(y_true, return_inverse=True)
    right = np.bincount(codes, weights=y_true == y_pred, minlength=len(classes))
    return dict(zip(classes.tolist(), (right / np.bincount(codes)).tolist(), strict=True))


def mean_class_accuracy(y_true, y_pred) -> float:
    """The mean over classes of per-class accuracy: a class counts the same whether it has 10 rows or 1,000.

    >>> mean_class_accuracy(["ox", "ox", "ox", "okapi"], ["ox", "ox", "ox", "ox"])
    0.5
    """
    return float(np.mean(list(per_class_accuracy(y_true, y_pred).values())))


def harmonic_mean(ts: float, tr: float) -> float:
    """H = 2·ts·tr / (ts + tr), zero when both are."""
    return 2 * ts * tr / (ts + tr) if ts + tr else 0.0


def percent(fraction: float | None) -> float | None:
    """A fraction as records hold it: a percentage with two decimals."""
    return None if fraction is None else round(100 * float(fraction), 2)
