"""Few-shot cells: which samples of unseen classes are labelled in a draw, and two baselines that learn from labels."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

from firstsight.data import ZeroShotDataset
from firstsight.errors import BadInput

DRAWS = 5


def check_shots(shots: Sequence[int], datasets: Sequence[ZeroShotDataset]) -> tuple[int, ...]:
    """Return the numbers of labelled samples per unseen class in ascending order, if every data set has as many."""
    given: list[Any] = list(shots) if isinstance(shots, list | tuple | range) else [shots]
    if not given or not all(isinstance(k, int) and not isinstance(k, bool) and k >= 0 for k in given):
        raise BadInput(
            f"`shots` must list whole numbers of samples per unseen class, such as [0, 1, 5]; got {shots!r}."
        )
    most = max(given)
    if most == 0:
        raise BadInput("`shots` asks for no labelled samples at all; add a number above 0, or leave `shots` out.")
    for dataset in datasets:
        names, counts = np.unique(dataset.labels[dataset.test_unseen], return_counts=True)
        if not len(names):
            raise BadInput(f"{dataset.name} has no unseen classes, so there is no class to label samples of.")
        fewest = int(counts.argmin())
        if counts[fewest] <= most:
            raise BadInput(
                f"{most} samples per class were asked for, and at least one more to test on; but the class "
                f"{dataset.class_names[names[fewest]]!r} of {dataset.name} has {counts[fewest]} test samples: ask for "
                f"at most {counts[fewest] - 1}."
            )
    return tuple(sorted(set(given)))


class FewShotSplit(NamedTuple):
    """The samples that a draw labels, and what is left to test on."""

    drawn: np.ndarray  # (c, held_out) row numbers, a row per unseen class; k shots are its first k columns
    rest: ZeroShotDataset  # the data set without the drawn samples: the same test samples for every number of shots

    def labelled(self, shots: int) -> np.ndarray:
        """Return the row numbers of the first `shots` samples of each unseen class."""
        return self.drawn[:, :shots].ravel()

    def training(self, shots: int) -> ZeroShotDataset:
        """Return the data set with these samples among the training samples, for methods that are fitted again."""
        return _changed(self.rest, train=np.sort(np.concatenate([self.rest.train, self.labelled(shots)])))


def split_for(dataset: ZeroShotDataset, held_out: int, draw: int) -> FewShotSplit:
    """Draw `held_out` test samples of each unseen class; a smaller number of shots is a part of a larger one."""
    random, rows = np.random.default_rng(draw), dataset.test_unseen
    labels = dataset.labels[rows]
    drawn = np.stack([random.permutation(rows[labels == label])[:held_out] for label in np.unique(labels)])
    return FewShotSplit(drawn, _changed(dataset, test_unseen=np.setdiff1d(rows, drawn)))


def _changed(dataset: ZeroShotDataset, **parts: np.ndarray) -> ZeroShotDataset:
    return dataset.trusted(**{field.name: getattr(dataset, field.name) for field in fields(dataset)} | parts)


# Baselines. They know classes by labelled samples alone, so they have no cells without shots.


class _Baseline(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Keep the labelled samples at unit length; candidates are learned from their samples alone when they are named."""

    space: ClassVar[str] = "visual"

    def fit(self, X: ArrayLike, y: ArrayLike, descriptions: Any = None) -> Self:
        """Store the samples; descriptions are not used."""
        X = np.asarray(X)
        self.samples_ = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
        self.labels_ = np.asarray(y)
        self.classes_ = np.unique(self.labels_)
        return self

    def decision_function(self, X: ArrayLike, classes: Sequence[Any] | None = None) -> np.ndarray:
        """Score (n, k) the candidate classes, each of which must have labelled samples."""
        X, names = np.asarray(X), list(self.classes_ if classes is None else classes)
        column = {name: number for number, name in enumerate(names)}
        if strange := set(names) - set(self.classes_.tolist()):
            raise BadInput(f"{type(self).__name__} has no labelled sample of the class {min(strange)!r}; add some.")
        rows = np.isin(self.labels_, names)
        codes = np.array([column[name] for name in self.labels_[rows].tolist()])
        return self._scores(self.samples_[rows], codes, X)

    def _scores(self, samples: np.ndarray, codes: np.ndarray, X: np.ndarray) -> np.ndarray:
        raise NotImplementedError


class NearestMean(_Baseline):
    """The cosine of a sample with the mean of each class's labelled samples."""

    def _scores(self, samples: np.ndarray, codes: np.ndarray, X: np.ndarray) -> np.ndarray:
        means = np.stack([samples[codes == code].mean(axis=0) for code in range(codes.max() + 1)])
        return np.asarray(X @ (means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)).T)


class LogisticClassifier(_Baseline):
    """Logistic regression of samples of unit length, for the candidates alone; every class has the same weight.

    Parameters
    ----------
    C : float
        The inverse strength of the penalty; the default was chosen on training classes of CUB.
    """

    def __init__(self, C: float = 10.0):
        self.C = C

    def _scores(self, samples: np.ndarray, codes: np.ndarray, X: np.ndarray) -> np.ndarray:
        if not codes.any():  # a single candidate
            return np.zeros((len(X), 1))
        model = LogisticRegression(C=self.C, tol=1e-5, max_iter=500, class_weight="balanced")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The number of unique classes")  # there are few samples per class
            model.fit(samples, codes)
        scores = model.decision_function(X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12))
        return np.column_stack([-scores, scores]) if scores.ndim == 1 else scores


BASELINES: dict[str, type[_Baseline]] = {"nearest-mean": NearestMean, "logistic-regression": LogisticClassifier}
