"""What must hold for arrays to be a zero-shot data set; every failure is one sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from firstsight.errors import BadInput

PARTS = ("train", "test_seen", "test_unseen")
_BLOCK = 1 << 22  # bytes of features looked at in one go


def as_float32(what: str, array: object) -> np.ndarray:
    """A C-contiguous float32 matrix; the same memory when it already is one."""
    found = np.asarray(array)
    if found.ndim != 2 or found.dtype.kind not in "fiub":
        raise BadInput(
            f"`{what}` must be a matrix of numbers, but it has shape {found.shape} and type {found.dtype}; "
            "give one row per entry and one column per number."
        )
    with np.errstate(over="ignore"):  # too large for float32 becomes inf, which is then reported as such
        return np.ascontiguousarray(found, dtype=np.float32)


def as_integers(what: str, array: object) -> np.ndarray:
    """A flat int64 array; MATLAB keeps whole numbers as doubles, so those are welcome."""
    found = np.asarray(array)
    if found.size == 0:
        return np.empty(0, dtype=np.int64)
    if found.ndim > 1 and max(found.shape) == found.size:  # MATLAB's columns
        found = found.reshape(-1)
    whole = found.dtype.kind in "iu" or (
        found.dtype.kind == "f"
        # 2^53 is where doubles stop telling whole numbers apart; a cast from beyond int64 is undefined
        and bool(np.all(np.isfinite(found) & (found == np.round(found)) & (np.abs(found) <= 2.0**53)))
    )
    if found.ndim != 1 or not whole:
        raise BadInput(
            f"`{what}` must be a list of whole numbers, but it has shape {found.shape} and type "
            f"{found.dtype}; give one whole number per entry."
        )
    return found.astype(np.int64, copy=False)


def frozen(array: np.ndarray) -> np.ndarray:
    """A read-only view; the caller's own array stays as writable as it was."""
    view = array.view()
    view.flags.writeable = False
    return view


def check_range(what: str, values: np.ndarray, n: int, of: str, numbered_from: int = 0) -> None:
    """Refuse numbers outside 0 … n−1, spoken of in the numbering of the file they came from."""
    outside = values[(values < 0) | (values >= n)]
    if outside.size:
        raise BadInput(
            f"`{what}` contains {outside[0] + numbered_from}, but {of} are numbered {numbered_from} to "
            f"{n - 1 + numbered_from}; correct it."
        )


def check_names(class_names: Sequence[str]) -> None:
    if "" in class_names:
        raise BadInput("`class_names` contains an empty name; give every class a name.")
    if len(set(class_names)) < len(class_names):
        name = next(n for i, n in enumerate(class_names) if n in class_names[:i])
        raise BadInput(f"`class_names` contains {name!r} twice; give every class its own name.")


def check_length(what: str, length: int, expected: int, of: str) -> None:
    if length != expected:
        raise BadInput(f"`{what}` has {length} entries, but there are {expected} {of}; give one per {of[:-1]}.")


def check_descriptions(attributes: np.ndarray, class_names: Sequence[str]) -> None:
    bad = np.flatnonzero(~np.isfinite(attributes).all(axis=1))
    if bad.size:
        raise BadInput(
            f"The description of class {class_names[bad[0]]!r} is missing or contains NaN or infinite values "
            f"({bad.size} such classes in all); give every class finite numbers."
        )
    if attributes.shape[1] == 0:
        raise BadInput("`description_matrix` has no columns; give every class at least one number.")


def check_parts(
    parts: Mapping[str, np.ndarray],
    labels: np.ndarray,
    class_names: Sequence[str],
    numbered_from: int = 0,
    needed: Sequence[str] = ("train", "test_unseen"),
) -> None:
    """The three sets of rows are in range, disjoint, and disjoint in classes where zero-shot demands it."""
    for part, rows in parts.items():
        check_range(part, rows, len(labels), "rows", numbered_from)
        check_range("labels", labels[rows], len(class_names), "classes", numbered_from)
        if part in needed and rows.size == 0:
            raise BadInput(f"`{part}` has no rows; a zero-shot data set needs at least one.")
        values, counts = np.unique(rows, return_counts=True)
        if values.size < rows.size:
            twice = values[counts > 1]
            raise BadInput(
                f"`{part}` contains row {twice[0] + numbered_from} more than once ({twice.size} such rows); "
                "list every row once."
            )
    for i, one in enumerate(PARTS):
        for other in PARTS[i + 1 :]:
            both = np.intersect1d(parts[one], parts[other])
            if both.size:
                raise BadInput(
                    f"Row {both[0] + numbered_from} is in both `{one}` and `{other}` ({both.size} such "
                    "rows); every row belongs to one part at most."
                )
    classes = {part: np.unique(labels[rows]) for part, rows in parts.items()}
    leaked = np.intersect1d(classes["train"], classes["test_unseen"])
    if leaked.size:
        raise BadInput(
            f"Class {class_names[leaked[0]]!r} is in both `train` and `test_unseen` ({leaked.size} such "
            "classes); an unseen class must have no training row."
        )
    strange = np.setdiff1d(classes["test_seen"], classes["train"])
    if strange.size:
        raise BadInput(
            f"Class {class_names[strange[0]]!r} is in `test_seen`, but has no row in `train` ({strange.size} "
            "such classes); move its rows to `test_unseen` or train on some."
        )


def blocks(rows: np.ndarray, width: int) -> Iterator[np.ndarray]:
    """`rows` in pieces whose features take a few megabytes, so that a check never copies the data set."""
    step = max(1, _BLOCK // (4 * max(1, width)))
    for start in range(0, len(rows), step):
        yield rows[start : start + step]


def check_finite(features: np.ndarray, rows: np.ndarray) -> None:
    for block in blocks(rows, features.shape[1]):
        good = np.isfinite(features[block]).all(axis=1)
        if not good.all():
            raise BadInput(
                f"`features` contains NaN or infinite values in row {block[np.argmin(good)]} (counted from "
                "0); replace them or leave the row out of every part."
            )
