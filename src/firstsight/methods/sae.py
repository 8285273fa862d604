"""SAE: a linear autoencoder whose code is the class description."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np

from firstsight.methods._moments import MomentClassifier, mean_eigenvalue
from firstsight.methods._validation import OneOf, Range
from firstsight.methods.base import Scaling, scale


class SAE(MomentClassifier):
    """Learns one matrix W that maps features to descriptions and, transposed, descriptions back to features.

    An encoder W should send every sample to the description of its class; its transpose, used as a decoder, should
    turn this description back into the sample. Asking for the way back keeps what the encoder alone would
    throw away, so that W carries over better to classes without samples. A class may be looked up
    among the descriptions (the sample is encoded) or among the features (the descriptions are decoded).

    Objective, with S_y (n, a) the description of the class of each sample::

        ‖X − S_y W‖² + λ ‖X Wᵀ − S_y‖²

    whose minimum solves the Sylvester equation S_yᵀS_y W + λ W XᵀX = (1 + λ) S_yᵀX. S_yᵀS_y = Σ_c n_c a_c a_cᵀ and
    S_yᵀX = Σ_c a_c (sum of the samples of c)ᵀ, so S_y is never built. Both matrices beside W are symmetric: in their
    eigenvectors the equation is a division, which takes a sixth of the time of a general solver (two Schur forms)
    and gives the least-norm solution where features and descriptions both leave a direction open.

    Score: cos(Wx, a_c) ("semantic" direction) or cos(x, Wᵀa_c) ("visual" direction).

    Parameters
    ----------
    direction : {"visual", "semantic"}
        Where sample and class are compared.
    encoding_weight : float
        λ, the weight of the encoder's error relative to the decoder's, as a multiple of the mean eigenvalue of
        S_yᵀS_y over that of XᵀX: at 1 both have the same say in the equation, whatever their lengths.
    feature_scaling, attribute_scaling : {None, "unit", "standard"}
        Scaling of features and of descriptions, fitted on the training samples and seen classes.

    Attributes
    ----------
    classes_, descriptions_ : array (C,) and array (C, a)
        Every class that can be named, and its description.
    weights_ : array (a, d)
        W.

    Notes
    -----
    Differences from the paper: none but the solver.

    References
    ----------
    E. Kodirov, T. Xiang, S. Gong, Semantic Autoencoder for Zero-Shot Learning, CVPR 2017.
    https://arxiv.org/abs/1704.08345

    Examples
    --------
    >>> import numpy as np
    >>> from firstsight.methods import SAE
    >>> rng = np.random.default_rng(0)
    >>> descriptions = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 1], [1, 0, 1.0]])
    >>> y = np.repeat([0, 1, 2, 3, 4], 40)                  # class 5 has a description, but no samples
    >>> X = descriptions[y] + 0.1 * rng.normal(size=(200, 3))
    >>> model = SAE(direction="semantic").fit(X, y, descriptions)
    >>> model.predict([[1.0, 0.1, 0.9]], classes=[1, 5])
    array([5])
    """

    space = "latent"
    needs = frozenset({"gram"})
    reference = "Kodirov et al., Semantic Autoencoder for Zero-Shot Learning, CVPR 2017"
    grid: ClassVar[dict[str, list[Any]]] = {
        "direction": ["visual", "semantic"],
        "encoding_weight": [0.0936, 0.5, 2.0],
    }

    fitted_arrays: ClassVar[dict[str, str]] = {"weights_": "a d"}
    parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "direction": [OneOf("visual", "semantic")],
        "encoding_weight": [Range(float, above=0)],
    }

    def __init__(
        self,
        *,
        direction: Literal["visual", "semantic"] = "visual",
        encoding_weight: float = 0.0936,
        feature_scaling: Scaling = "standard",
        attribute_scaling: Scaling = "unit",
    ) -> None:
        self.direction = direction
        self.encoding_weight = encoding_weight
        self.feature_scaling = feature_scaling
        self.attribute_scaling = attribute_scaling

    def _solve(self, moments, S):
        left, right = (S.T * moments.counts) @ S, moments.gram  # S_yᵀS_y (a, a), XᵀX (d, d)
        weight = self.encoding_weight * mean_eigenvalue(left) / mean_eigenvalue(right)  # λ
        target = (1 + weight) * (S.T @ moments.sums)  # (a, d)
        self.weights_ = _solve_symmetric_sylvester(left, weight * right, target).astype(moments.dtype)

    def _embed_classes(self, A):
        return _unit(A if self.direction == "semantic" else A @ self.weights_)

    def _scores(self, X, E, seen):
        rows = X @ self.weights_.T if self.direction == "semantic" else X
        return _unit(rows) @ E.T  # (n, k)

    def _export_scores(self, graph, X, A, seen):
        if self.direction == "semantic":
            return graph.products(graph.unit(graph("MatMul", X, graph.constant(self.weights_.T))), graph.unit(A))
        return graph.products(graph.unit(X), graph.unit(graph("MatMul", A, graph.constant(self.weights_))))


def _unit(rows: np.ndarray) -> np.ndarray:
    return scale("unit", {}, rows)


def _solve_symmetric_sylvester(A: np.ndarray, B: np.ndarray, C: np.ndarray) -> np.ndarray:
    """The least-norm W with A W + W B = C, for positive semi-definite A and B."""
    alpha, U = np.linalg.eigh(A)
    beta, V = np.linalg.eigh(B)
    total = alpha[:, None] + beta  # (a, d); zero, up to rounding, where neither matrix sees the direction
    open_ = total <= 1e-12 * total.max()
    inside = np.where(open_, 0.0, U.T @ C @ V) / np.where(open_, 1.0, total)
    return U @ inside @ V.T
