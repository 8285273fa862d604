"""Gaussian-process prior over class means: the kernel of descriptions and posterior means."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

# How alike two classes are by their descriptions: a mean of kernels over scalings, half Gaussian, half arc-cosine.

# Powers of an attribute's spread that it is divided by after centring; None leaves descriptions as they are.
SCALINGS = (None, 0.5, 1.0)
# Of the Gaussians, in units of the mean squared distance between two seen classes. Averaging beat choosing.
WIDTHS = (0.25, 0.5, 1.0)
# The arc-cosine kernel is that of a layer of infinitely many rectified units (Cho and Saul, NIPS 2009), which sees an
# attribute's effect go on where no seen class has been; a Gaussian falls back to the mean there. This is the constant
# that every description has as one more attribute.
BIAS = 0.5


def fit_kernel(S: np.ndarray) -> dict[str, np.ndarray]:
    """Centre, spread and units of the seen classes' descriptions S (k, a), and the constant: all that `kernel` needs.

    A model that was saved when there were only Gaussians has no constant, and is refused instead of answering wrongly.
    """
    S = S.astype(np.float64)
    spread = S.std(axis=0)
    # A tenth of the mean keeps an attribute that hardly varies from being blown up.
    fitted = {"centre": S.mean(axis=0), "spread": spread + 0.1 * spread.mean() + 1e-12}
    pairs = len(S) * (len(S) - 1)
    units = [_squared_distances(v, v).sum() / pairs for v in _views(fitted, S)]
    # Descriptions that are all the same have no distance to measure by: every two classes are then as near as can be.
    fitted["units"] = np.array([unit if unit > 1e-12 else 1.0 for unit in units])
    fitted["bias"] = np.array([BIAS])
    return fitted


def kernel(fitted: dict[str, np.ndarray], A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """K (len(A), len(B)) in float64, 1 where two descriptions are the same."""
    total = np.zeros((len(A), len(B)))
    for a, b, unit in zip(_views(fitted, A), _views(fitted, B), fitted["units"], strict=True):
        near = np.exp(-WIDTHS[0] / unit * _squared_distances(a, b))
        # Widths double: each Gaussian is the square of the one before, far cheaper than an exponential.
        for _ in WIDTHS:
            total += near / len(WIDTHS)
            near = near * near
        total += _arc_cosine(a, b, fitted["bias"][0])
    return total / (2 * len(SCALINGS))


def kernels_of_halves(descriptions: np.ndarray, seen: int, pairs: int) -> Iterator[np.ndarray]:
    """K among all classes by one half of the attributes and by the other, for each of `pairs` random cuts in two.

    Units come from the seen classes, whose descriptions are the first ones. One attribute cannot be cut.
    """
    rng, a = np.random.default_rng(0), descriptions.shape[1]
    for _ in range(pairs if a > 1 else 0):
        order = rng.permutation(a)
        for half in (order[: a // 2], order[a // 2 :]):
            part = descriptions[:, np.sort(half)]
            yield kernel(fit_kernel(part[:seen]), part, part)


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
        gaussians = [graph("Exp", graph("Mul", near, graph.constant(width / unit))) for width in WIDTHS]
        total += [graph("Mean", *gaussians), _export_arc_cosine(graph, graph.unit(mine), view, fitted["bias"][0])]
    return graph("Mean", *total)


def _arc_cosine(A: np.ndarray, B: np.ndarray, bias: float) -> np.ndarray:
    """(sin θ + (π − θ) cos θ)/π with θ the angle between two descriptions, the constant included: 1 if it is none."""
    lengths = np.sqrt(np.outer(*((V**2).sum(axis=1) + bias**2 for V in (A, B))))
    cosine = np.clip((A @ B.T + bias**2) / lengths, -1, 1)
    angle = np.arccos(cosine)
    return (np.sin(angle) + (np.pi - angle) * cosine) / np.pi


def _export_arc_cosine(graph: Any, A: str, B: np.ndarray, bias: float) -> str:
    """The same in an ONNX graph."""
    square = graph.constant(bias**2)
    lengths = graph("Sqrt", graph("Add", graph.row_sums(graph("Mul", A, A)), square))  # (n, 1)
    product = graph("Add", graph("MatMul", A, graph.constant(B.T)), square)
    cosine = graph("Div", product, graph("Mul", lengths, graph.constant(np.sqrt((B**2).sum(axis=1) + bias**2))))
    cosine = graph("Clip", cosine, graph.constant(-1.0), graph.constant(1.0))
    angle = graph("Acos", cosine)
    rest = graph("Mul", graph("Sub", graph.constant(np.pi), angle), cosine)
    return graph("Div", graph("Add", graph("Sin", angle), rest), graph.constant(np.pi))


def _views(fitted: dict[str, np.ndarray], A: np.ndarray) -> list[np.ndarray]:
    A = A.astype(np.float64)
    centred = A - fitted["centre"]
    return [_unit(A if power is None else centred / fitted["spread"] ** power) for power in SCALINGS]


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def _squared_distances(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    squares = (A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1) - 2 * A @ B.T
    return np.maximum(squares, 0)


# Class means under a Gaussian-process prior over descriptions: what rows and what other classes say of a mean.


def mean_weights(K: np.ndarray, noise_of: np.ndarray, means: np.ndarray) -> np.ndarray:
    """(K + diag noise_of)⁻¹ means (k, e): the mean of any class is its kernel with these k classes times this."""
    return cho_solve(cho_factor(K + np.diag(noise_of), lower=True), means)


def precision(K: np.ndarray, noise_of: np.ndarray) -> np.ndarray:
    """B⁻¹ (k, k) of B = K + diag noise_of: all that predicting each class from the others needs."""
    return np.linalg.inv(K + np.diag(noise_of))


def leave_one_out_errors(inverse: np.ndarray, means: np.ndarray) -> np.ndarray:
    """mean_c − (the mean of c predicted from the other classes) (k, e), for every class at once and without refitting.

    By B⁻¹ it is [B⁻¹ means]_c / [B⁻¹]_cc.
    """
    return inverse @ means / np.diag(inverse)[:, None]


def mean_variances(K: np.ndarray, noise_of: np.ndarray, across: np.ndarray, own: np.ndarray) -> np.ndarray:
    """How uncertain (m,) each coordinate of a class's mean is that has kernel `across` (m, k) with the k classes.

    `own` (m,) is its kernel with itself: the variance before anything is known.
    """
    return own - (across.T * cho_solve(cho_factor(K + np.diag(noise_of), lower=True), across.T)).sum(axis=0)


def leave_one_out_variances(inverse: np.ndarray, noise_of: np.ndarray) -> np.ndarray:
    """The same (k,) of the k classes, each of them predicted from the others by B⁻¹: 1/[B⁻¹]_cc − noise_c."""
    return 1 / np.diag(inverse) - noise_of


def mean_squared_error(errors: np.ndarray) -> float:
    """The mean over classes of the squared length of an error: how far a predicted mean is from where it should be."""
    return float((errors**2).sum(axis=1).mean())


def same_rows(A: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The position (n,) of the first of the `known` descriptions that each row of A is, but for rounding; else −1."""
    if not len(known):
        return np.full(len(A), -1)
    gaps = np.array([np.abs(known - row).max(axis=1) for row in A])  # (n, j)
    return np.where(gaps.min(axis=1) <= 1e-6 * max(np.abs(known).max(), 1e-12), gaps.argmin(axis=1), -1)
