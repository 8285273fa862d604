"""Scores of a task's test samples, and every metric that follows from them: T1, ts, tr, H, the seen–unseen trade-off.

A fitted model scores a task: `firstsight.evaluation.protocol.score_task` makes a `TaskScores`, and evaluation,
calibration, records, reports and the service are views of it. Accuracies are means over classes of per-class accuracy,
as fractions::

    T1    samples of unseen classes, these classes as candidates
    ts    samples of unseen classes, all classes as candidates
    tr    samples of seen classes, all classes as candidates
    H     2·ts·tr / (ts + tr)

The trade-off: calibrated stacking (Chao et al., "An empirical study and analysis of generalized zero-shot learning",
ECCV 2016) takes a constant γ off the scores of seen classes. From γ = −∞ to ∞, ts rises from zero and tr falls to zero;
the area under the curve (ts, tr), AUSUC, measures a method without choosing a γ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

TITLES = {"t1": "T1", "ts": "ts", "tr": "tr", "h": "H"}
METRICS = {"zsl": ("t1",), "gzsl": ("ts", "tr", "h")}  # by setting
SETTINGS = tuple(METRICS)
CONFUSIONS = 200


def count_confusions(truth: ArrayLike, predicted: ArrayLike) -> list[list[Any]]:
    """Return [class, predicted class, count] of wrong predictions (n,), the most frequent first, ties by name."""
    truth, predicted = np.asarray(truth), np.asarray(predicted)
    wrong = truth != predicted
    if not wrong.any():
        return []
    pairs, counts = np.unique(np.stack([truth[wrong], predicted[wrong]], axis=1), axis=0, return_counts=True)
    return [[*pairs[i].tolist(), int(counts[i])] for i in np.argsort(-counts, kind="stable")]


def per_class_accuracy(y_true: ArrayLike, y_pred: ArrayLike) -> dict[Any, float]:
    """Share of each class's samples that were named right, by class."""
    truth, predicted = np.asarray(y_true), np.asarray(y_pred)
    classes, codes = np.unique(truth, return_inverse=True)
    right = np.bincount(codes, weights=truth == predicted, minlength=len(classes))
    return dict(zip(classes.tolist(), (right / np.bincount(codes)).tolist(), strict=True))


def mean_class_accuracy(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Mean over classes of per-class accuracy: a class counts the same whether it has 10 samples or 1,000.

    >>> mean_class_accuracy(["ox", "ox", "ox", "okapi"], ["ox", "ox", "ox", "ox"])
    0.5
    """
    return _mean(per_class_accuracy(y_true, y_pred))


@overload
def harmonic_mean(ts: float, tr: float) -> float: ...
@overload
def harmonic_mean(ts: np.ndarray, tr: np.ndarray) -> np.ndarray: ...
def harmonic_mean(ts: float | np.ndarray, tr: float | np.ndarray) -> float | np.ndarray:
    """H = 2·ts·tr / (ts + tr), zero where both are; of two numbers or of two arrays."""
    h = 2 * ts * tr / np.maximum(ts + tr, 1e-12)
    return h if isinstance(h, np.ndarray) else float(h)


def percent(fraction: float | None) -> float | None:
    """Return a fraction as records hold it: a percentage with two decimals."""
    return None if fraction is None else round(100 * float(fraction), 2)


@dataclass(frozen=True, eq=False)
class TaskScores:
    """Scores of test samples for candidate classes, seen classes in the first columns, and all that follows from them.

    >>> task = TaskScores(np.array([[0.9, 0.2, 0.1], [0.6, 0.5, 0.3], [0.1, 0.2, 0.7]]), np.array([0, 1, 2]), n_seen=1)
    >>> task.t1, task.ts, task.tr, round(task.h, 2)
    (1.0, 0.5, 1.0, 0.67)
    >>> task.shifted(0.2).ts
    1.0

    Attributes
    ----------
    scores : array (n, k)
        Higher is better; of equal scores the first column wins.
    codes : array (n,)
        The column of each sample's class.
    n_seen : int
        How many columns are seen classes: the first ones. The others are unseen classes.
    classes : sequence, optional
        The names of the columns; their numbers if left out.
    """

    scores: np.ndarray = field(repr=False)
    codes: np.ndarray = field(repr=False)
    n_seen: int
    classes: Sequence[Any] | None = field(default=None, repr=False)

    @property
    def labels(self) -> np.ndarray:
        """The class (n,) of each sample, by name."""
        return self._names(self.codes)

    @property
    def seen_samples(self) -> np.ndarray:
        """Whether each sample (n,) is of a seen class."""
        return np.asarray(self.codes < self.n_seen)

    @cached_property
    def predictions(self) -> np.ndarray:
        """The column (n,) of each sample's best candidate."""
        return np.asarray(self.scores.argmax(axis=1))

    @property
    def right(self) -> int:
        """How many samples have their class as the best candidate."""
        return int((self.predictions == self.codes).sum())

    @property
    def t1(self) -> float | None:
        """Accuracy on samples of unseen classes among unseen classes; None without such samples."""
        return self._accuracy("t1")

    @property
    def ts(self) -> float | None:
        """Accuracy on samples of unseen classes among all classes; None without such samples."""
        return self._accuracy("ts")

    @property
    def tr(self) -> float | None:
        """Accuracy on samples of seen classes among all classes; None without such samples."""
        return self._accuracy("tr")

    @property
    def h(self) -> float | None:
        """Harmonic mean of ts and tr; None without samples of both kinds."""
        ts, tr = self.ts, self.tr
        return None if ts is None or tr is None else harmonic_mean(ts, tr)

    def metrics(self, setting: str) -> dict[str, float | None]:
        """Return the metrics of a setting by name: t1 in "zsl"; ts, tr and h in "gzsl"."""
        return {name: getattr(self, name) for name in METRICS[setting]}

    def per_class(self, metric: str) -> dict[Any, float]:
        """Return the accuracy of each class behind "t1", "ts" or "tr", by name, of classes with samples."""
        samples = self.seen_samples if metric == "tr" else ~self.seen_samples
        predicted = self._best_unseen[0] if metric == "t1" else self.predictions
        return per_class_accuracy(self._names(self.codes[samples]), self._names(predicted[samples]))

    def confusions(self, most: int | None = CONFUSIONS) -> list[list[Any]]:
        """Return [class, predicted class, count] of wrong predictions, the most frequent first."""
        return count_confusions(self._names(self.codes), self._names(self.predictions))[:most]

    def among(self, seen: bool) -> TaskScores:
        """Return the scores of the samples of seen (or unseen) classes with only these classes as candidates."""
        samples, columns = self.seen_samples == seen, self._columns(seen)
        classes = None if self.classes is None else self.classes[columns]
        n_seen = self.n_seen if seen else 0
        return TaskScores(self.scores[samples, columns], self.codes[samples] - columns.start, n_seen, classes)

    def shifted(self, constant: float) -> TaskScores:
        """Return the task with a constant taken off the scores of seen classes."""
        scores = self.scores.copy()
        scores[:, : self.n_seen] -= constant
        return replace(self, scores=scores)

    @cached_property
    def curve(self) -> TradeOff:
        """The exact trade-off: every constant at which a prediction changes."""
        return self.trade_off(np.unique(self._switch))

    def trade_off(self, constants: np.ndarray) -> TradeOff:
        """Compute ts and tr for each of these ascending constants; a tie goes to the unseen class.

        Only two things of a sample matter: the constant at which its prediction becomes an unseen class, and whether
        the best class of its own kind is right. So nothing is scored again, however many constants there are.
        """
        seen = self.seen_samples
        step = np.searchsorted(constants, self._switch)  # the first constant that makes it an unseen class
        steps = len(constants) + 1
        gain = balanced_weights(self.codes[~seen]) * (self._best_unseen[0] == self.codes)[~seen]
        loss = balanced_weights(self.codes[seen]) * (self._best_seen[0] == self.codes)[seen]
        ts = np.bincount(step[~seen], weights=gain, minlength=steps)[:-1].cumsum()
        tr = loss.sum() - np.bincount(step[seen], weights=loss, minlength=steps)[:-1].cumsum()
        return TradeOff(constants, np.r_[0.0, ts], np.r_[loss.sum(), np.maximum(tr, 0)])

    @cached_property
    def _best_seen(self) -> tuple[np.ndarray, np.ndarray]:
        return self._best(self._columns(True))

    @cached_property
    def _best_unseen(self) -> tuple[np.ndarray, np.ndarray]:
        return self._best(self._columns(False))

    @property
    def _switch(self) -> np.ndarray:
        """The constant (n,) at which each sample's best unseen class is as good as its best seen class."""
        return np.asarray(self._best_seen[1].astype(np.float64) - self._best_unseen[1])

    def _columns(self, seen: bool) -> slice:
        return slice(0, self.n_seen) if seen else slice(self.n_seen, self.scores.shape[1])

    def _best(self, columns: slice) -> tuple[np.ndarray, np.ndarray]:
        """Column and score of each sample's best candidate among some; −1 and −∞ if there are none."""
        scores = self.scores[:, columns]
        if not scores.shape[1]:
            return np.full(len(scores), -1), np.full(len(scores), -np.inf)
        best = scores.argmax(axis=1)
        return columns.start + best, scores[np.arange(len(scores)), best]

    def _accuracy(self, metric: str) -> float | None:
        accuracies = self.per_class(metric)
        return _mean(accuracies) if accuracies else None

    def _names(self, codes: np.ndarray) -> np.ndarray:
        return codes if self.classes is None else np.asarray(self.classes)[codes]


@dataclass(frozen=True, eq=False)
class TradeOff:
    """ts and tr before the first constant, and from each constant on (m + 1 each); `constants` (m,) ascend."""

    constants: np.ndarray
    ts: np.ndarray
    tr: np.ndarray

    @property
    def h(self) -> np.ndarray:
        """H (m + 1,) along the curve."""
        return harmonic_mean(self.ts, self.tr)

    @property
    def best_h(self) -> float:
        """The highest H on the curve: what the best constant gives on these very samples."""
        return float(self.h.max())

    @property
    def area(self) -> float:
        """AUSUC as a fraction of the unit square."""
        return float(np.trapezoid(self.tr, self.ts))

    def at(self, constant: float) -> tuple[float, float]:
        """Return (ts, tr) when `constant` is taken off every seen score; a tie goes to the unseen class."""
        position = np.searchsorted(self.constants, constant, side="right")
        return float(self.ts[position]), float(self.tr[position])

    def points(self, at_most: int = 60) -> list[list[float]]:
        """Return [ts, tr] in percent, thinned evenly along the curve's length; the method without a constant stays."""
        length = np.r_[0, np.cumsum(np.hypot(np.diff(self.ts), np.diff(self.tr)))]
        keep = np.searchsorted(length, np.linspace(0, length[-1], at_most - 1))
        as_it_is = np.searchsorted(self.constants, 0.0, side="right")
        keep = np.unique(np.r_[keep[: at_most - 2], as_it_is, len(length) - 1])
        return [[round(100 * float(self.ts[i]), 2), round(100 * float(self.tr[i]), 2)] for i in keep]


def best_constant(*tasks: TaskScores) -> float:
    """Choose the constant with the highest mean H over the tasks; 0 if no constant makes any H.

    H changes where a prediction of some task changes. The choice is the middle of the best stretch between two such
    changes, so that it is robust.
    """
    curves = [task.curve for task in tasks]
    changes = np.unique(np.concatenate([curve.constants for curve in curves]))
    total = np.zeros(len(changes) + 1)  # of H before the first change, after it, …, after the last
    for curve in curves:
        total += curve.h[np.r_[0, np.searchsorted(curve.constants, changes, side="right")]]
    if not total.any():
        return 0.0
    best = int(np.argmax(total))
    return float((changes[max(best - 1, 0)] + changes[min(best, len(changes) - 1)]) / 2)


def balanced_weights(codes: np.ndarray) -> np.ndarray:
    """Return a weight per sample that makes a sum over samples the mean over classes of per-class means."""
    _, positions, counts = np.unique(codes, return_inverse=True, return_counts=True)
    return np.asarray(1 / (counts[positions] * len(counts)))


def _mean(accuracies: dict[Any, float]) -> float:
    return float(np.mean(list(accuracies.values()))) if accuracies else 0.0
