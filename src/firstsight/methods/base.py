"""What every method shares: checking input, class labels, candidate classes, scores in blocks, argmax.

A method is a subclass that writes `_fit` and `_scores` (and `_embed_classes` where part of the score depends
on the class alone, so that it is computed once per call and not once per block of rows).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from firstsight.errors import BadInput
from firstsight.methods.parts.scaling import fit_scaling, scale

# Scores are made for blocks of rows; this bounds what one block and its candidates may take.
BLOCK_BYTES = 64 * 2**20


class ZeroShotClassifier(ClassifierMixin, BaseEstimator):
    """Base of all methods: a scikit-learn classifier that also knows classes without training rows.

    Subclasses describe themselves with the class variables below and write

    - `_fit(X, y, S)`: `X (n, d)`, `y (n,)` codes 0…k−1, `S (k, a)` the descriptions of the k *seen* classes.
      Nothing about unseen classes is handed over, so an inductive method cannot leak.
    - `_embed_classes(A)`: whatever the score needs of the candidates, computed once per call (default: `A`).
    - `_scores(X, E, seen)`: `(n, k)`, higher is better; `E` is the result of `_embed_classes`; `seen (k,)` is
      the code of each candidate among the training classes, −1 for a class that training has not seen.

    Fitted state lives in attributes ending in `_` that are arrays, plain values, or dictionaries of arrays:
    that is what `save` writes.
    """

    space: ClassVar[str] = ""  # "semantic", "visual" or "latent": where samples and classes meet
    transductive: ClassVar[bool] = False
    shared_space: ClassVar[bool] = False  # rows and descriptions must be vectors of one space, as CLIP makes them
    extra_supervision: ClassVar[str] = ""  # what a fit is told beyond seen labels and descriptions
    reference: ClassVar[str] = ""
    grid: ClassVar[dict[str, list[Any]]] = {}  # a small grid for tuning on validation classes
    # Parameters that do not change results, or that a record tells by itself.
    beside_results: ClassVar[tuple[str, ...]] = ("verbose", "checkpoint", "random_state", "setting")
    quick: ClassVar[dict[str, Any]] = {}  # parameters for a few hundred rows: what `firstsight.contract` fits with

    # Torch methods compute in float32; closed forms keep the precision that they are given.
    _dtypes: ClassVar[Any] = (np.float64, np.float32)
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    # Every method has these two parameters: no scaling is hidden.
    feature_scaling: str | None
    attribute_scaling: str | None

    def plain_parameters(self) -> dict[str, Any]:
        """The parameters as JSON can hold them, presets resolved once fitted, without `beside_results`."""
        parameters = {**self.get_params(), **getattr(self, "settings_", {})}
        return {name: value for name, value in parameters.items() if name not in self.beside_results}

    def fit(self, X, y, class_attributes=None):
        """Learn from labelled rows.

        Parameters
        ----------
        X : array (n, d)
        y : array (n,) of class names or numbers.
        class_attributes : DataFrame indexed by class, or array whose row numbers are the labels
            One description per class, of classes with and without rows in `X`. Left out, classes are described
            by one-hot vectors and the estimator is an ordinary classifier.
        """
        with self._all_or_nothing():
            X, codes, S, _ = self._prepare(X, y, class_attributes)
            self._fit(X, codes, S)
        return self

    def predict(self, X, classes=None):
        """The best class of each row among `classes`.

        Parameters
        ----------
        X : array (n, d)
        classes : None, list of classes, or DataFrame
            None: every class that has a description. A list: just these. A DataFrame of descriptions indexed by
            class: these, whether training knew them or not; new classes need no retraining.
        """
        X, labels, blocks = self._score_blocks(X, classes)
        best = np.empty(len(X), dtype=np.intp)
        for rows, scores in blocks:
            best[rows] = scores.argmax(axis=1)
        return labels[best]

    def decision_function(self, X, classes=None):
        """Scores `(n, k)`, higher is better; column j belongs to `classes[j]` (to `classes_[j]` if left out).

        An ordinary classifier (fitted without descriptions) of two classes gives `(n,)`, as scikit-learn does.
        """
        X, labels, blocks = self._score_blocks(X, classes)
        out = np.empty((len(X), len(labels)), dtype=X.dtype)
        for rows, scores in blocks:
            out[rows] = scores
        if classes is None and not self.described_ and len(labels) == 2:
            return out[:, 1] - out[:, 0]
        return out

    @property
    def seen_classes_(self) -> np.ndarray:
        """The classes that training had rows of, in the order of `classes_`."""
        return self.classes_[self.seen_code_ >= 0]

    @property
    def unseen_classes_(self) -> np.ndarray:
        """The classes that training had only a description of, in the order of `classes_`."""
        return self.classes_[self.seen_code_ < 0]

    # What a method writes ------------------------------------------------------------------------------------

    def _fit(self, X: np.ndarray, y: np.ndarray, S: np.ndarray) -> None:
        raise NotImplementedError

    def _embed_classes(self, A: np.ndarray) -> Any:
        return A

    def _scores(self, X: np.ndarray, E: Any, seen: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    # Checks and bookkeeping, the same everywhere -------------------------------------------------------------

    @contextmanager
    def _all_or_nothing(self):
        """A fit that is refused or interrupted leaves the estimator, and a model fitted before, as it was."""
        before = self.__dict__.copy()
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _prepare(self, X, y, class_attributes):
        """Checked and scaled X, codes of y, seen descriptions S, unseen descriptions U."""
        self._validate_params()
        X, y = validate_data(self, X, y, dtype=list(self._dtypes), ensure_all_finite=False)
        _check_finite(X, "X")
        y = column_or_1d(y)
        check_classification_targets(y)
        # Codes follow the first appearance in y: neither names nor the order of the table touch the result.
        first, codes = np.unique(y, return_index=True, return_inverse=True)[1:]
        order = np.argsort(np.argsort(first))
        codes, seen_labels = order[codes], y[np.sort(first)]
        if len(seen_labels) < 2:
            raise BadInput(
                f"y has rows of {len(seen_labels)} class ({seen_labels.tolist()[0]!r}); expected at least 2 classes to "
                "tell apart: add labelled rows of another class."
            )
        self.described_ = class_attributes is not None
        if class_attributes is None:
            labels = np.sort(seen_labels)
            A = np.eye(len(labels), dtype=X.dtype)[order]
        else:
            labels, A = _read_descriptions(class_attributes, X.dtype, "class_attributes")
        position = pd.Index(labels).get_indexer(pd.Index(seen_labels))
        if (position < 0).any():
            missing = seen_labels[position < 0].tolist()
            raise BadInput(
                f"`y` contains class {missing[0]!r}"
                + (f" and {len(missing) - 1} more" if len(missing) > 1 else "")
                + ", but `class_attributes` has no such row. Add one row per class."
            )
        self.classes_ = labels
        self.class_attributes_ = A
        self.seen_code_ = np.full(len(labels), -1)
        self.seen_code_[position] = np.arange(len(position))
        self.feature_scaler_ = fit_scaling(self.feature_scaling, X)
        self.attribute_scaler_ = fit_scaling(self.attribute_scaling, A[position])
        A = scale(self.attribute_scaling, self.attribute_scaler_, A)
        return self._scale_features(X), codes, A[position], A[self.seen_code_ < 0]

    def _scale_features(self, X: np.ndarray) -> np.ndarray:
        return scale(self.feature_scaling, self.feature_scaler_, X)

    def _check_rows(self, X) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=list(self._dtypes), reset=False, ensure_all_finite=False)
        _check_finite(X, "X")
        return X

    def _score_blocks(self, X, classes) -> tuple[np.ndarray, np.ndarray, Iterator[tuple[slice, np.ndarray]]]:
        X = self._check_rows(X)
        labels, A, seen = self._candidates(classes)
        E = self._embed_classes(scale(self.attribute_scaling, self.attribute_scaler_, A))
        step = max(64, BLOCK_BYTES // (X.itemsize * (X.shape[1] + len(labels))))

        def blocks():
            for start in range(0, len(X), step):
                rows = slice(start, start + step)
                yield rows, self._scores(self._scale_features(X[rows]), E, seen)

        return X, labels, blocks()

    def _candidates(self, classes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Labels, descriptions and training codes (−1: unseen) of the classes to choose from."""
        if classes is None:
            return self.classes_, self.class_attributes_, self.seen_code_
        known = pd.Index(self.classes_)
        if isinstance(classes, pd.DataFrame):
            labels, A = _read_descriptions(classes, self.class_attributes_.dtype, "classes")
            if A.shape[1] != self.class_attributes_.shape[1]:
                raise BadInput(
                    f"`classes` describes each class by {A.shape[1]} numbers; this model was fitted with "
                    f"{self.class_attributes_.shape[1]}: give the same attributes in the same order."
                )
            position = known.get_indexer(pd.Index(labels))
            return labels, A, np.where(position >= 0, self.seen_code_[position], -1)
        labels = np.asarray(classes)
        if labels.ndim != 1 or len(labels) == 0:
            raise BadInput(
                f"`classes` must be a non-empty list of classes or a DataFrame of descriptions indexed by class; "
                f"got an array of shape {labels.shape}."
            )
        position = known.get_indexer(pd.Index(labels))
        if (position < 0).any():
            stranger = labels[position < 0][0]
            near = difflib.get_close_matches(str(stranger), [str(c) for c in self.classes_], n=1)
            raise BadInput(
                f"`classes` contains {stranger.item() if hasattr(stranger, 'item') else stranger!r}, which this "
                "model has no description of"
                + (f"; did you mean {near[0]!r}?" if near else ".")
                + " To name a new class, pass a DataFrame with its description."
            )
        if len(np.unique(position)) < len(position):
            raise BadInput("`classes` names a class twice; name each candidate once.")
        return self.classes_[position], self.class_attributes_[position], self.seen_code_[position]


class TransductiveClassifier(ZeroShotClassifier):
    """Base of the methods that also learn from a pool of unlabelled rows.

    A subclass has a parameter `setting`: "zsl" (the pool holds unseen classes only) or "gzsl" (it may hold
    any class), and its `_fit(X, y, S, pool, U)` gets the pool and the unseen descriptions `U` too, ordered by
    their content so that neither names nor table order matter.
    """

    transductive: ClassVar[bool] = True
    setting: str

    def fit(self, X, y, class_attributes=None, *, X_unlabeled=None):
        """As `ZeroShotClassifier.fit`; `X_unlabeled (m, d)` is the pool of rows without labels."""
        with self._all_or_nothing():
            self._fit_with_pool(X, y, class_attributes, X_unlabeled)
        return self

    def _fit_with_pool(self, X, y, class_attributes, X_unlabeled) -> None:
        X, codes, S, U = self._prepare(X, y, class_attributes)
        pool = np.empty((0, X.shape[1]), dtype=X.dtype)
        if X_unlabeled is not None:
            if len(U) == 0:
                raise BadInput(
                    "X_unlabeled was given, but every class of `class_attributes` has labelled rows; expected at "
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
        self._fit(X, codes, S, pool, U[order])

    def _fit(self, X, y, S, pool, U) -> None:  # type: ignore[override]
        raise NotImplementedError


def _check_finite(values: np.ndarray, name: str) -> None:
    # The sum of an array is finite only if all of it is; it costs no second array.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum(dtype=np.float64)):
            return
    bad = ~np.isfinite(values).all(axis=1)
    if bad.any():
        what = "NaN" if np.isnan(values).any() else "inf"
        raise BadInput(
            f"{name} contains {what} or infinite values in {bad.sum()} of {len(values)} rows (first: row "
            f"{int(bad.argmax())}); expected finite numbers: fill these in or drop the rows."
        )


def _read_descriptions(table, dtype, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Labels (C,) and descriptions (C, a) of a DataFrame indexed by class or an array numbered by class."""
    if isinstance(table, pd.DataFrame):
        labels = _plain_labels(table.index, name)
        try:
            A = np.ascontiguousarray(table.to_numpy(dtype=dtype))  # as it will be loaded: equal to the last bit
        except (ValueError, TypeError):
            text = [str(c) for c, kind in table.dtypes.items() if kind.kind not in "biuf"]
            raise BadInput(
                f"`{name}` has columns that are not numbers ({', '.join(text[:3])}); expected one number per "
                "attribute and the class as the index of the table."
            ) from None
    else:
        try:
            A = np.ascontiguousarray(table, dtype=dtype)
        except (ValueError, TypeError):
            raise BadInput(
                f"`{name}` must be a DataFrame indexed by class, or an array (classes, attributes) of numbers; got "
                f"{type(table).__name__}."
            ) from None
        labels = np.arange(len(A)) if A.ndim else np.arange(0)
    if A.ndim != 2 or A.size == 0:
        raise BadInput(f"`{name}` must have shape (classes, attributes), neither empty; got {A.shape}.")
    _check_finite(A, f"`{name}`")
    return labels, A


def _plain_labels(index: pd.Index, name: str) -> np.ndarray:
    """Class names as an array of text or of whole numbers: what comparison and saving can rely on."""
    if not index.is_unique:
        twice = index[index.duplicated()][0]
        raise BadInput(f"`{name}` has two rows for class {twice!r}; expected one row per class.")
    values = index.tolist()
    if all(isinstance(v, str) for v in values):
        return np.asarray(values, dtype=str)
    if all(isinstance(v, (int, np.integer)) for v in values):
        return np.asarray(values, dtype=np.int64)
    kinds = sorted({type(v).__name__ for v in values})
    raise BadInput(f"`{name}` must be indexed by class names or whole numbers; its index holds {', '.join(kinds)}.")
