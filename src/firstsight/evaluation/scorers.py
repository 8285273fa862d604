"""T1 and H for scikit-learn's searches, and folds that hold out classes.

In a search, the unseen classes of a fold are those of its test rows that it has no training rows of::

    search = GridSearchCV(ESZSL(), ESZSL.grid, scoring=t1_scorer, cv=GroupKFold(3))
    search.fit(X, y, groups=y, descriptions=table)

H asks for test rows of seen classes as well, which a `ClassWiseSplit` holds out beside whole classes::

    search = GridSearchCV(ESZSL(), ESZSL.grid, scoring=h_scorer, cv=ClassWiseSplit(3, random_state=0))
    search.fit(X, y, descriptions=table)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.model_selection import BaseCrossValidator
from sklearn.pipeline import Pipeline

from firstsight.data.dataset import check_share, hold_out
from firstsight.errors import BadInput
from firstsight.evaluation.protocol import score_samples, transformed


def t1_scorer(estimator: Any, X: ArrayLike, y: ArrayLike) -> float:
    """T1: mean per-class accuracy on rows of unseen classes, with only these as candidates.

    Unseen are the classes of `y` without training rows; rows of other classes are passed over.

    Parameters
    ----------
    estimator : estimator
        A fitted method, or a pipeline that ends in one.
    X : array (n, d)
        Features, one row per sample.
    y : array (n,)
        Their true classes.

    Returns
    -------
    float
        From 0 to 1.
    """
    model, rows, truth = _last_step(estimator, X, y)
    unseen = _unseen(model, truth)
    tested = np.isin(truth, unseen)
    return score_samples(model, [(rows[tested], truth[tested])], (), unseen).t1 or 0.0


def h_scorer(estimator: Any, X: ArrayLike, y: ArrayLike) -> float:
    """H: the harmonic mean of the accuracies on rows of unseen and of seen classes, with all of these as candidates.

    Parameters
    ----------
    estimator : estimator
        A fitted method, or a pipeline that ends in one.
    X : array (n, d)
        Features, one row per sample, of seen and of unseen classes.
    y : array (n,)
        Their true classes.

    Returns
    -------
    float
        From 0 to 1.
    """
    model, rows, truth = _last_step(estimator, X, y)
    unseen = _unseen(model, truth)
    task = score_samples(model, [(rows, truth)], model.seen_classes_, unseen)
    if task.tr is None:
        raise BadInput(
            "H needs test rows of classes that were trained on, and all of these rows are of other classes; split with "
            "`evaluation.scorers.ClassWiseSplit`, which holds out both."
        )
    return task.h or 0.0


class ClassWiseSplit(BaseCrossValidator):
    """Folds of classes: a fold's test rows are all rows of the classes held out and a share of every other class's.

    Every class is held out once.

    Parameters
    ----------
    n_splits : int
        How many folds.
    held_out : float
        The share of rows held out of the other classes, one row at least; with 0 it is a `GroupKFold` whose groups are
        the classes, in random order.
    random_state : int or None
        Everything random follows from it.
    """

    def __init__(self, n_splits: int = 3, *, held_out: float = 0.2, random_state: int | None = None) -> None:
        self.n_splits = n_splits
        self.held_out = held_out
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """How many folds there are, whatever the rows."""
        return self.n_splits

    def _iter_test_indices(self, X: Any = None, y: Any = None, groups: Any = None) -> Iterator[np.ndarray]:
        check_share(self.held_out)
        labels = np.asarray(y)
        classes = np.unique(labels)
        if not 2 <= self.n_splits <= len(classes) // 2:
            raise BadInput(
                f"`n_splits` must lie between 2 and half the number of classes ({len(classes)}), so that each fold "
                f"holds out two or more, but is {self.n_splits}."
            )
        random = np.random.default_rng(self.random_state)
        for chosen in np.array_split(random.permutation(classes), self.n_splits):
            unseen = np.isin(labels, chosen)
            _, held = hold_out(np.flatnonzero(~unseen), labels, self.held_out, random)
            yield np.sort(np.concatenate([np.flatnonzero(unseen), held]))


def _last_step(estimator: Any, X: Any, y: Any) -> tuple[Any, Any, np.ndarray]:
    """The method itself, rows as it sees them, and labels."""
    if isinstance(estimator, Pipeline):
        X, estimator = transformed(estimator, X), estimator[-1]
    return estimator, X if isinstance(X, pd.DataFrame) else np.asarray(X), np.asarray(y)


def _unseen(model: Any, truth: np.ndarray) -> np.ndarray:
    unseen = np.setdiff1d(truth, model.seen_classes_)
    if len(unseen) == 0:
        raise BadInput(
            "T1 and H are about classes without training rows, and every class of these rows has some; hold out whole "
            "classes: GroupKFold with groups=y, or `evaluation.scorers.ClassWiseSplit`."
        )
    return unseen
