"""What the methods share that also learn from a pool of unlabelled rows."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from firstsight.errors import BadInput
from firstsight.methods._class_input import Descriptions
from firstsight.methods.base import Setting, ZeroShotClassifier


class TransductiveClassifier(ZeroShotClassifier):
    """Base of the methods that also learn from a pool of unlabelled rows.

    A subclass has a parameter `setting`: "zsl" (the pool holds unseen classes only) or "gzsl" (it may hold
    any class), and its `_fit(X, y, S, pool, U)` gets the pool and the unseen descriptions `U` too, ordered by
    their content so that neither names nor table order matter.
    """

    transductive: ClassVar[bool] = True
    reads_blocks: ClassVar[bool] = False  # the pool and the labelled rows are looked at together, again and again
    setting: Setting

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        descriptions: Descriptions | None = None,
        *,
        X_unlabeled: ArrayLike | None = None,
    ) -> Self:
        """Learn from labelled rows and from a pool of rows without labels.

        Parameters
        ----------
        X : array (n, d)
            Features, one row per labelled sample.
        y : array (n,)
            Class names or numbers.
        descriptions : DataFrame indexed by class, or array whose row numbers are the labels
            One description per class, as in `ZeroShotClassifier.fit`.
        X_unlabeled : array (m, d)
            The pool; what it may hold is said by the parameter `setting`.

        Returns
        -------
        Self
            The fitted estimator.
        """
        with self._all_or_nothing():
            self._fit_with_pool(X, y, descriptions, X_unlabeled)
        return self

    def _fit_with_pool(
        self, X: ArrayLike, y: ArrayLike, descriptions: Descriptions | None, X_unlabeled: ArrayLike | None
    ) -> None:
        rows, codes, S, U = self._prepare(X, y, descriptions)
        pool = np.empty((0, rows.shape[1]), dtype=rows.dtype)
        if X_unlabeled is not None:
            if len(U) == 0:
                raise BadInput(
                    "X_unlabeled was given, but every class of `descriptions` has labelled rows; expected at "
                    "least one class without: add its description, or fit an inductive method."
                )
            pool = self._scale_features(self._check_rows(X_unlabeled))
        elif len(U):
            raise BadInput(
                f"{type(self).__name__} learns from unlabelled rows and got none for {len(U)} unseen classes; "
                "give fit(..., X_unlabeled=rows), or use the inductive method."
            )
        order = np.lexsort(U.T[::-1])
        self.unseen_code_ = np.full(len(self.classes_), -1)
        self.unseen_code_[np.flatnonzero(self.seen_code_ < 0)[order]] = np.arange(len(order))
        self._hand_on(X=rows, y=codes, S=S, pool=pool, U=U[order])
        self._warn_of_tiny_features(rows, codes, S)

    def _fit(  # type: ignore[override]
        self, X: np.ndarray, y: np.ndarray, S: np.ndarray, pool: np.ndarray, U: np.ndarray
    ) -> None:
        raise NotImplementedError
