"""ZeroShotClassifier: input validation, class labels, candidate classes, scores in blocks, argmax."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.metrics import accuracy_score
from sklearn.utils._param_validation import Interval, StrOptions, validate_parameter_constraints
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from firstsight._io.columns import fitted_order, in_fitted_order
from firstsight._io.disk_samples import DiskRows, blocks_of
from firstsight.devices import PRECISIONS, require_torch
from firstsight.errors import BadInput, FirstsightWarning, NotCalibrated, UnreadableFile
from firstsight.evaluation.leakage import observers
from firstsight.methods._best_classes import BestClasses
from firstsight.methods._class_input import (
    Candidates,
    Descriptions,
    OutOfRange,
    attribute_names,
    check_finite,
    check_labels,
    described_classes,
    feature_names,
    name_array,
    places_of,
    read_descriptions,
    require_finite,
)
from firstsight.methods._scaling import Scaling, fit_scaling, scale

# What methods have from scikit-learn, which has no types of its own: so that mypy finds a misspelt name.

if TYPE_CHECKING:

    class ScikitLearnClassifier:
        def __init__(self, **parameters: Any) -> None: ...
        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **parameters: Any) -> Self: ...
        @classmethod
        def _get_param_names(cls) -> list[str]: ...
        def set_fit_request(self, *, descriptions: bool | str | None = ...) -> Self: ...
        def set_predict_request(self, *, classes: bool | str | None = ...) -> Self: ...
        def set_decision_function_request(self, *, classes: bool | str | None = ...) -> Self: ...
        def set_score_request(
            self, *, classes: bool | str | None = ..., sample_weight: bool | str | None = ...
        ) -> Self: ...
else:
    from sklearn.base import BaseEstimator, ClassifierMixin

    class ScikitLearnClassifier(ClassifierMixin, BaseEstimator):
        pass


# What every method shares: checking input, class labels, candidate classes, scores in blocks, argmax.
#
# A method is a subclass that writes `_fit` and `_scores` (and `_embed_classes` where part of the score depends
# on the class alone, so that it is computed once per call and not once per block of rows).

# Scores are made for blocks of rows; this bounds what one block and its candidates may take. For more than 32 MiB, C
# libraries ask the system every time, which costs more than the scores.
BLOCK_BYTES = 24 * 2**20
# Of very many candidates, so many are scored at a time that what is known of them takes no more than this.
CLASS_BYTES = 256 * 2**20

TINY = 1e-6  # features that are all smaller may be lost in rounding

RandomState = int | np.random.RandomState | None
Setting = Literal["zsl", "gzsl"]
ScoreBlock = tuple[slice, slice, np.ndarray]  # of rows, of candidates, and the scores


class ZeroShotClassifier(ScikitLearnClassifier):
    """Base of all methods: a scikit-learn classifier that also knows classes without training rows.

    Subclasses describe themselves with the class variables below and write

    - `_fit(X, y, S)`: `X (n, d)`, `y (n,)` codes 0…k−1, `S (k, a)` the descriptions of the k *seen* classes.
      Nothing about unseen classes is handed over, so an inductive method cannot leak.
    - `_embed_classes(A)`: whatever the score needs of the candidates, computed once per call (default: `A`).
    - `_scores(X, E, seen)`: `(n, k)`, higher is better; `E` is the result of `_embed_classes`; `seen (k,)` is
      the code of each candidate among the training classes, −1 for a class that training has not seen. A score
      depends on its own row and candidate alone: both come in blocks.

    Fitted state lives in attributes ending in `_` that are arrays, plain values, or dictionaries of arrays:
    that is what `save` writes.
    """

    space: ClassVar[str] = ""  # "semantic", "visual" or "latent": where samples and classes meet
    transductive: ClassVar[bool] = False
    shared_space: ClassVar[bool] = False  # rows and descriptions must be vectors of one space, as CLIP makes them
    needs_torch: ClassVar[bool] = False  # whether it is trained with PyTorch, which is an optional extra
    reads_blocks: ClassVar[bool] = False  # whether `_fit` takes rows on the disk (`DiskRows`) and scales what it reads
    extra_supervision: ClassVar[str] = ""  # what a fit is given beyond seen labels and descriptions
    reference: ClassVar[str] = ""
    grid: ClassVar[dict[str, list[Any]]] = {}  # a small grid for tuning on validation classes
    # Parameters that do not change results, or that a record tells by itself.
    beside_results: ClassVar[tuple[str, ...]] = ("verbose", "checkpoint", "random_state", "setting", "device")
    quick: ClassVar[dict[str, Any]] = {}  # parameters for a few hundred rows: what `firstsight.contract` fits with
    # By the value of a parameter `preset`: what parameters mean that are left at None.
    presets: ClassVar[dict[str, dict[str, Any]]] = {}

    # Torch methods compute in float32; closed forms keep the precision that they are given.
    _dtypes: ClassVar[Any] = (np.float64, np.float32)
    _read_from: str | None = None  # the folder that `firstsight.load` found this model in
    # What a parameter may be, for the names that mean the same in every method; a method adds its own.
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "feature_scaling": [StrOptions({"unit", "standard"}), None],
        "attribute_scaling": [StrOptions({"unit", "standard"}), None],
        "setting": [StrOptions({"zsl", "gzsl"})],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "epochs": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "device": [str],
        "precision": [StrOptions(set(PRECISIONS))],
        "verbose": ["boolean"],
        "random_state": ["random_state"],
    }

    # Every method has these two parameters: no scaling is hidden.
    feature_scaling: Scaling
    attribute_scaling: Scaling

    # Set by every fit.
    n_features_in_: int
    feature_names_in_: np.ndarray  # (d,) set where the names of the features are known: the columns of a DataFrame
    classes_: np.ndarray  # (C,) every class that has a description
    descriptions_: np.ndarray  # (C, a)
    seen_code_: np.ndarray  # (C,) code of each class among those with training rows, −1 for the others
    # Set where `descriptions` came with names: (a,) their columns.
    attribute_names_in_: np.ndarray
    # Set by whoever calibrates (`firstsight.evaluation.calibration`); a new fit forgets it.
    calibration_: Any

    def resolved_parameters(self) -> dict[str, Any]:
        """Say what the parameters stand for: presets applied; once fitted, as the fit had them.

        Those of `beside_results` are left out.

        Returns
        -------
        dict
            Values by parameter.
        """
        given = self.get_params()
        preset = self.presets.get(given.get("preset", ""), {})
        resolved = {name: preset.get(name) if value is None else value for name, value in given.items()}
        resolved |= getattr(self, "settings_", {})
        if resolved.get("precision") == "float32":  # told where it is another: records were there before it
            del resolved["precision"]
        return {name: value for name, value in resolved.items() if name not in self.beside_results}

    @property
    def diagnostics_(self) -> dict[str, Any]:
        """What a fit has to tell of itself, as plain values.

        "collapsed" (bool) always; "history" and "rounds" (lists) and "search" (what a fit tried and chose by itself)
        where a method has them: what it stored as `collapsed_`, `history_`, `rounds_` and `search_`.
        """
        check_is_fitted(self)
        told = {name: vars(self)[f"{name}_"] for name in ("history", "rounds", "search") if f"{name}_" in vars(self)}
        return {"collapsed": getattr(self, "collapsed_", False), **told}

    def fit(self, X: ArrayLike, y: ArrayLike, descriptions: Descriptions | None = None) -> Self:
        """Learn from labelled rows.

        Parameters
        ----------
        X : DataFrame, array (n, d) or DiskRows
            Features, one row per sample; a method with `reads_blocks` never loads rows on the disk as a whole. The
            columns of a DataFrame name the features (`feature_names_in_`).
        y : array (n,)
            Class names or numbers.
        descriptions : DataFrame indexed by class, or array whose row numbers are the labels
            One description per class, of classes with and without rows in `X`. Left out, classes are described
            by one-hot vectors and the estimator is an ordinary classifier.

        Returns
        -------
        Self
            The fitted estimator.
        """
        with self._all_or_nothing():
            rows, codes, S, _ = self._prepare(X, y, descriptions)
            self._hand_on(X=rows, y=codes, S=S)
            self._warn_of_tiny_features(rows, codes, S)
        return self

    def predict(self, X: ArrayLike, classes: Candidates = None) -> np.ndarray:
        """Name the best class of each row among `classes`.

        Parameters
        ----------
        X : DataFrame or array (n, d)
            Features, one row per sample. Columns of a DataFrame are matched by name, in any order, if the model knows
            the names of its features (`feature_names_in_`); columns of an array are taken by position.
        classes : None, list of classes, or DataFrame
            None: every class that has a description. A list: just these. A DataFrame of descriptions indexed by
            class: these, whether training knew them or not; new classes need no retraining. Its columns are
            matched by name (`attribute_names_in_`) where both tables have names.

        Returns
        -------
        array (n,)
            Classes, as `y` or the table of `classes` has them.
        """
        return self.top_k(X, 1, classes)[0][:, 0]

    def top_k(self, X: ArrayLike, k: int = 5, classes: Candidates = None) -> tuple[np.ndarray, np.ndarray]:
        """Rank the best classes of each row among `classes`.

        However many rows and candidates there are, scores are held for a block of both at a time.

        Parameters
        ----------
        X : array (n, d) or DiskRows
            Features, one row per sample.
        k : int
            How many classes per row; all of them if there are fewer.
        classes : None, list of classes, or DataFrame
            The candidates, as in `predict`.

        Returns
        -------
        names : array (n, k)
            The best class of each row first.
        scores : array (n, k)
            Their scores, as `decision_function` has them.
        """
        if k < 1:
            raise BadInput(f"`k` must be at least 1, but is {k}.")
        rows, labels, blocks = self._score_blocks(X, classes)
        best = BestClasses(len(rows), min(k, len(labels)))
        for block in blocks:
            best.add(*block)
        return labels[best.places], best.scores.astype(rows.dtype)

    def decision_function(self, X: ArrayLike, classes: Candidates = None) -> np.ndarray:
        """Score every candidate class for every row; higher is better.

        An ordinary classifier (fitted without descriptions) of two classes gives `(n,)`, as scikit-learn does.

        Parameters
        ----------
        X : array (n, d)
            Features, one row per sample.
        classes : None, list of classes, or DataFrame
            The candidates, as in `predict`.

        Returns
        -------
        array (n, k)
            Column j belongs to `classes[j]` (to `classes_[j]` if left out).
        """
        scores = self._score_table(X, classes)
        if classes is None and not self.described_ and scores.shape[1] == 2:
            difference: np.ndarray = scores[:, 1] - scores[:, 0]
            return difference
        return scores

    @property
    def predict_proba(self) -> Callable[..., np.ndarray]:
        """`predict_proba(X, classes=None)`: calibrated confidence `(n, k)` in each candidate; a row sums to one.

        There is none before the model is calibrated (`calibration_`): a softmax of scores would not be a probability.
        """
        self._require_calibration()
        return self._confidence

    def score(
        self, X: ArrayLike, y: ArrayLike, classes: Candidates = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Say what share of rows `predict(X, classes)` names right, as for any scikit-learn classifier.

        It counts rows, not classes; T1 and H, which papers report, are in `firstsight.evaluation.scorers`.

        Parameters
        ----------
        X : array (n, d)
            Features, one row per sample.
        y : array (n,)
            Their true classes.
        classes : None, list of classes, or DataFrame
            The candidates, as in `predict`.
        sample_weight : array (n,), optional
            How much each row counts.

        Returns
        -------
        float
            From 0 to 1.
        """
        return float(accuracy_score(y, self.predict(X, classes), sample_weight=sample_weight))

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

    def _embed_described(self, A: np.ndarray) -> Any:
        """As `_embed_classes`, by the descriptions alone: as if training had no sample of such a class, not even an
        unlabelled one."""
        return self._embed_classes(A)

    def _seen_constants(self, E: Any, seen: np.ndarray) -> np.ndarray:
        """What the score takes off each candidate (k,) whatever its description, for having been seen in training."""
        return np.zeros(len(seen))

    def _export_scores(self, graph: Any, X: str, A: str, seen: str) -> str:
        """The name of the scores `(n, k)` of scaled rows and descriptions in a `models.onnx_export.Graph`.

        `seen` is the name of the candidates' training codes `(k,)`, as in `_scores`. For methods whose score is a plain
        function of these; `firstsight export` offers those that write it.
        """
        raise NotImplementedError("its score is not a plain function of features and description")

    # Checks and bookkeeping, the same everywhere -------------------------------------------------------------

    def _validate_params(self) -> None:
        constraints: dict[str, Any] = {}
        for cls in reversed(type(self).__mro__):
            constraints |= vars(cls).get("_parameter_constraints", {})
        validate_parameter_constraints(constraints, self.get_params(deep=False), caller_name=type(self).__name__)

    def _require_packages(self) -> None:
        """Raise an error that says how to install what a fit needs and this environment does not have."""
        if self.needs_torch:
            require_torch(type(self).__name__)

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """A fit that is refused or interrupted leaves the estimator, and a model fitted before, as it was."""
        before = self.__dict__.copy()
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _hand_on(self, **arrays: np.ndarray) -> None:
        """`_fit` with these arrays, in this order; observers of the fit are told."""
        for observer in observers():
            observer.handed_on(arrays)
        self._fit_in_range(*arrays.values())

    def _fit_in_range(self, *arrays: Any) -> None:
        with self._numbers_in_range(*arrays):
            self._fit(*arrays)
            for name, value in vars(self).items():
                for array in value.values() if isinstance(value, dict) else [value]:
                    if name.endswith("_") and isinstance(array, np.ndarray) and array.dtype.kind == "f":
                        require_finite(array)

    def _warn_of_tiny_features(self, X: Any, y: np.ndarray, S: np.ndarray) -> None:
        """Warn where features are so small that the fit names one class whatever the sample: they were rounded away."""
        if isinstance(X, DiskRows):
            return
        chosen = np.unique(np.linspace(0, len(X) - 1, 256).astype(int))
        largest = max(X.max(), -X.min())
        if not 0 < largest < TINY or len(np.unique(y[chosen])) < 2:
            return
        with np.errstate(all="ignore"):
            scores = self._scores(X[chosen], self._embed_classes(S), np.arange(len(S)))
        if len(np.unique(scores.argmax(axis=1))) == 1:
            warnings.warn(
                f"{type(self).__name__} names every training sample the same: the features reach only {largest:.3g} "
                "and are lost in rounding. Bring them to a usual scale, for example with feature_scaling='standard'.",
                FirstsightWarning,
                stacklevel=3,
            )

    def _prepare(
        self, X: Any, y: Any, descriptions: Descriptions | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Checked and scaled X, codes of y, seen descriptions S, unseen descriptions U."""
        self._validate_params()
        self._require_packages()
        of_a_fit_before = ("attribute_names_in_", "calibration_", "training_fingerprints_", "_read_from")
        for name in (*of_a_fit_before, "taught_classes_", "removed_classes_"):
            self.__dict__.pop(name, None)
        check_labels(y)
        X, y = self._checked_pair(X, y)
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
        self.described_ = descriptions is not None
        if descriptions is None:
            labels = np.sort(seen_labels)
            A = np.eye(len(labels), dtype=X.dtype)[order]
        else:
            labels, A = read_descriptions(descriptions, X.dtype, "descriptions")
            names = attribute_names(descriptions)
            if names is not None:
                self.attribute_names_in_ = name_array(names)
        position = pd.Index(labels).get_indexer(pd.Index(seen_labels))
        if (position < 0).any():
            missing = seen_labels[position < 0].tolist()
            raise BadInput(
                f"`y` contains class {missing[0]!r}"
                + (f" and {len(missing) - 1} more" if len(missing) > 1 else "")
                + ", but `descriptions` has no such row. "
                + (
                    "It has one of the other type, and a number and a text are different classes: use one type."
                    if set(map(str, missing)) & set(map(str, labels.tolist()))
                    else "Add one row per class."
                )
            )
        self.classes_ = labels
        self.descriptions_ = A
        self.seen_code_ = np.full(len(labels), -1)
        self.seen_code_[position] = np.arange(len(position))
        self.attribute_scaler_ = fit_scaling(self.attribute_scaling, A[position])
        A = scale(self.attribute_scaling, self.attribute_scaler_, A)
        S, U = A[position], A[self.seen_code_ < 0]
        for observer in observers():
            observer.prepared(S, U)
        if not isinstance(X, DiskRows):
            self.feature_scaler_ = fit_scaling(self.feature_scaling, X)
            X = self._scale_features(X)
        return X, codes, S, U

    def _checked_pair(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        """Rows and their classes; rows on the disk stay there if the method reads blocks, which checks them."""
        if not isinstance(X, DiskRows) or not self.reads_blocks:
            if isinstance(X, pd.DataFrame) and not X.columns.is_unique:
                twice = X.columns[X.columns.duplicated()][0]
                raise BadInput(f"X has two columns {twice!r}; give every feature its own name.")
            X, y = validate_data(self, _loaded(X), y, dtype=list(self._dtypes), ensure_all_finite=False)
            check_finite(X, "X")
            return X, column_or_1d(y)
        labels: np.ndarray = column_or_1d(y)
        if len(labels) != len(X):
            raise BadInput(f"X has {len(X)} rows and y {len(labels)} classes; expected one class per row.")
        self.__dict__.pop("feature_names_in_", None)
        self.n_features_in_ = X.shape[1]
        return X, labels

    @contextmanager
    def _numbers_in_range(self, *arrays: Any) -> Iterator[None]:
        """Numbers whose products are no longer finite are refused here, once, instead of answered with NaN."""
        try:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # which is looked for at the end
                yield
        except BadInput:
            raise
        except (ValueError, RuntimeError, ArithmeticError, LookupError, TypeError, AttributeError) as error:
            given = {
                k: v for k, v in self.get_params(deep=False).items() if isinstance(v, int | float) and abs(v) > 1e15
            }
            if given:
                name, value = next(iter(given.items()))
                raise BadInput(
                    f"{type(self).__name__} cannot compute with {name}={str(value)[:40]}: numbers are no longer finite "
                    "on the way; give a smaller one."
                ) from error
            loaded = [array for array in arrays if isinstance(array, np.ndarray)]
            sizes = [np.abs(array).max() for array in loaded if array.size and array.dtype.kind == "f"]
            of_numbers = isinstance(error, (ValueError, RuntimeError, ArithmeticError))
            if not isinstance(error, OutOfRange) and not (
                of_numbers and any(not 1e-15 < size < 1e15 for size in sizes)
            ):
                if self._read_from is None:
                    raise
                raise UnreadableFile(
                    f"{self._read_from} holds {type(self).__name__} arrays that do not belong together "
                    f"({type(error).__name__}: {str(error).partition(chr(10))[0]}); restore it or fit the model again."
                ) from error
            raise BadInput(
                f"{type(self).__name__} cannot compute with these numbers, which reach {max(sizes):.3g}: something is "
                "no longer finite on the way. Bring features and descriptions to a usual scale, for example with "
                "feature_scaling='standard' (attribute_scaling='standard')."
            ) from error

    def _scale_features(self, X: np.ndarray) -> np.ndarray:
        return scale(self.feature_scaling, self.feature_scaler_, X)

    def _check_rows(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = _loaded(X)
        if not self._is_as_fitted(X):
            order = self._column_order(X)
            try:
                X = check_array(X, dtype=list(self._dtypes), ensure_all_finite=False, estimator=self, input_name="X")
            except ValueError as error:  # scikit-learn's own sentence
                raise BadInput(str(error)) from error
            X = X if order is None else np.ascontiguousarray(X[:, order])
            self._check_width(X)
        rows: np.ndarray = X
        check_finite(rows, "X")
        return rows

    def _column_order(self, X: Any) -> list[int] | None:
        """Where the features are among the columns of X; None: where they were in the fit, or X names no columns.

        scikit-learn rejects columns in another order; here they are put in order, as `ColumnTransformer` does.
        """
        columns = feature_names(X)
        if columns is None:
            return None
        fitted = getattr(self, "feature_names_in_", None)
        if fitted is None:
            warnings.warn(
                f"X has feature names, but {type(self).__name__} was fitted without feature names", stacklevel=4
            )
            return None
        return fitted_order(columns, fitted.tolist(), "X")

    def _is_as_fitted(self, X: Any) -> bool:
        """Whether scikit-learn would hand X back as it is; to find out takes it longer than to name a row."""
        return (
            type(X) is np.ndarray
            and X.ndim == 2
            and X.dtype in self._dtypes
            and len(X) > 0
            and X.shape[1] == self.n_features_in_
        )

    def _check_width(self, X: Any) -> Any:
        check_is_fitted(self)
        if X.shape[1] != self.n_features_in_:  # in scikit-learn's words
            raise BadInput(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} features "
                "as input."
            )
        return X

    def _require_calibration(self) -> None:
        if not hasattr(self, "calibration_"):
            raise NotCalibrated(
                f"This {type(self).__name__} has not been calibrated, so its scores are not probabilities; calibrate "
                "it first (`model.calibration_ = firstsight.calibrate(model, data)`), or use decision_function."
            )

    def _score_table(self, X: ArrayLike, classes: Candidates) -> np.ndarray:
        rows, labels, blocks = self._score_blocks(X, classes)
        out = np.empty((len(rows), len(labels)), dtype=rows.dtype)
        for part, columns, scores in blocks:
            out[part, columns] = scores
        return out

    def _confidence(self, X: ArrayLike, classes: Candidates = None) -> np.ndarray:
        X = X if isinstance(X, DiskRows) else self._check_rows(X)
        scores, seen = self._score_table(X, classes), self._candidates(classes)[2] >= 0
        confidence: np.ndarray = self.calibration_.confidence(self, X, scores, seen)
        return confidence

    def _score_blocks(self, X: Any, classes: Candidates) -> tuple[Any, np.ndarray, Iterator[ScoreBlock]]:
        """Checked rows, candidates, and their scores: some rows, some candidates at a time."""
        X = self._check_width(X) if isinstance(X, DiskRows) else self._check_rows(X)
        labels, A, seen = self._candidates(classes)
        wide = max(1024, CLASS_BYTES // (8 * (X.shape[1] + A.shape[1])))
        step = max(64, BLOCK_BYTES // (X.itemsize * (X.shape[1] + min(wide, len(labels)))))

        def blocks() -> Iterator[ScoreBlock]:
            for start in range(0, len(labels), wide):
                columns = slice(start, min(start + wide, len(labels)))
                with self._numbers_in_range(A):
                    E = self._embed_classes(scale(self.attribute_scaling, self.attribute_scaler_, A[columns]))
                for part, rows in blocks_of(X, step):
                    with self._numbers_in_range(rows, A[columns]):
                        scores = self._scores(self._scale_features(rows), E, seen[columns])
                        require_finite(scores.astype(X.dtype, copy=False))  # as `decision_function` tells them
                    yield part, columns, scores

        return X, labels, blocks()

    def _described_scores(self, rows: np.ndarray, A: np.ndarray) -> np.ndarray:
        """Scores (n, k) of checked rows that follow from descriptions A (k, a) alone, whatever training saw."""
        with self._numbers_in_range(rows, A):
            A = A.astype(self.descriptions_.dtype, copy=False)
            E = self._embed_described(scale(self.attribute_scaling, self.attribute_scaler_, A))
            scores = self._scores(self._scale_features(rows), E, np.full(len(A), -1))
            require_finite(scores)
        return scores

    def _constants(self, A: np.ndarray, seen: np.ndarray) -> np.ndarray:
        """What `_scores` takes off candidates (k,) of these descriptions and codes for having been seen."""
        with self._numbers_in_range(A):
            E = self._embed_classes(scale(self.attribute_scaling, self.attribute_scaler_, A))
        return self._seen_constants(E, seen)

    def _candidates(self, classes: Candidates) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Labels, descriptions and training codes (−1: unseen) of the classes to choose from."""
        if classes is None:
            return self.classes_, self.descriptions_, self.seen_code_
        if isinstance(classes, pd.DataFrame):
            ordered = in_fitted_order(classes, getattr(self, "attribute_names_in_", None))
            labels, A = described_classes(ordered, self.descriptions_, "classes")
            position = pd.Index(self.classes_).get_indexer(pd.Index(labels))
            return labels, A, np.where(position >= 0, self.seen_code_[position], -1)
        position = places_of(classes, self.classes_)
        return self.classes_[position], self.descriptions_[position], self.seen_code_[position]


def _loaded(X: Any) -> Any:
    """Rows on the disk as an array, which refuses to be larger than was allowed; anything else as it is."""
    return np.asarray(X) if isinstance(X, DiskRows) else X
