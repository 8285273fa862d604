"""Arrays of the types that a data set is made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from firstsight.disk_rows import DiskRows
from firstsight.errors import BadInput

PARTS = ("train", "test_seen", "test_unseen")
_BLOCK = 1 << 22  # bytes of features looked at in one go


def as_float32(what: str, array: object) -> Any:
    """A C-contiguous float32 matrix, the same memory when it already is one; rows on the disk stay there."""
    if isinstance(array, DiskRows):
        return array
    values = np.asarray(array)
    if values.ndim != 2 or values.dtype.kind not in "fiub":
        raise BadInput(
            f"`{what}` must be a matrix of numbers, but it has shape {values.shape} and type {values.dtype}; "
            "give one row per entry and one column per number."
        )
    with np.errstate(over="ignore"):  # too large for float32 becomes inf, which is then reported as such
        return np.ascontiguousarray(values, dtype=np.float32)


def as_integers(what: str, array: object) -> np.ndarray:
    """A flat int64 array; MATLAB keeps whole numbers as doubles, so those are welcome."""
    values = np.asarray(array)
    if values.size == 0:
        return np.empty(0, dtype=np.int64)
    if values.ndim > 1 and max(values.shape) == values.size:  # MATLAB's columns
        values = values.reshape(-1)
    # 2^53 is where doubles stop telling whole numbers apart; a cast from beyond int64 is undefined, or turns the sign
    whole = values.dtype.kind in "iuf" and np.all(
        (values == np.round(values)) & (values >= -(2.0**53)) & (values <= 2.0**53)
    )
    if values.ndim != 1 or not whole:
        raise BadInput(
            f"`{what}` must be a list of whole numbers up to 2^53, but it has shape {values.shape} and type "
            f"{values.dtype}; give one whole number per entry."
        )
    return values.astype(np.int64, copy=False)


def frozen(array: Any) -> Any:
    """A read-only view; the caller's own array stays as writable as it was."""
    if isinstance(array, DiskRows):  # which nobody can write to
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def in_range(numbers: np.ndarray, n: int) -> np.ndarray:
    """Those from 0 to n − 1."""
    return numbers[(numbers >= 0) & (numbers < n)]


def blocks(rows: np.ndarray, width: int) -> Iterator[np.ndarray]:
    """`rows` in pieces whose features take a few megabytes, so that a check never copies the data set."""
    step = max(1, _BLOCK // (4 * max(1, width)))
    for start in range(0, len(rows), step):
        yield rows[start : start + step]
