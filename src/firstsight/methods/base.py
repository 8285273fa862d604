"""ZeroShotClassifier and TransductiveClassifier: what every method inherits, what a fit reports, the hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from firstsight._io.columns import in_fitted_order
from firstsight._io.disk_samples import DiskSamples
from firstsight.devices import PRECISIONS
from firstsight.errors import BadInput, NotCalibrated
from firstsight.evaluation.leakage import observers
from firstsight.methods._scoring import (
    BestClasses,
    Candidates,
    ScoreBlocks,
    blocks_of_scores,
    warn_if_features_are_lost,
)
from firstsight.methods._validation import (
    ClassSelection,
    Constraint,
    Descriptions,
    OneOf,
    Range,
    attribute_names,
    check_features,
    check_no_samples_needed,
    check_training_samples,
    check_width,
    class_indices,
    described_classes,
    name_array,
    numbers_in_range,
    read_training_classes,
    require_finite,
    validate_params,
)

# scikit-learn has no types of its own: these let mypy find a misspelt name.

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


RandomState = int | np.random.RandomState | None
Setting = Literal["zsl", "gzsl"]
Scaling = Literal["unit", "standard"] | None


def fit_scaling(kind: str | None, values: np.ndarray) -> dict[str, np.ndarray]:
    """What `scale` needs to know later; `values` are training samples (or seen classes) and nothing else."""
    if kind != "standard":
        return {}
    spread = values.std(axis=0)
    # A constant column carries nothing; dividing by one keeps it at zero instead of at NaN.
    spread[spread == 0] = 1.0
    return {"offset": values.mean(axis=0), "spread": spread}


def scale(kind: str | None, fitted: dict[str, Any], values: np.ndarray) -> np.ndarray:
    """`values` scaled; the very same array when there is nothing to do."""
    if kind == "unit":
        with np.errstate(over="ignore"):  # checked in the next line
            norms = np.linalg.norm(values, axis=1, keepdims=True)
        usual = (norms > 0) & (norms < np.inf)
        if not usual.all():  # zeros, or squares too large or too small for the type: as shares of the largest
            odd = np.flatnonzero(~usual)
            largest = np.abs(values[odd]).max(axis=1, keepdims=True)
            values = values.copy()
            values[odd] /= np.where(largest > 0, largest, 1.0)
            norms[odd] = np.linalg.norm(values[odd], axis=1, keepdims=True)
            norms[norms == 0] = 1.0
        values = values / norms
    elif kind == "standard":
        values = (values - fitted["offset"]) / fitted["spread"]
    return values


class MethodDefinition(ScikitLearnClassifier):
    """What a method declares, in class variables, and what it writes: `_fit`, `_scores`, optionally the other hooks.

    - `_fit(X, y, S)`: `X (n, d)`, `y (n,)` codes 0…k−1, `S (k, a)` the descriptions of the k *seen* classes.
      Nothing about unseen classes is passed, so an inductive method cannot leak.
    - `_embed_classes(A)`: whatever the score needs of the candidates, computed once per call (default: `A`).
    - `_scores(X, E, seen)`: `(n, k)`, higher is better; `E` is the result of `_embed_classes`; `seen (k,)` is
      the code of each candidate among the training classes, −1 for a class that training has not seen. A score
      depends on its own sample and candidate alone: both come in blocks.

    Fitted state lives in attributes ending in `_` that are arrays, plain values, or dictionaries of arrays:
    that is what `save` writes.
    """

    space: ClassVar[str] = ""  # "semantic", "visual" or "latent": where samples and classes meet
    transductive: ClassVar[bool] = False
    shared_space: ClassVar[bool] = False  # samples and descriptions must be vectors of one space, as CLIP makes them
    needs_samples: ClassVar[bool] = True  # whether a fit needs labelled samples; if not, X may have no rows
    needs_torch: ClassVar[bool] = False  # whether it is trained with PyTorch, which is an optional extra
    reads_blocks: ClassVar[bool] = False  # whether `_fit` takes samples on the disk (`DiskSamples`) and scales them
    extra_supervision: ClassVar[str] = ""  # what a fit is given beyond seen labels and descriptions
    reference: ClassVar[str] = ""
    grid: ClassVar[dict[str, list[Any]]] = {}  # a small grid for tuning on validation classes
    # Parameters that do not change results, or that a record has in a field of its own.
    non_result_params: ClassVar[tuple[str, ...]] = ("verbose", "checkpoint", "random_state", "setting", "device")
    quick: ClassVar[dict[str, Any]] = {}  # parameters for a few hundred samples: what `firstsight.contract` fits with
    # By the value of a parameter `preset`: what parameters mean that are left at None.
    presets: ClassVar[dict[str, dict[str, Any]]] = {}
    # The shape of each fitted array, such as {"weights_": "d a"}, which `load` checks: d features, a attributes, k seen
    # classes; other letters are sizes of the method itself, "?" after a name marks an array that some fits do without.
    fitted_arrays: ClassVar[dict[str, str]] = {}
    # The values that a parameter may have, for names that mean the same in every method; a method adds its own.
    parameter_constraints: ClassVar[dict[str, list[Constraint]]] = {
        "feature_scaling": [OneOf("unit", "standard"), None],
        "attribute_scaling": [OneOf("unit", "standard"), None],
        "setting": [OneOf("zsl", "gzsl")],
        "learning_rate": [Range(float, above=0)],
        "epochs": [Range(int, at_least=1)],
        "batch_size": [Range(int, at_least=1)],
        "device": [str],
        "precision": [OneOf(*PRECISIONS)],
        "verbose": [bool, np.bool_],
        "random_state": [Range(int, at_least=0, at_most=2**32 - 1), np.random.RandomState, None],
    }
    # Torch methods compute in float32; closed forms keep the precision that they are given.
    dtypes: ClassVar[Any] = (np.float64, np.float32)

    # Every method has these two parameters: no scaling is hidden. A fit stores what scaling needs to know.
    feature_scaling: Scaling
    attribute_scaling: Scaling
    feature_scaler_: dict[str, np.ndarray]
    attribute_scaler_: dict[str, np.ndarray]

    def resolved_parameters(self) -> dict[str, Any]:
        """Resolve presets; of a fitted model, return the parameters as the fit had them.

        Those of `non_result_params` are left out.

        Returns
        -------
        dict
            Values by parameter.
        """
        params = self.get_params()
        preset = self.presets.get(params.get("preset", ""), {})
        resolved = {name: preset.get(name) if value is None else value for name, value in params.items()}
        resolved |= getattr(self, "settings_", {})
        if resolved.get("precision") == "float32":  # records name a precision only where it is another one
            del resolved["precision"]
        return {name: value for name, value in resolved.items() if name not in self.non_result_params}

    def _fit(self, X: np.ndarray, y: np.ndarray, S: np.ndarray) -> None:
        raise NotImplementedError

    def _embed_classes(self, A: np.ndarray) -> Any:
        return A

    def _scores(self, X: np.ndarray, E: Any, seen: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _embed_described(self, A: np.ndarray) -> Any:
        """As `_embed_classes`, by the descriptions alone: as if training had no sample of a class, labelled or not."""
        return self._embed_classes(A)

    def _certainty(self, E: Any, seen: np.ndarray) -> np.ndarray:
        """How much samples say of each candidate (k,), from 0 (only a description) to 1: its share of a constant γ."""
        return (seen >= 0).astype(np.float64)

    @property
    def _gamma(self) -> float:
        """γ, what the score takes off a candidate of certainty 1, whatever its description."""
        return 0.0

    def _seen_constants(self, E: Any, seen: np.ndarray) -> np.ndarray:
        """What the score takes off each candidate (k,) whatever its description, for having been seen in training."""
        return self._gamma * self._certainty(E, seen)

    def _export_scores(self, graph: Any, X: str, A: str, seen: str) -> str:
        """The name of the scores `(n, k)` of scaled samples and descriptions in a `persistence.onnx_export.Graph`.

        `seen` is the name of the candidates' training codes `(k,)`, as in `_scores`. For methods whose score is a plain
        function of these; `firstsight export` offers those that write it.
        """
        raise NotImplementedError("its score is not a plain function of features and description")

    @classmethod
    def is_exportable(cls) -> bool:
        """Whether the method writes `_export_scores`."""
        return cls._export_scores is not MethodDefinition._export_scores

    def export_scores(self, graph: Any, X: str, A: str, seen: str) -> str:
        """Write the scores into an ONNX graph; what cannot be exported raises NotImplementedError with the reason."""
        return self._export_scores(graph, X, A, seen)

    def add_samples(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from more labelled samples without another fit; a method that cannot raises `BadInput`.

        Parameters
        ----------
        X : array (m, d)
            Features, as in `predict`.
        y : array (m,)
            Their classes.

        Returns
        -------
        Self
            The updated estimator.
        """
        raise BadInput(
            f"{type(self).__name__} cannot learn from more samples without another fit; fit it again with all of them, "
            "or use KernelPrototypes, which can."
        )

    def _scale_features(self, X: np.ndarray) -> np.ndarray:
        return scale(self.feature_scaling, self.feature_scaler_, X)

    def _scale_descriptions(self, A: np.ndarray) -> np.ndarray:
        return scale(self.attribute_scaling, self.attribute_scaler_, A)


class ZeroShotClassifier(MethodDefinition):
    """Base of all methods: a scikit-learn classifier that also knows classes without training samples.

    Subclasses write `_fit` and `_scores` (docs/own_method.md; `MethodDefinition` lists all that they may write).
    """

    # Set by every fit.
    n_features_in_: int
    feature_names_in_: np.ndarray  # (d,) set where the names of the features are known: the columns of a DataFrame
    described_: bool  # whether classes have descriptions; without, this is an ordinary classifier
    classes_: np.ndarray  # (C,) every class that has a description
    descriptions_: np.ndarray  # (C, a)
    seen_code_: np.ndarray  # (C,) code of each class among those with training samples, −1 for the others
    attribute_names_in_: np.ndarray  # (a,) set where `descriptions` came with names: their columns
    calibration_: Any  # set by the caller (`firstsight.evaluation.calibration`); a new fit forgets it

    @property
    def diagnostics_(self) -> dict[str, Any]:
        """What a fit reports of itself, as plain values.

        "collapsed" (bool) always; "history" and "rounds" (lists) and "search" (what a fit tried and chose by itself)
        where a method has them: what it stored as `collapsed_`, `history_`, `rounds_` and `search_`.
        """
        check_is_fitted(self)
        reported = {
            name: vars(self)[f"{name}_"] for name in ("history", "rounds", "search") if f"{name}_" in vars(self)
        }
        return {"collapsed": getattr(self, "collapsed_", False), **reported}

    def fit(self, X: ArrayLike, y: ArrayLike, descriptions: Descriptions | None = None) -> Self:
        """Learn from labelled samples.

        Parameters
        ----------
        X : DataFrame, array (n, d) or DiskSamples
            Features, one row per sample; a method with `reads_blocks` never loads samples on the disk as a whole. The
            columns of a DataFrame name the features (`feature_names_in_`).
        y : array (n,)
            Class names or numbers.
        descriptions : DataFrame indexed by class, or array whose row numbers are the labels
            One description per class, of classes with and without samples in `X`. Left out, classes are described
            by one-hot vectors and the estimator is an ordinary classifier.

        Returns
        -------
        Self
            The fitted estimator.
        """
        with restored_on_error(self):
            features, codes, S, _ = self._prepare(X, y, descriptions)
            self._run_fit(X=features, y=codes, S=S)
        return self

    def predict(self, X: ArrayLike, classes: ClassSelection = None) -> np.ndarray:
        """Name the best class of each sample among `classes`.

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

    def top_k(self, X: ArrayLike, k: int = 5, classes: ClassSelection = None) -> tuple[np.ndarray, np.ndarray]:
        """Rank the best classes of each sample among `classes`; scores are held for a block at a time.

        Parameters
        ----------
        X : array (n, d) or DiskSamples
            Features, one row per sample.
        k : int
            How many classes per sample; all of them if there are fewer.
        classes : None, list of classes, or DataFrame
            The candidates, as in `predict`.

        Returns
        -------
        names : array (n, k)
            The best class of each sample first.
        scores : array (n, k)
            Their scores, as `decision_function` has them.
        """
        if k < 1:
            raise BadInput(f"`k` must be at least 1, but is {k}.")
        features, candidates, blocks = self.score_blocks(X, classes)
        best = BestClasses(len(features), min(k, len(candidates.labels)))
        for block in blocks:
            best.add(*block)
        return candidates.labels[best.indices], best.scores.astype(features.dtype)

    def decision_function(self, X: ArrayLike, classes: ClassSelection = None) -> np.ndarray:
        """Score every candidate class for every sample; higher is better.

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
        scores = self.score_blocks(X, classes).table()
        if classes is None and not self.described_ and scores.shape[1] == 2:
            difference: np.ndarray = scores[:, 1] - scores[:, 0]
            return difference
        return scores

    @property
    def predict_proba(self) -> Callable[..., np.ndarray]:
        """`predict_proba(X, classes=None)`: calibrated confidence `(n, k)` in each candidate; a row sums to one.

        There is none before the model is calibrated (`calibration_`): a softmax of scores would not be a probability.
        """
        if not hasattr(self, "calibration_"):
            raise NotCalibrated(
                f"This {type(self).__name__} has not been calibrated, so its scores are not probabilities; calibrate "
                "it first (`model.calibration_ = firstsight.calibrate(model, data)`), or use decision_function."
            )
        return partial(_calibrated_confidence, self)

    def score(
        self, X: ArrayLike, y: ArrayLike, classes: ClassSelection = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the share of samples that `predict(X, classes)` names right, as for any scikit-learn classifier.

        It counts samples, not classes; T1 and H, which papers report, are in `firstsight.evaluation.scorers`.

        Parameters
        ----------
        X : array (n, d)
            Features, one row per sample.
        y : array (n,)
            Their true classes.
        classes : None, list of classes, or DataFrame
            The candidates, as in `predict`.
        sample_weight : array (n,), optional
            How much each sample counts.

        Returns
        -------
        float
            From 0 to 1.
        """
        return float(accuracy_score(y, self.predict(X, classes), sample_weight=sample_weight))

    @property
    def seen_classes_(self) -> np.ndarray:
        """The classes that training had samples of, in the order of `classes_`."""
        return self.classes_[self.seen_code_ >= 0]

    @property
    def unseen_classes_(self) -> np.ndarray:
        """The classes that training had only a description of, in the order of `classes_`."""
        return self.classes_[self.seen_code_ < 0]

    def candidates(self, classes: ClassSelection = None) -> Candidates:
        """Resolve the classes to choose from.

        Parameters
        ----------
        classes : None, list of classes, or DataFrame
            As in `predict`.

        Returns
        -------
        Candidates
            Labels, descriptions in the fitted order of attributes, and training codes (−1: unseen).
        """
        if isinstance(classes, pd.DataFrame):
            ordered = in_fitted_order(classes, getattr(self, "attribute_names_in_", None))
            labels, A = described_classes(ordered, self.descriptions_, "classes")
            position = pd.Index(self.classes_).get_indexer(pd.Index(labels))
            return Candidates(labels, A, np.where(position >= 0, self.seen_code_[position], -1))
        if classes is None:
            return Candidates(self.classes_, self.descriptions_, self.seen_code_)
        position = class_indices(classes, self.classes_)
        return Candidates(self.classes_[position], self.descriptions_[position], self.seen_code_[position])

    def check_features(self, X: Any) -> np.ndarray:
        """Validate the features of samples and put them into the order of the fit.

        Parameters
        ----------
        X : DataFrame, array (n, d) or DiskSamples
            As in `predict`.

        Returns
        -------
        array (n, d)
            Finite numbers, not scaled.
        """
        return check_features(self, X)

    def score_blocks(self, X: Any, classes: ClassSelection = None) -> ScoreBlocks:
        """Score samples for candidate classes, some of both at a time: memory is bounded.

        Parameters
        ----------
        X : DataFrame, array (n, d) or DiskSamples
            As in `predict`.
        classes : None, list of classes, or DataFrame
            The candidates, as in `predict`.

        Returns
        -------
        ScoreBlocks
            The validated samples, the candidates, and an iterator over blocks of scores.
        """
        X = check_width(self, X) if isinstance(X, DiskSamples) else self.check_features(X)
        candidates = self.candidates(classes)
        return ScoreBlocks(X, candidates, blocks_of_scores(self, X, candidates))

    def description_scores(self, X: np.ndarray, descriptions: np.ndarray) -> np.ndarray:
        """Score samples for descriptions alone, as if training had no sample of such a class.

        Parameters
        ----------
        X : array (n, d)
            As `check_features` returns it.
        descriptions : array (k, a)
            Columns in the order of the fit.

        Returns
        -------
        array (n, k)
            Higher is better.
        """
        with numbers_in_range(self, X, descriptions):
            A = descriptions.astype(self.descriptions_.dtype, copy=False)
            E = self._embed_described(self._scale_descriptions(A))
            scores = self._scores(self._scale_features(X), E, np.full(len(A), -1))
            require_finite(scores)
        return scores

    def seen_penalties(self, descriptions: np.ndarray, seen_code: np.ndarray) -> np.ndarray:
        """Return what the score takes off each candidate for having been seen in training.

        Parameters
        ----------
        descriptions : array (k, a)
            Of the candidates, as `candidates` returns them.
        seen_code : array (k,)
            Their training codes.

        Returns
        -------
        array (k,)
            Zeros for most methods.
        """
        with numbers_in_range(self, descriptions):
            E = self._embed_classes(self._scale_descriptions(descriptions))
        return self._seen_constants(E, seen_code)

    def _prepare(
        self, X: Any, y: Any, descriptions: Descriptions | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Validated and scaled X, codes of y, seen descriptions S, unseen descriptions U."""
        validate_params(self)
        forget_former_fit(self)
        X, labels = check_training_samples(self, X, y)
        if len(labels) == 0:
            check_no_samples_needed(self, descriptions)
        codes, self.classes_, self.descriptions_, seen = read_training_classes(labels, descriptions, X.dtype)
        self.described_ = descriptions is not None
        if (names := attribute_names(descriptions)) is not None:
            self.attribute_names_in_ = name_array(names)
        self.seen_code_ = np.full(len(self.classes_), -1)
        self.seen_code_[seen] = np.arange(len(seen))
        self.attribute_scaler_ = fit_scaling(self.attribute_scaling, self.descriptions_[seen])
        A = self._scale_descriptions(self.descriptions_)
        S, U = A[seen], A[self.seen_code_ < 0]
        for observer in observers():
            observer.on_prepared(S, U)
        if not isinstance(X, DiskSamples):
            self.feature_scaler_ = fit_scaling(self.feature_scaling, X)
            X = self._scale_features(X)
        return X, codes, S, U

    def _run_fit(self, **arrays: Any) -> None:
        """Run `_fit` with these arrays, in this order; observers are notified."""
        for observer in observers():
            observer.on_fit(arrays)
        fit_in_range(self, *arrays.values())
        warn_if_features_are_lost(self, arrays["X"], arrays["y"], arrays["S"])


class TransductiveClassifier(ZeroShotClassifier):
    """Base of the methods that also learn from a pool of unlabelled samples.

    A subclass has a parameter `setting`: "zsl" (the pool holds unseen classes only) or "gzsl" (it may hold
    any class), and its `_fit(X, y, S, pool, U)` gets the pool and the unseen descriptions `U` too, ordered by
    their content so that neither names nor table order matter.
    """

    transductive: ClassVar[bool] = True
    reads_blocks: ClassVar[bool] = False  # the pool and the labelled samples are used together, again and again
    setting: Setting
    unseen_code_: np.ndarray  # (C,) index of each unseen class in `U`, −1 for the others

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        descriptions: Descriptions | None = None,
        *,
        X_unlabeled: ArrayLike | None = None,
    ) -> Self:
        """Learn from labelled samples and from a pool of samples without labels.

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
        with restored_on_error(self):
            features, codes, S, U = self._prepare(X, y, descriptions)
            pool = np.empty((0, features.shape[1]), dtype=features.dtype)
            if X_unlabeled is not None:
                if len(U) == 0:
                    raise BadInput(
                        "X_unlabeled was given, but every class of `descriptions` has labelled rows; expected at "
                        "least one class without: add its description, or fit an inductive method."
                    )
                pool = self._scale_features(self.check_features(X_unlabeled))
            elif len(U):
                raise BadInput(
                    f"{type(self).__name__} learns from unlabelled rows and got none for {len(U)} unseen classes; "
                    "give fit(..., X_unlabeled=rows), or use the inductive method."
                )
            order = np.lexsort(U.T[::-1])
            self.unseen_code_ = np.full(len(self.classes_), -1)
            self.unseen_code_[np.flatnonzero(self.seen_code_ < 0)[order]] = np.arange(len(order))
            self._run_fit(X=features, y=codes, S=S, pool=pool, U=U[order])
        return self

    def _fit(  # type: ignore[override]
        self, X: np.ndarray, y: np.ndarray, S: np.ndarray, pool: np.ndarray, U: np.ndarray
    ) -> None:
        raise NotImplementedError


@contextmanager
def restored_on_error(estimator: ZeroShotClassifier) -> Iterator[None]:
    """Leave the estimator, and a model fitted before, as it was if a fit is rejected or interrupted."""
    before = vars(estimator).copy()
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def forget_former_fit(estimator: ZeroShotClassifier) -> None:
    """Remove what a former fit, or changes of its classes, may have left and this one may not set."""
    left = ("attribute_names_in_", "calibration_", "training_fingerprints_", "taught_classes_", "removed_classes_")
    added = ("added_samples_", "fitted_", "sample_log_", "sample_log_labels_")
    for name in (*left, *added):
        vars(estimator).pop(name, None)


def fit_in_range(method: ZeroShotClassifier, *arrays: Any) -> None:
    """Run `_fit`; fitted numbers must be finite."""
    with numbers_in_range(method, *arrays):
        method._fit(*arrays)
        for name, value in vars(method).items():
            for array in value.values() if isinstance(value, dict) else [value]:
                if name.endswith("_") and isinstance(array, np.ndarray) and array.dtype.kind == "f":
                    require_finite(array)


def _calibrated_confidence(model: ZeroShotClassifier, X: ArrayLike, classes: ClassSelection = None) -> np.ndarray:
    scores = model.score_blocks(X, classes)
    confidence: np.ndarray = model.calibration_.confidence(
        model, scores.X, scores.table(), scores.candidates.seen_code >= 0
    )
    return confidence
