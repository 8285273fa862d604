"""ESZSL: a bilinear score between features and descriptions, learned in closed form."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.linalg import solve

from firstsight.methods._moments import MomentClassifier, gram, mean_eigenvalue
from firstsight.methods._validation import Range
from firstsight.methods.base import Scaling


class ESZSL(MomentClassifier):
    """Learns one matrix V that says how well a feature vector and a class description go together.

    The score of a class is bilinear, xᵀVa_c, and is fitted by least squares to 1 for the class of a sample and to 0 for
    every other seen class. The penalties are chosen so that the solution is a product of three matrices:
    one ridge regression on the side of the features, one on the side of the descriptions. A new class
    is recognised at once, because V maps its description to a linear classifier.

    Objective, with S (k, a) the descriptions of the seen classes and Y (n, k) their one-hot codes in {0, 1}::

        ‖X V Sᵀ − Y‖² + γ ‖V Sᵀ‖² + λ ‖X V‖² + γλ ‖V‖²

    whose minimum is V = (XᵀX + γI)⁻¹ XᵀYS (SᵀS + λI)⁻¹. XᵀX and XᵀY, the class sums, are all it needs of the
    samples; both inverses are Cholesky solves.

    Score: xᵀVa_c.

    Parameters
    ----------
    feature_penalty : float
        γ, the ridge penalty on the side of the features, as a multiple of the mean eigenvalue of XᵀX: it means the
        same however many samples there are and however long they are.
    attribute_penalty : float
        λ, the ridge penalty on the side of the descriptions, as a multiple of the mean eigenvalue of SᵀS.
    feature_scaling, attribute_scaling : {None, "unit", "standard"}
        Scaling of features and of descriptions, fitted on the training samples and seen classes.

    Attributes
    ----------
    classes_, descriptions_ : array (C,) and array (C, a)
        Every class that can be named, and its description.
    weights_ : array (d, a)
        V.

    Notes
    -----
    Differences from the paper: Y is in {0, 1} instead of {−1, 1}. With k classes, k − 1 of the −1 say the same thing,
    and without an intercept the fit spends itself on them (on CUB that costs 25 points).

    References
    ----------
    B. Romera-Paredes, P. Torr, An Embarrassingly Simple Approach to Zero-Shot Learning, ICML 2015.
    https://proceedings.mlr.press/v37/romera-paredes15.html

    Examples
    --------
    >>> import numpy as np
    >>> from firstsight.methods import ESZSL
    >>> rng = np.random.default_rng(0)
    >>> descriptions = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 1], [1, 0, 1.0]])
    >>> y = np.repeat([0, 1, 2, 3, 4], 40)                  # class 5 has a description, but no samples
    >>> X = descriptions[y] + 0.1 * rng.normal(size=(200, 3))
    >>> model = ESZSL(feature_penalty=1.0).fit(X, y, descriptions)
    >>> model.predict([[1.0, 0.1, 0.9]], classes=[1, 5])
    array([5])
    """

    space = "latent"
    needs = frozenset({"gram"})
    reference = "Romera-Paredes and Torr, An Embarrassingly Simple Approach to Zero-Shot Learning, ICML 2015"
    grid: ClassVar[dict[str, list[Any]]] = {
        "feature_penalty": [0.1, 0.288, 1.0],
        "attribute_penalty": [0.1, 0.624],
    }

    fitted_arrays: ClassVar[dict[str, str]] = {"weights_": "d a"}
    parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "feature_penalty": [Range(float, above=0)],
        "attribute_penalty": [Range(float, above=0)],
    }

    def __init__(
        self,
        *,
        feature_penalty: float = 0.288,
        attribute_penalty: float = 0.624,
        feature_scaling: Scaling = None,
        attribute_scaling: Scaling = "unit",
    ) -> None:
        self.feature_penalty = feature_penalty
        self.attribute_penalty = attribute_penalty
        self.feature_scaling = feature_scaling
        self.attribute_scaling = attribute_scaling

    def _solve(self, moments, S):
        left = _ridge(moments.gram, self.feature_penalty)  # (d, d)
        right = _ridge(gram(S), self.attribute_penalty)  # (a, a)
        half = solve(left, moments.sums.T @ S, assume_a="pos")  # (d, a)
        self.weights_ = solve(right, half.T, assume_a="pos").T.astype(moments.dtype)  # (d, a)

    def _embed_classes(self, A):
        # One linear classifier per class (k, d). Of more classes than features, rows are brought to the descriptions,
        # unless those are the longer ones.
        d, a = self.weights_.shape
        return ("rows", A) if len(A) > d >= a else ("classes", A @ self.weights_.T)

    def _scores(self, X, E, seen):
        mapped, classes = E
        return (X @ self.weights_ if mapped == "rows" else X) @ classes.T  # (n, k)

    def _export_scores(self, graph, X, A, seen):
        return graph.bilinear(X, self.weights_, A)


def _ridge(M: np.ndarray, penalty: float) -> np.ndarray:
    return M + penalty * mean_eigenvalue(M) * np.eye(len(M))
