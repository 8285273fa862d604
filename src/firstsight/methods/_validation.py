"""Validation of what a caller passes: parameters, features, labels, descriptions, candidate classes, number range."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral, Number, Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _get_feature_names, check_array, check_is_fitted, column_or_1d, validate_data

from firstsight._io.columns import fitted_order
from firstsight._io.disk_samples import DiskSamples
from firstsight._io.files import name_problem
from firstsight.devices import require_torch
from firstsight.errors import BadInput

if TYPE_CHECKING:
    from firstsight.methods.base import ZeroShotClassifier

Descriptions = pd.DataFrame | ArrayLike
ClassSelection = pd.DataFrame | ArrayLike | None  # what the parameter `classes` may be
LONGEST_NAME = 10_000
_LOOKED_AT = 2**16  # numbers at a time


# Parameters


@dataclass(frozen=True)
class Range:
    """Constraint of a parameter to finite numbers in a range.

    Parameters
    ----------
    kind : {float, int}
        Whether any real number will do, or whole numbers only.
    above, at_least : float, optional
        The lower bound, excluded or included.
    below, at_most : float, optional
        The upper bound, excluded or included.

    Examples
    --------
    >>> print(Range(float, above=0))
    a float in the range (0.0, inf)
    >>> Range(int, at_least=1).accepts(0)
    False
    """

    kind: type[float] | type[int]
    above: float | None = None
    at_least: float | None = None
    below: float | None = None
    at_most: float | None = None

    def accepts(self, value: Any) -> bool:
        """Whether a parameter may have this value."""
        if not isinstance(value, Real if self.kind is float else Integral):
            return False
        number: Any = value
        return (
            -np.inf < number < np.inf
            and (self.above is None or number > self.above)
            and (self.at_least is None or number >= self.at_least)
            and (self.below is None or number < self.below)
            and (self.at_most is None or number <= self.at_most)
        )

    def __str__(self) -> str:
        low, high = (
            infinite if bound is None else str(self.kind(bound))
            for bound, infinite in (
                (self.above if self.at_least is None else self.at_least, "-inf"),
                (self.below if self.at_most is None else self.at_most, "inf"),
            )
        )
        brackets = "(" if self.at_least is None else "[", ")" if self.at_most is None else "]"
        article = "a float" if self.kind is float else "an int"
        return f"{article} in the range {brackets[0]}{low}, {high}{brackets[1]}"


@dataclass(frozen=True, init=False)
class OneOf:
    """Constraint of a parameter to one of several texts.

    Parameters
    ----------
    *options : str
        The texts.

    Examples
    --------
    >>> print(OneOf("unit", "standard"))
    a str among {'standard', 'unit'}
    """

    options: frozenset[str]

    def __init__(self, *options: str) -> None:
        object.__setattr__(self, "options", frozenset(options))

    def accepts(self, value: Any) -> bool:
        """Whether a parameter may have this value."""
        return isinstance(value, str) and value in self.options

    def __str__(self) -> str:
        return f"a str among {{{', '.join(map(repr, sorted(self.options)))}}}"


Constraint = Range | OneOf | type | None  # a type accepts its instances, None itself


def validate_params(estimator: ZeroShotClassifier) -> None:
    """Raise `BadInput` if a parameter has a value that it may not have, or a package that a fit needs is missing."""
    constraints: dict[str, list[Constraint]] = {}
    for cls in reversed(type(estimator).__mro__):
        constraints |= vars(cls).get("parameter_constraints", {})
    for name, value in estimator.get_params(deep=False).items():
        allowed = constraints.get(name)
        if allowed is not None and not any(_accepts(constraint, value) for constraint in allowed):
            *most, last = map(_described, allowed)
            expected = f"{', '.join(most)} or {last}" if most else last
            raise BadInput(
                f"The {name!r} parameter of {type(estimator).__name__} must be {expected}. Got {value!r} instead."
            )
    if estimator.needs_torch:
        require_torch(type(estimator).__name__)


def _accepts(constraint: Constraint, value: Any) -> bool:
    if isinstance(constraint, type):
        return isinstance(value, constraint)
    return value is None if constraint is None else constraint.accepts(value)


def _described(constraint: Constraint) -> str:
    if isinstance(constraint, type):
        module = "" if constraint.__module__ == "builtins" else f"{constraint.__module__}."
        return f"an instance of {module + constraint.__qualname__!r}"
    return str(constraint)


# Features


def check_training_samples(estimator: ZeroShotClassifier, X: Any, y: Any) -> tuple[Any, np.ndarray]:
    """Validate features and labels; samples on the disk stay there if the method reads blocks, which checks them."""
    check_labels(y)
    if isinstance(X, DiskSamples) and estimator.reads_blocks:
        labels: np.ndarray = column_or_1d(y)
        if len(labels) != len(X):
            raise BadInput(f"X has {len(X)} rows and y {len(labels)} classes; expected one class per row.")
        vars(estimator).pop("feature_names_in_", None)
        estimator.n_features_in_ = X.shape[1]
    else:
        if isinstance(X, pd.DataFrame) and not X.columns.is_unique:
            twice = X.columns[X.columns.duplicated()][0]
            raise BadInput(f"X has two columns {twice!r}; give every feature its own name.")
        options = {"dtype": list(estimator.dtypes), "ensure_all_finite": False, "ensure_min_samples": 0}
        X, y = validate_data(estimator, in_memory(X), y, **options)
        check_finite(X, "X")
        labels = column_or_1d(y)
    if (
        len(labels) and labels.dtype.kind == "f"
    ):  # of names and codes it warns that there are many, as few-shot data has
        check_classification_targets(labels)
    return X, labels


def check_no_samples_needed(estimator: ZeroShotClassifier, descriptions: Any) -> None:
    """Raise `BadInput` unless a fit without samples makes sense: of this method, on at least two descriptions."""
    name = type(estimator).__name__
    if estimator.needs_samples or descriptions is None:
        raise BadInput(
            f"{name} learns from labelled samples, but X has 0 samples; expected at least one of each of two classes: "
            "add some. Where features and descriptions are vectors of one space, as CLIP makes them, Cosine needs none."
            if estimator.needs_samples
            else f"X has 0 samples, and there are no descriptions either; {name} needs the descriptions of at least 2 "
            "classes."
        )
    if len(descriptions) < 2:
        raise BadInput(
            f"`descriptions` has {len(descriptions)} class; expected at least 2 classes to tell apart: add another."
        )
    scaled = [p for p in ("feature_scaling", "attribute_scaling") if getattr(estimator, p) == "standard"]
    if scaled:
        raise BadInput(
            f"{scaled[0]}='standard' takes mean and spread from training samples, but X has 0 samples; expected None "
            "or 'unit'."
        )


def check_features(estimator: ZeroShotClassifier, X: Any) -> np.ndarray:
    """Validate features of samples to score; returns an array whose columns are in the order of the fit."""
    check_is_fitted(estimator)
    X = in_memory(X)
    # What scikit-learn would return as it is: to find that out takes its check longer than to score one sample.
    usual = type(X) is np.ndarray and X.ndim == 2 and X.dtype in estimator.dtypes and len(X) > 0
    if not (usual and X.shape[1] == estimator.n_features_in_):
        order = _column_order(estimator, X)
        try:
            X = check_array(
                X, dtype=list(estimator.dtypes), ensure_all_finite=False, estimator=estimator, input_name="X"
            )
        except ValueError as error:  # its message is scikit-learn's
            raise BadInput(str(error)) from error
        X = X if order is None else np.ascontiguousarray(X[:, order])
        check_width(estimator, X)
    features: np.ndarray = X
    check_finite(features, "X")
    return features


def check_width(estimator: ZeroShotClassifier, X: Any) -> Any:
    """Return X if it has as many features as the fit; the message of the error is scikit-learn's."""
    check_is_fitted(estimator)
    if X.shape[1] != estimator.n_features_in_:
        raise BadInput(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting {estimator.n_features_in_} "
            "features as input."
        )
    return X


def _column_order(estimator: ZeroShotClassifier, X: Any) -> list[int] | None:
    """Where the features are among the columns of X; None: where they were in the fit, or X names no columns.

    scikit-learn rejects columns in another order; here they are put in order, as `ColumnTransformer` does.
    """
    columns = feature_names(X)
    if columns is None:
        return None
    fitted = getattr(estimator, "feature_names_in_", None)
    if fitted is None:
        name = type(estimator).__name__
        warnings.warn(f"X has feature names, but {name} was fitted without feature names", stacklevel=5)
        return None
    return fitted_order(columns, fitted.tolist(), "X")


def in_memory(X: Any) -> Any:
    """Samples on the disk as an array, which raises if it is larger than was allowed; anything else as it is."""
    return np.asarray(X) if isinstance(X, DiskSamples) else X


# Labels, descriptions, candidate classes


class TrainingClasses(NamedTuple):
    """The classes of a fit: codes of the samples, all labels and descriptions, where each seen class is among them."""

    codes: np.ndarray  # (n,) 0…k−1
    labels: np.ndarray  # (C,)
    descriptions: np.ndarray  # (C, a)
    seen: np.ndarray  # (k,) indices into `labels`, by code


def read_training_classes(y: np.ndarray, descriptions: Descriptions | None, dtype: Any) -> TrainingClasses:
    """Match labels (n,) with their descriptions; without any, classes are described by one-hot vectors."""
    # Codes follow the first appearance in y: neither names nor the order of the table touch the result.
    first, codes = np.unique(y, return_index=True, return_inverse=True)[1:]
    order = np.argsort(np.argsort(first))
    codes, seen_labels = order[codes], y[np.sort(first)]
    if len(seen_labels) == 1:  # none at all are for methods that need none
        raise BadInput(
            f"y has rows of {len(seen_labels)} class ({seen_labels.tolist()[0]!r}); expected at least 2 classes to "
            "tell apart: add labelled rows of another class."
        )
    if descriptions is None:
        labels = np.sort(seen_labels)
        A = np.eye(len(labels), dtype=dtype)[order]
    else:
        labels, A = read_descriptions(descriptions, dtype, "descriptions")
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
    return TrainingClasses(codes, labels, A, position)


def described_classes(table: pd.DataFrame, known: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Labels and descriptions of candidates, as wide as the `known` descriptions (C, a) of a fit."""
    labels, A = read_descriptions(table, known.dtype, name)
    if A.shape[1] != known.shape[1]:
        raise BadInput(
            f"`{name}` describes each class by {A.shape[1]} numbers; this model was fitted with "
            f"{known.shape[1]}: give the same attributes in the same order."
        )
    return labels, A


def class_indices(classes: ArrayLike, known: np.ndarray) -> np.ndarray:
    """Indices of the named candidates among the classes that a model knows."""
    labels = np.asarray(classes)
    if labels.ndim != 1 or len(labels) == 0:
        raise BadInput(
            f"`classes` must be a non-empty list of classes or a DataFrame of descriptions indexed by class; "
            f"got an array of shape {labels.shape}."
        )
    position = _positions(labels, known, "classes", "To name a new class, pass a DataFrame with its description.")
    if len(np.unique(position)) < len(position):
        raise BadInput("`classes` names a class twice; name each candidate once.")
    return position


def label_indices(y: ArrayLike, known: np.ndarray) -> np.ndarray:
    """Indices of the labels of samples among the classes that a model knows."""
    check_labels(y)
    return _positions(column_or_1d(y), known, "y", "Add its description first (firstsight.add_classes).")


def _positions(labels: np.ndarray, known: np.ndarray, parameter: str, advice: str) -> np.ndarray:
    position: np.ndarray = pd.Index(known).get_indexer(pd.Index(labels))
    if (position < 0).any():
        unknown = labels[position < 0][0]
        near = difflib.get_close_matches(str(unknown), [str(c) for c in known], n=1)
        raise BadInput(
            f"`{parameter}` contains {unknown.item() if hasattr(unknown, 'item') else unknown!r}, which this "
            f"model has no description of{f'; did you mean {near[0]!r}?' if near else '.'} {advice}"
        )
    return position


def feature_names(X: Any) -> list[str] | None:
    """The columns of a table of features where all of them are names, as scikit-learn reads them; else None."""
    if isinstance(X, pd.DataFrame) and not X.columns.is_unique:  # which scikit-learn reads, or not, by its version
        return attribute_names(X)
    names = _get_feature_names(X)
    return None if names is None else list(names)


def attribute_names(table: Any) -> list[str] | None:
    """The columns of a DataFrame whose columns are all names; None for arrays and tables with numbered columns."""
    if not isinstance(table, pd.DataFrame) or not all(isinstance(column, str) for column in table.columns):
        return None
    return table.columns.tolist()


def check_finite(values: np.ndarray, name: str) -> None:
    """Raise `BadInput` if a row of numbers holds NaN or infinity."""
    if all_finite(values):
        return
    bad = ~np.isfinite(values).all(axis=1)
    if bad.any():
        what = "NaN" if np.isnan(values).any() else "inf"
        raise BadInput(
            f"{name} contains {what} or infinite values in {bad.sum()} of {len(values)} rows (first: row "
            f"{int(bad.argmax())}); expected finite numbers: fill these in or drop the rows."
        )


def read_descriptions(table: Descriptions, dtype: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
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
    check_finite(A, f"`{name}`")
    return labels, A


def name_array(names: list[str]) -> np.ndarray:
    """Names as an array, which keeps for each as many letters as the longest has."""
    longest = max(names, key=len, default="")
    if len(longest) > LONGEST_NAME:
        raise BadInput(
            f"The name {longest[:20]!r}… has {len(longest):,} characters; expected at most {LONGEST_NAME:,}: "
            "shorten it."
        )
    for name in names:
        if problem := name_problem(name):
            raise BadInput(f"The name {name!a} {problem}; rename it.")
    return np.asarray(names, dtype=str)


def check_labels(y: Any) -> None:
    """Reject labels that NumPy would change or cannot sort: texts and numbers mixed, names that cannot be kept.

    An array of text or of numbers has one type, and only its size is looked at.
    """
    if isinstance(y, np.ndarray) and y.dtype.kind not in "OuU":
        return
    values = y.ravel().tolist() if isinstance(y, np.ndarray) else list(y) if hasattr(y, "__iter__") else []
    kinds = {
        "text" if isinstance(v, str) else "a number" if isinstance(v, Number) else type(v).__name__ for v in values
    }
    if "text" in kinds and len(kinds) > 1:
        raise BadInput(
            f"`y` mixes labels of different types ({' and '.join(sorted(kinds))}); expected class names or whole "
            "numbers: convert all labels to one type, for example with str."
        )
    if kinds == {"text"}:
        name_array(list(set(values)))
    elif too_large := [v for v in values if isinstance(v, int) and not -(2**63) <= v < 2**63]:
        raise BadInput(_too_large(too_large[0]))


def _too_large(number: int) -> str:
    return f"The class {str(number)[:30]} does not fit into 64 bits; expected numbers below 2**63: use names instead."


def _plain_labels(index: pd.Index, name: str) -> np.ndarray:
    """Class names as an array of text or of whole numbers: what comparison and saving can rely on."""
    if not index.is_unique:
        twice = index[index.duplicated()][0]
        raise BadInput(f"`{name}` has two rows for class {twice!r}; expected one row per class.")
    values = index.tolist()
    if all(isinstance(v, str) for v in values):
        return name_array(values)
    if all(isinstance(v, (int, np.integer)) for v in values):
        if too_large := [v for v in values if not -(2**63) <= v < 2**63]:
            raise BadInput(_too_large(too_large[0]))
        return np.asarray(values, dtype=np.int64)
    kinds = sorted({type(v).__name__ for v in values})
    raise BadInput(f"`{name}` must be indexed by class names or whole numbers; its index holds {', '.join(kinds)}.")


# Range of numbers


class OutOfRange(ArithmeticError):
    """Something that was computed is NaN or infinite."""


def all_finite(values: np.ndarray) -> bool:
    """Whether no number is NaN or infinite; part by part, which stays in the processor's cache."""
    values = np.atleast_1d(values)
    step = max(1, _LOOKED_AT * len(values) // max(1, values.size))
    return all(np.isfinite(values[start : start + step]).all() for start in range(0, len(values), step))


def require_finite(values: np.ndarray) -> None:
    """Raise `OutOfRange` unless all numbers are finite."""
    if not all_finite(values):
        raise OutOfRange


@contextmanager
def numbers_in_range(estimator: ZeroShotClassifier, *arrays: Any) -> Iterator[None]:
    """Reject numbers whose products are no longer finite, instead of answering with NaN.

    Libraries fail in ways of their own on the way to NaN. Their errors mean that numbers are out of range only if a
    parameter or an array is of extreme size; otherwise they are bugs and raise as they are.
    """
    try:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # results are checked instead
            yield
    except BadInput:
        raise
    except (ValueError, ArithmeticError, RuntimeError) as error:
        numbers = {k: v for k, v in estimator.get_params(deep=False).items() if isinstance(v, int | float)}
        huge = [(name, value) for name, value in numbers.items() if abs(value) > 1e15]
        if huge:
            name, value = huge[0]
            raise BadInput(
                f"{type(estimator).__name__} cannot compute with {name}={str(value)[:40]}: numbers are no longer "
                "finite on the way; give a smaller one."
            ) from error
        floats = [a for a in arrays if isinstance(a, np.ndarray) and a.size and a.dtype.kind == "f"]
        sizes = [np.abs(array).max() for array in floats]
        if not isinstance(error, OutOfRange) and all(1e-15 < size < 1e15 for size in sizes):
            raise
        raise BadInput(
            f"{type(estimator).__name__} cannot compute with these numbers, which reach {max(sizes, default=0):.3g}: "
            "something is no longer finite on the way. Bring features and descriptions to a usual scale, for example "
            "with feature_scaling='standard' (attribute_scaling='standard')."
        ) from error
