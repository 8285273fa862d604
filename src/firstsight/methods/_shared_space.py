"""Samples and texts as unit vectors of one space: what methods on the features of CLIP and SigLIP share."""

from __future__ import annotations

from typing import Any

import numpy as np

from firstsight.errors import BadInput
from firstsight.methods.base import ZeroShotClassifier, scale

LOGIT_SCALE = 100.0  # what CLIP multiplies cosines with; published values of the methods' parameters go with it


def check_one_space(method: ZeroShotClassifier, X: np.ndarray, S: np.ndarray) -> None:
    """Raise `BadInput` if samples and descriptions cannot be vectors of one space."""
    if X.shape[1] != S.shape[1]:
        given = f"descriptions of {S.shape[1]}" if method.described_ else "no descriptions"
        raise BadInput(
            f"{type(method).__name__} compares rows with descriptions directly, so both must be vectors of one space; "
            f"got rows of {X.shape[1]} numbers and {given}. Embed images and class names with one vision-language "
            "model (CLIP, SigLIP), or use a method that learns how descriptions go with rows."
        )


def unit(values: np.ndarray) -> np.ndarray:
    """Rows of unit length; a row of zeros stays one."""
    return scale("unit", {}, values)


def nearness_to_classes(rows: np.ndarray, samples: np.ndarray, counts: np.ndarray, beta: float) -> np.ndarray:
    """Σ_i exp(−β (1 − x·f_i)) over the samples of each class (n, k): those of one class after those of another.

    `rows (n, d)` and `samples (m, d)` have unit length, `counts (k,)` adds up to m and has no zero.
    """
    starts = np.cumsum(counts) - counts
    out = np.empty((len(rows), len(counts)), dtype=rows.dtype)
    step = max(1, 2**21 // len(samples))  # 16 MiB at a time
    for part in range(0, len(rows), step):
        near = np.exp(beta * (rows[part : part + step] @ samples.T - 1))
        np.add.reduceat(near, starts, axis=1, out=out[part : part + step])
    return out


def export_nearness_to_classes(graph: Any, rows: str, samples: np.ndarray, counts: np.ndarray, beta: float) -> str:
    """As `nearness_to_classes`, in an ONNX graph."""
    off = graph("Sub", graph("MatMul", rows, graph.constant(samples.T)), graph.constant(1.0))
    near = graph("Exp", graph("Mul", off, graph.constant(beta)))
    return graph("MatMul", near, graph.constant(np.repeat(np.eye(len(counts)), counts, axis=0)))


def fitted_or_predicted(seen: np.ndarray, fitted: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """What was fitted (seen classes, …) of candidates with a training code, else what was predicted (k, …)."""
    known = (seen >= 0).reshape(-1, *[1] * (predicted.ndim - 1))
    return np.where(known, fitted[seen], predicted)


def export_fitted_or_predicted(graph: Any, seen: str, fitted: np.ndarray, predicted: str) -> str:
    """As `fitted_or_predicted`, for matrices, in an ONNX graph."""
    zero = graph.constant(0, np.int64)
    is_seen = graph("Unsqueeze", graph("Not", graph("Less", seen, zero)), graph.constant([1], np.int64))  # (k, 1)
    return graph("Where", is_seen, graph("Gather", graph.constant(fitted), graph("Max", seen, zero), axis=0), predicted)
