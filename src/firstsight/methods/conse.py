"""ConSE: a sample is placed among the descriptions by mixing those of the seen classes it looks like."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax

from firstsight.methods._linear_models import cross_entropy, fit_linear
from firstsight.methods._validation import Range
from firstsight.methods.base import Scaling, ZeroShotClassifier, scale


class ConSE(ZeroShotClassifier):
    """Learns a classifier of the seen classes and mixes their descriptions by its probabilities.

    Nothing is learned between features and descriptions. A softmax classifier says which seen classes a sample looks
    like; the convex combination of the descriptions of the likeliest ones places the sample among the descriptions; the
    nearest class there, seen or not, is the answer.

    Objective, a multinomial logistic regression over the seen classes::

        mean_i −log softmax(Wᵀx_i + b)_{y_i} + α/2 ‖W‖²

    solved by L-BFGS; then f(x) = Σ_{t ≤ T} p(y_t | x) a_{y_t} / Σ_{t ≤ T} p(y_t | x) over the T likeliest seen classes.

    Score: cos(f(x), a_c).

    Parameters
    ----------
    top : int
        T, how many seen classes are mixed; all of them if there are fewer.
    penalty : float
        α, the weight of the squared norm of the weights, as a multiple of the mean variance of the features.
    feature_scaling, attribute_scaling : {None, "unit", "standard"}
        Scaling of features and of descriptions, fitted on the training samples and seen classes.

    Attributes
    ----------
    classes_, descriptions_ : array (C,) and array (C, a)
        Every class that can be named, and its description.
    seen_descriptions_ : array (k, a)
        Of the seen classes, as they are mixed.
    weights_, intercepts_ : array (d, k) and array (k,)
        W and b.

    Notes
    -----
    Differences from the paper: the classifier is linear on given features instead of the last layer of the network that
    makes them, and descriptions are attributes instead of word vectors.

    References
    ----------
    M. Norouzi et al., Zero-Shot Learning by Convex Combination of Semantic Embeddings, ICLR 2014.
    https://arxiv.org/abs/1312.5650

    Examples
    --------
    >>> import numpy as np
    >>> from firstsight.methods import ConSE
    >>> rng = np.random.default_rng(0)
    >>> descriptions = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 1], [1, 0, 1.0]])
    >>> y = np.repeat([0, 1, 2, 3, 4], 40)                  # class 5 has a description, but no samples
    >>> X = descriptions[y] + 0.1 * rng.normal(size=(200, 3))
    >>> model = ConSE().fit(X, y, descriptions)
    >>> model.predict([[1.0, 0.1, 0.9]], classes=[1, 5])
    array([5])
    """

    space = "latent"
    reference = "Norouzi et al., Zero-Shot Learning by Convex Combination of Semantic Embeddings, ICLR 2014"
    grid: ClassVar[dict[str, list[Any]]] = {"top": [2, 5, 10], "penalty": [0.0104, 0.1]}

    fitted_arrays: ClassVar[dict[str, str]] = {"seen_descriptions_": "k a", "weights_": "d k", "intercepts_": "k"}
    parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "top": [Range(int, at_least=1)],
        "penalty": [Range(float, above=0)],
    }

    def __init__(
        self,
        *,
        top: int = 5,
        penalty: float = 0.0104,
        feature_scaling: Scaling = None,
        attribute_scaling: Scaling = "unit",
    ) -> None:
        self.top = top
        self.penalty = penalty
        self.feature_scaling = feature_scaling
        self.attribute_scaling = attribute_scaling

    def _fit(self, X, y, S):
        self.seen_descriptions_ = S
        self.weights_, self.intercepts_ = fit_linear(X, cross_entropy(y), len(S), self.penalty)

    def _embed_classes(self, A):
        return scale("unit", {}, A)  # (k, a)

    def _scores(self, X, E, seen):
        P = softmax(X @ self.weights_ + self.intercepts_, axis=1)  # (n, seen)
        if self.top < P.shape[1]:
            others = np.argpartition(-P, self.top, axis=1)[:, self.top :]
            np.put_along_axis(P, others, 0, axis=1)
        # The cosine does not feel the sum of probabilities, so the mixture need not be divided by it.
        return scale("unit", {}, P @ self.seen_descriptions_) @ E.T  # (n, k)

    def _export_scores(self, graph, X, A, seen):
        P = graph("Softmax", graph.linear(X, self.weights_.T, self.intercepts_), axis=1)
        if self.top < len(self.seen_descriptions_):
            likeliest = graph("TopK", P, graph.constant([self.top], np.int64), outputs=2)
            least = graph("ReduceMin", likeliest, axes=[1], keepdims=1)
            P = graph("Where", graph("Less", P, least), graph.constant(0.0), P)
        return graph.products(graph.unit(graph("MatMul", P, graph.constant(self.seen_descriptions_))), graph.unit(A))
