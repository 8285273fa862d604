"""Scaling of features or descriptions: a named choice, fitted on training rows only."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from firstsight._io.disk_samples import DiskRows
from firstsight.methods._moments import GatheredMoments

Scaling = Literal["unit", "standard"] | None


def fit_scaling(kind: str | None, values: np.ndarray) -> dict[str, np.ndarray]:
    """What `scale` needs to know later; `values` are training rows (or seen classes) and nothing else."""
    if kind != "standard":
        return {}
    spread = values.std(axis=0)
    # A constant column carries nothing; dividing by one keeps it at zero instead of at NaN.
    spread[spread == 0] = 1.0
    return {"offset": values.mean(axis=0), "spread": spread}


def fit_scaling_from_disk(kind: str | None, X: DiskRows) -> dict[str, np.ndarray]:
    """As `fit_scaling`, in one pass over the disk."""
    if kind != "standard":
        return {}
    gathered = GatheredMoments(1, frozenset())
    for _, rows in X.blocks():
        gathered.add(rows, np.zeros(len(rows), dtype=np.int64))
    offset, spread = gathered.spread()
    spread[spread <= 1e-12 * np.abs(offset)] = 1.0  # a constant column, up to the rounding of its mean
    return {"offset": offset.astype(X.dtype), "spread": spread.astype(X.dtype)}


def scale(kind: str | None, fitted: dict[str, Any], values: np.ndarray) -> np.ndarray:
    """`values` scaled; the very same array when there is nothing to do."""
    if kind == "unit":
        with np.errstate(over="ignore"):  # looked for in the next line
            norms = np.linalg.norm(values, axis=1, keepdims=True)
        usual = (norms > 0) & (norms < np.inf)
        if not usual.all():  # zeros, or squares too large or too small for the type: as shares of the largest
            odd = np.flatnonzero(~usual)
            largest = np.abs(values[odd]).max(axis=1, keepdims=True)
            values = values.copy()
            values[odd] /= np.where(largest > 0, largest, 1.0)
            norms[odd] = np.linalg.norm(values[odd], axis=1, keepdims=True)
            norms[norms == 0] = 1.0
        return values / norms
    if kind == "standard":
        return (values - fitted["offset"]) / fitted["spread"]
    return values
