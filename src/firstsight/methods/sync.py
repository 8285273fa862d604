"""SynC: classifiers of new classes are put together from those of phantom classes."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.linalg import pinv
from scipy.spatial.distance import cdist, pdist
from scipy.special import softmax

from firstsight.methods._linear_models import fit_linear, squared_hinge
from firstsight.methods._validation import Range
from firstsight.methods.base import Scaling, ZeroShotClassifier


class SynC(ZeroShotClassifier):
    """Learns classifiers of phantom classes, of which those of all real classes are weighted means.

    A phantom class has a place among the descriptions and a linear classifier. The classifier of a real class is
    the mean of the phantoms' ones, weighted by how near its description is to theirs. The
    phantoms' classifiers are those that make up the classifiers of the seen classes; a new class gets its own from its
    description alone.

    Objective: one-vs-rest classifiers W (k, d) of the seen classes, with t_ic = 1 if sample i is of class c, else −1::

        mean_i Σ_c max(0, 1 − t_ic (w_c·x_i + b_c))² + α/2 ‖W‖²

    solved by L-BFGS for all classes at once; then the phantoms V = pinv(S_sim) W, with S_sim (k, k) the weights
    s_cr = exp(−δ²(a_c, a_r)/σ²) / Σ_r exp(−δ²(a_c, a_r)/σ²), where δ is the distance of descriptions divided by its
    median over the seen classes. The phantoms stand at the descriptions of the seen classes.

    Score: x·w_c + b_c, with w_c = Σ_r s_cr v_r and b_c likewise. (For a seen class, these are the learned ones.)

    Parameters
    ----------
    penalty : float
        α, the weight of the squared norm of the classifiers, as a multiple of the mean variance of the features.
    kernel_width : float
        σ, in units of the median distance. The wider, the more phantoms have a say.
    feature_scaling, attribute_scaling : {None, "unit", "standard"}
        Scaling of features and of descriptions, fitted on the training samples and seen classes.

    Attributes
    ----------
    classes_, descriptions_ : array (C,) and array (C, a)
        Every class that can be named, and its description.
    seen_descriptions_ : array (k, a)
        Of the seen classes, where the phantoms stand.
    median_distance_ : float
        Of the seen classes' descriptions.
    phantoms_ : array (k, d + 1)
        V, the intercept in the last column.

    Notes
    -----
    Differences from the paper: the classifiers of the seen classes are learned first and taken apart afterwards (as
    many phantoms as seen classes make this exact), instead of V in one problem.

    References
    ----------
    S. Changpinyo et al., Synthesized Classifiers for Zero-Shot Learning, CVPR 2016.
    https://arxiv.org/abs/1603.00550

    Examples
    --------
    >>> import numpy as np
    >>> from firstsight.methods import SynC
    >>> rng = np.random.default_rng(0)
    >>> descriptions = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 1], [1, 0, 1.0]])
    >>> y = np.repeat([0, 1, 2, 3, 4], 40)                  # class 5 has a description, but no samples
    >>> X = descriptions[y] + 0.1 * rng.normal(size=(200, 3))
    >>> model = SynC().fit(X, y, descriptions)
    >>> model.predict([[1.0, 0.1, 0.9]], classes=[1, 5])
    array([5])
    """

    space = "latent"
    reference = "Changpinyo et al., Synthesized Classifiers for Zero-Shot Learning, CVPR 2016"
    grid: ClassVar[dict[str, list[Any]]] = {"penalty": [3.57, 20.0], "kernel_width": [0.7, 1.4, 2.0]}

    fitted_arrays: ClassVar[dict[str, str]] = {"seen_descriptions_": "k a", "phantoms_": "k d+1"}
    parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "penalty": [Range(float, above=0)],
        "kernel_width": [Range(float, above=0)],
    }

    def __init__(
        self,
        *,
        penalty: float = 3.57,
        kernel_width: float = 1.4,
        feature_scaling: Scaling = "unit",
        attribute_scaling: Scaling = "unit",
    ) -> None:
        self.penalty = penalty
        self.kernel_width = kernel_width
        self.feature_scaling = feature_scaling
        self.attribute_scaling = attribute_scaling

    def _fit(self, X, y, S):
        self.seen_descriptions_ = S
        self.median_distance_ = float(np.median(pdist(S))) or 1.0
        signs = (2 * np.eye(len(S)) - 1).astype(X.dtype)  # (k, k)
        W, b = fit_linear(X, squared_hinge(signs[y]), len(S), self.penalty)  # (d, k), (k,)
        self.phantoms_ = (pinv(self._similarities(S)) @ np.vstack([W, b]).T).astype(X.dtype)

    def _embed_classes(self, A):
        return (self._similarities(A) @ self.phantoms_).astype(A.dtype)  # (k, d + 1)

    def _scores(self, X, E, seen):
        return X @ E[:, :-1].T + E[:, -1]  # (n, k)

    def _export_scores(self, graph, X, A, seen):
        near = graph.closeness(graph.double(A), graph.double(self.seen_descriptions_))
        width = graph.double((self.median_distance_ * self.kernel_width) ** 2)
        similar = graph("Softmax", graph("Div", near, width), axis=1)  # (k, phantoms)
        W, b = (
            graph.single(graph("MatMul", similar, graph.double(part))) for part in np.split(self.phantoms_, [-1], 1)
        )
        return graph("Add", graph.products(X, W), graph.transposed(b))

    def _similarities(self, A: np.ndarray) -> np.ndarray:
        """S_sim: how much each phantom has to say about each row of A; every row sums to one."""
        distances = cdist(A, self.seen_descriptions_) / self.median_distance_
        return softmax(-((distances / self.kernel_width) ** 2), axis=1)
