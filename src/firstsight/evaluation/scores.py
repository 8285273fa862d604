"""Metrics of zero-shot learning: per-class accuracy, T1, ts, tr, H, and the seen-unseen curve."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from firstsight.data import ZeroShotDataset
from firstsight.evaluation.estimators import embedded, scores_of
from firstsight.evaluation.spaces import compactness_and_separability, space_facts

# The figures of zero-shot papers, computed here alone: mean per-class accuracy, T1, ts, tr and H, as fractions.

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


# The seen–unseen trade-off: what a constant taken off the seen classes' scores buys, and the area under it.
#
# Chao et al. (An Empirical Study and Analysis of Generalized Zero-Shot Learning, ECCV 2016) choose
# argmax_c F(x, c) − γ [c is seen]. From γ = −∞ to ∞, accuracy on unseen classes (ts) rises from zero and that on seen
# classes (tr) falls to zero; the area under the curve (ts, tr), AUSUC, judges a method without choosing a γ.
#
# Only two numbers of a row matter: the γ at which it changes sides, (best seen score) − (best unseen score), and
# whether the best class of its own side is the right one. So the exact curve costs one sort of the rows.


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


# What is measured of a fitted model in each setting, from its scores of the test rows.

CONFUSIONS = 200


def measure_conventional(model: Any, dataset: ZeroShotDataset) -> dict[str, Any]:
    """T1 and what belongs to it: rows of unseen classes, with only these as candidates."""
    classes = dataset.unseen_classes
    X, y = dataset.part("test_unseen")
    scores = scores_of(model, X, classes)
    predicted = np.array(classes)[scores.argmax(axis=1)]
    return {
        **_in_percent(figures(t1=(y, predicted)), "t1"),
        "confusion": _confusions(y, predicted),
        "space_facts": _facts(model, X, y, scores, _columns(y, classes)),
    }


def measure_generalized(model: Any, dataset: ZeroShotDataset) -> dict[str, Any]:
    """ts, tr and H, and under "trade_off" the whole curve that they are a point of."""
    classes = dataset.seen_classes + dataset.unseen_classes
    answers, rows, scores, columns = {}, {}, {}, {}
    for name, part in (("ts", "test_unseen"), ("tr", "test_seen")):
        X, y = dataset.part(part)
        rows[name], columns[name] = (X, y), _columns(y, classes)
        scores[name] = scores_of(model, X, classes)
        answers[name] = y, np.array(classes)[scores[name].argmax(axis=1)]
    is_seen = np.isin(classes, dataset.seen_classes)
    curve = trade_off(scores["ts"], columns["ts"], scores["tr"], columns["tr"], is_seen)
    X, y = (np.concatenate([rows["ts"][i], rows["tr"][i]]) for i in (0, 1))
    both = np.concatenate([scores["ts"], scores["tr"]]), np.concatenate([columns["ts"], columns["tr"]])
    return {
        **_in_percent(figures(**answers), "ts", "tr", "h"),
        "trade_off": curve,
        "space_facts": _facts(model, X, y, *both),
    }


MEASURES = {"zsl": measure_conventional, "gzsl": measure_generalized}


def _in_percent(fractions: Figures, *names: str) -> dict[str, Any]:
    per_class = {of: {name: percent(value) for name, value in own.items()} for of, own in fractions.per_class.items()}
    return {**{name: percent(getattr(fractions, name)) for name in names}, "per_class": per_class}


def _facts(model: Any, X: np.ndarray, y: np.ndarray, scores: np.ndarray, columns: np.ndarray) -> dict[str, Any]:
    facts: dict[str, Any] = space_facts(scores, columns)
    # Where the method shows its own space, that space, too.
    space = embedded(model, X)
    facts["embedding"] = None if space is None else compactness_and_separability(space, y)
    return facts


def _columns(y: np.ndarray, classes: list[str]) -> np.ndarray:
    position = {name: i for i, name in enumerate(classes)}
    return np.array([position[name] for name in y.tolist()], dtype=np.intp)


def _confusions(truth: np.ndarray, predicted: np.ndarray) -> list[list[Any]]:
    wrong = truth != predicted
    if not wrong.any():
        return []
    pairs, counts = np.unique(np.stack([truth[wrong], predicted[wrong]], axis=1), axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:CONFUSIONS]
    return [[*pairs[i].tolist(), int(counts[i])] for i in order]
