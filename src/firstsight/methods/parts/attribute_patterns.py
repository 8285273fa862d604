"""Classes as patterns of yes and no: what DAP and IAP share."""

from __future__ import annotations

from typing import Any

import numpy as np


def binarise(A: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """1 where an attribute of a class exceeds its threshold, else 0; (C, a) in the type of `A`."""
    return (thresholds < A).astype(A.dtype)


def pattern_scores(log_yes: np.ndarray, log_no: np.ndarray, priors: np.ndarray, patterns: np.ndarray) -> np.ndarray:
    """Σ_m log p(a_m^c|x) − log p(a_m^c)  (n, C).

    `log_yes`, `log_no (n, a)` are the log-probabilities that a row has an attribute and that it has not, `priors (a,)`
    the share of seen classes that have it, `patterns (C, a)` the classes. An attribute that all seen classes
    share (or lack) has a prior of 1 or 0; it tells nothing and is left out.
    """
    useful = (priors > 0) & (priors < 1)
    yes = log_yes[:, useful] - np.log(priors[useful])
    no = log_no[:, useful] - np.log1p(-priors[useful])
    return (yes - no) @ patterns[:, useful].T + no.sum(axis=1, keepdims=True)


def export_pattern_scores(
    graph: Any, log_yes: str, log_no: str, priors: np.ndarray, A: str, thresholds: np.ndarray
) -> str:
    """`pattern_scores` of the binarised descriptions `A`, in an ONNX graph."""
    useful = np.flatnonzero((priors > 0) & (priors < 1))
    yes, no, A = (graph("Gather", value, graph.constant(useful, np.int64), axis=1) for value in (log_yes, log_no, A))
    yes = graph("Sub", yes, graph.constant(np.log(priors[useful])))
    no = graph("Sub", no, graph.constant(np.log1p(-priors[useful])))
    patterns = graph.single(graph("Greater", A, graph.constant(thresholds[useful])))
    return graph("Add", graph.products(graph("Sub", yes, no), patterns), graph.row_sums(no))
