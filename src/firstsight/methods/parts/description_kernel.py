"""How alike two classes are by their descriptions: a mean of Gaussian kernels over scalings and widths."""

from __future__ import annotations

from typing import Any

import numpy as np

# Powers of an attribute's spread that it is divided by after centring; None leaves descriptions as they are.
SCALINGS = (None, 0.5, 1.0)
# Of the Gaussians, in units of the mean squared distance between two seen classes. Averaging beat choosing.
WIDTHS = (0.25, 0.5, 1.0)


def fit_kernel(S: np.ndarray) -> dict[str, np.ndarray]:
    """Centre, spread and units of the seen classes' descriptions S (k, a), all that `kernel` needs of them."""
    S = S.astype(np.float64)
    spread = S.std(axis=0)
    # A tenth of the mean keeps an attribute that hardly varies from being blown up.
    fitted = {"centre": S.mean(axis=0), "spread": spread + 0.1 * spread.mean() + 1e-12}
    pairs = len(S) * (len(S) - 1)
    units = [_squared_distances(v, v).sum() / pairs for v in _views(fitted, S)]
    # Descriptions that are all the same have no distance to measure by: every two classes are then as near as can be.
    fitted["units"] = np.array([unit if unit > 1e-12 else 1.0 for unit in units])
    return fitted


def kernel(fitted: dict[str, np.ndarray], A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """K (len(A), len(B)) in float64, 1 where two descriptions are the same."""
    total = np.zeros((len(A), len(B)))
    for a, b, unit in zip(_views(fitted, A), _views(fitted, B), fitted["units"], strict=True):
        near = np.exp(-WIDTHS[0] / unit * _squared_distances(a, b))
        # Widths double: each Gaussian is the square of the one before, far cheaper than an exponential.
        for _ in WIDTHS:
            total += near
            near = near * near
    return total / (len(SCALINGS) * len(WIDTHS))


def export_kernel(graph: Any, fitted: dict[str, np.ndarray], A: str) -> str:
    """K of descriptions that come and those that were fitted, in an ONNX graph."""
    known = fitted["descriptions"].astype(np.float64)
    total = []
    for power, view, unit in zip(SCALINGS, _views(fitted, known), fitted["units"], strict=True):
        mine = A
        if power is not None:
            spread = graph.constant(fitted["spread"] ** power)
            mine = graph("Div", graph("Sub", A, graph.constant(fitted["centre"])), spread)
        near = graph.closeness(graph.unit(mine), graph.constant(view))  # (n, k)
        total += [graph("Exp", graph("Mul", near, graph.constant(width / unit))) for width in WIDTHS]
    return graph("Mean", *total)


def _views(fitted: dict[str, np.ndarray], A: np.ndarray) -> list[np.ndarray]:
    A = A.astype(np.float64)
    centred = A - fitted["centre"]
    return [_unit(A if power is None else centred / fitted["spread"] ** power) for power in SCALINGS]


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def _squared_distances(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    squares = (A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1) - 2 * A @ B.T
    return np.maximum(squares, 0)
