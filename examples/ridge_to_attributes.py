"""Ridge regression onto attributes: the method that `plot_own_method.py` and docs/own_method.md are about."""

from typing import Any, ClassVar

import numpy as np

from firstsight.methods import Range, ZeroShotClassifier


class RidgeToAttributes(ZeroShotClassifier):
    """Ridge regression of a row onto the description of its class.

    Objective: ‖XW − S_y‖² + penalty · ‖W‖². Score: the cosine of xW and the candidate's description.

    Parameters: penalty; feature_scaling, attribute_scaling, as every method has them. Attributes: weights_ (d, a), W.

    Reference: M. Palatucci et al., Zero-Shot Learning with Semantic Output Codes, NIPS 2009.

    Examples
    --------
    >>> RidgeToAttributes(penalty=3.0).fit([[0.0, 1.0], [1.0, 0.0]], ["up", "right"]).predict([[0.1, 0.9]])
    array(['up'], dtype='<U5')
    """

    space = "semantic"
    reference = "Palatucci et al., Zero-Shot Learning with Semantic Output Codes, NIPS 2009"
    grid: ClassVar[dict[str, list[Any]]] = {"penalty": [1.0, 10.0, 100.0]}  # what `firstsight tune` tries
    parameter_constraints: ClassVar[dict[str, list[Any]]] = {"penalty": [Range(float, above=0)]}

    def __init__(self, *, penalty: float = 10.0, feature_scaling=None, attribute_scaling=None):
        self.penalty = penalty
        self.feature_scaling = feature_scaling
        self.attribute_scaling = attribute_scaling

    def _fit(self, X, y, S):
        d = X.shape[1]
        self.weights_ = np.linalg.solve(X.T @ X + self.penalty * np.eye(d, dtype=X.dtype), X.T @ S[y])  # (d, a)

    def _scores(self, X, E, seen):
        Z = X @ self.weights_
        Z, E = (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12) for rows in (Z, E))
        return Z @ E.T
