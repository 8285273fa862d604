"""Fingerprints: what "the same data" means for records, checkpoints and models.

Two computers never promise the same last bits: a mean, a matrix product or a vision model is rounded differently by
another processor or another release of a library. So identity has two halves:

- **exact**: shapes, names, labels, splits, settings and whole numbers, compared by a hash;
- **approximate**: floating-point arrays, compared by sums that random weights make of them. Arrays whose values differ
  by rounding alone (up to about 1 part in 10,000) are the same data; another, missing, repeated or exchanged sample,
  a column in another position or another scale is not.

Hashes of bytes are used where bytes are meant: whether a file is damaged, whether an image file was read before.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import numpy as np

from firstsight._io.disk_samples import blocks_of

_GROUPS = 32  # samples are summed in so many groups, so that one sample among many still shows
_VALUES_AT_ONCE = 2**19  # 4 MiB of float64
_STEP = 2.0**-16
_TOLERANCE = 8  # steps; rounding moves a sum by less than one of them, another sample mostly by hundreds


def fingerprint(settings: str, *arrays: Any) -> str:
    """Text that stands for settings (`settings`) and arrays; compare it with `same_data`, not with `==`."""
    exact = hashlib.sha256(settings.encode("utf-8", "surrogatepass"))
    sums: list[np.ndarray] = []
    for array in arrays:
        exact.update(f"{array.shape}{array.dtype.kind}".encode())
        if array.dtype.kind == "f":
            missing, of_array = _weighted_sums(array)
            exact.update(f"{missing}".encode())
            sums.append(of_array)
        else:
            exact.update(np.ascontiguousarray(array).tobytes())
    steps = np.concatenate([np.zeros(0), *sums]) / _STEP
    packed = np.rint(np.clip(steps, -(2**30), 2**30)).astype("<i4").tobytes()
    return f"{exact.hexdigest()[:16]}.{base64.urlsafe_b64encode(packed).decode()}"


def same_data(first: str, other: str) -> bool:
    """Whether two fingerprints are of the same data, but for rounding."""
    (exact, sums), (other_exact, other_sums) = _parts(first), _parts(other)
    return (
        exact == other_exact and len(sums) == len(other_sums) and bool((np.abs(sums - other_sums) <= _TOLERANCE).all())
    )


def _weighted_sums(array: Any) -> tuple[int, np.ndarray]:
    """The number of values that are not finite; the logarithm of the size and a sum per group of samples."""
    matrix_width = int(np.prod(array.shape[1:], dtype=np.int64))
    of_columns = _weights(np.random.default_rng(0), matrix_width)
    rng = np.random.default_rng(1)
    sums, squares, missing = np.zeros(_GROUPS), np.zeros(_GROUPS), 0
    for where, block in blocks_of(array, max(1, _VALUES_AT_ONCE // max(1, matrix_width))):
        values = np.asarray(block, dtype=np.float64).reshape(len(block), matrix_width)
        finite = np.isfinite(values)
        if not finite.all():
            missing += int((~finite).sum())
            values = np.where(finite, values, 0)
        group = np.arange(where.start, where.start + len(values)) % _GROUPS
        sums += np.bincount(group, _weights(rng, len(values)) * (values @ of_columns), minlength=_GROUPS)
        squares += np.bincount(group, np.einsum("ij,ij->i", values, values), minlength=_GROUPS)
    size = float(np.sqrt(squares.sum()))
    relative = sums / np.where(squares > 0, np.sqrt(squares), 1)
    return missing, np.array([np.log2(size) if size else 0.0, *relative])


def _weights(rng: np.random.Generator, count: int) -> np.ndarray:
    """Random, of either sign, all different, none near zero: every value counts, and its position, too."""
    uniform = rng.random(count) * 2 - 1
    weights: np.ndarray = uniform + np.sign(uniform) * 0.5
    return weights


def _parts(text: str) -> tuple[str, np.ndarray]:
    exact, _, packed = text.partition(".")
    try:
        return exact, np.frombuffer(base64.urlsafe_b64decode(packed), dtype="<i4").astype(np.int64)
    except ValueError:  # not one of ours: equal to nothing but itself
        return text, np.zeros(0, dtype=np.int64)
