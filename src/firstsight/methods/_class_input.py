"""What a caller hands to a method: labels, tables of descriptions, candidates; checked, and put in order by name."""

from __future__ import annotations

import difflib
from numbers import Number
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.utils.validation import _get_feature_names

from firstsight._io.files import name_problem
from firstsight.errors import BadInput

Descriptions = pd.DataFrame | ArrayLike
Candidates = pd.DataFrame | ArrayLike | None
LONGEST_NAME = 10_000
_LOOKED_AT = 2**16  # numbers at a time


def described_classes(table: pd.DataFrame, known: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Labels and descriptions of candidates, as wide as the `known` descriptions (C, a) of a fit."""
    labels, A = read_descriptions(table, known.dtype, name)
    if A.shape[1] != known.shape[1]:
        raise BadInput(
            f"`{name}` describes each class by {A.shape[1]} numbers; this model was fitted with "
            f"{known.shape[1]}: give the same attributes in the same order."
        )
    return labels, A


def places_of(classes: ArrayLike, known: np.ndarray) -> np.ndarray:
    """Where the candidates that were named stand among the classes that a model knows."""
    labels = np.asarray(classes)
    if labels.ndim != 1 or len(labels) == 0:
        raise BadInput(
            f"`classes` must be a non-empty list of classes or a DataFrame of descriptions indexed by class; "
            f"got an array of shape {labels.shape}."
        )
    position: np.ndarray = pd.Index(known).get_indexer(pd.Index(labels))
    if (position < 0).any():
        stranger = labels[position < 0][0]
        near = difflib.get_close_matches(str(stranger), [str(c) for c in known], n=1)
        raise BadInput(
            f"`classes` contains {stranger.item() if hasattr(stranger, 'item') else stranger!r}, which this "
            "model has no description of"
            + (f"; did you mean {near[0]!r}?" if near else ".")
            + " To name a new class, pass a DataFrame with its description."
        )
    if len(np.unique(position)) < len(position):
        raise BadInput("`classes` names a class twice; name each candidate once.")
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


class OutOfRange(ArithmeticError):
    """Something that was computed is NaN or infinite."""


def all_finite(values: np.ndarray) -> bool:
    """Part by part: what is noted of a part stays in the processor's cache, and takes no second array."""
    values = np.atleast_1d(values)
    step = max(1, _LOOKED_AT * len(values) // max(1, values.size))
    return all(np.isfinite(values[start : start + step]).all() for start in range(0, len(values), step))


def require_finite(values: np.ndarray) -> None:
    if not all_finite(values):
        raise OutOfRange


def check_finite(values: np.ndarray, name: str) -> None:
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
