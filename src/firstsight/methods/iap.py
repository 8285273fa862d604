"""IAP: attributes are inferred from the seen classes that a sample looks like."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax

from firstsight.methods._linear_models import binarise, cross_entropy, export_pattern_scores, fit_linear, pattern_scores
from firstsight.methods._validation import Range
from firstsight.methods.base import Scaling, ZeroShotClassifier

# Probabilities below this count as this: one attribute that no likely seen class has must not outweigh all others.
FLOOR = 1e-7


class IAP(ZeroShotClassifier):
    """Learns to tell the seen classes apart and reads attributes off them (indirect attribute prediction).

    One multinomial classifier names the seen classes that a sample may belong to. As each of them has or has not an
    attribute, the probabilities of the classes add up to that of the attribute. From there on a class is scored
    by its pattern of attributes, as in DAP.

    Objective, a multinomial logistic regression over the seen classes::

        mean_i −log softmax(Wᵀx_i + b)_{y_i} + α/2 ‖W‖²

    solved by L-BFGS; then p(a_m | x) = Σ_k p(a_m | y_k) p(y_k | x), where p(a_m | y_k) is 1 if attribute m of seen
    class k exceeds its mean over the seen classes, else 0.

    Score: Σ_m log p(a_m^c | x) − log p(a_m^c), where the prior p(a_m) is the share of seen classes that have
    the attribute. Attributes that all or none of the seen classes have say nothing and are left out.

    Parameters
    ----------
    penalty : float
        α, the weight of the squared norm of the weights, as a multiple of the mean variance of the features.
    feature_scaling, attribute_scaling : {None, "unit", "standard"}
        Scaling of features and of descriptions, fitted on the training samples and seen classes.

    Attributes
    ----------
    classes_, descriptions_ : array (C,) and array (C, a)
        Every class that can be named, and its description.
    thresholds_ : array (a,)
        The value from which on a class has the attribute; new classes are judged by the same.
    patterns_ : array (k, a)
        p(a_m | y_k), the binarised descriptions of the seen classes.
    priors_ : array (a,)
        The share of seen classes that have the attribute.
    weights_, intercepts_ : array (d, k) and array (k,)
        W and b.

    Notes
    -----
    Differences from the paper: logistic regression instead of a support vector machine with calibrated outputs, and the
    prior enters as in the paper's formula, not as the constant ½ of its experiments.

    References
    ----------
    C. Lampert, H. Nickisch, S. Harmeling, Attribute-Based Classification for Zero-Shot Visual Object Categorization,
    TPAMI 2014.
    https://doi.org/10.1109/TPAMI.2013.140

    Examples
    --------
    >>> import numpy as np
    >>> from firstsight.methods import IAP
    >>> rng = np.random.default_rng(0)
    >>> descriptions = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 1], [1, 0, 1.0]])
    >>> y = np.repeat([0, 1, 2, 3, 4], 40)                  # class 5 has a description, but no samples
    >>> X = descriptions[y] + 0.1 * rng.normal(size=(200, 3))
    >>> model = IAP().fit(X, y, descriptions)
    >>> model.predict([[1.0, 0.1, 0.9]], classes=[1, 5])
    array([5])
    """

    space = "semantic"
    reference = "Lampert et al., Attribute-Based Classification for Zero-Shot Visual Object Categorization, TPAMI 2014"
    grid: ClassVar[dict[str, list[Any]]] = {"penalty": [0.003, 0.01, 0.03, 0.104, 0.3, 1.0]}

    fitted_arrays: ClassVar[dict[str, str]] = {
        "thresholds_": "a",
        "patterns_": "k a",
        "priors_": "a",
        "weights_": "d k",
        "intercepts_": "k",
    }
    parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "penalty": [Range(float, above=0)],
    }

    def __init__(
        self,
        *,
        penalty: float = 0.104,
        feature_scaling: Scaling = None,
        attribute_scaling: Scaling = None,
    ) -> None:
        self.penalty = penalty
        self.feature_scaling = feature_scaling
        self.attribute_scaling = attribute_scaling

    def _fit(self, X, y, S):
        self.thresholds_ = S.mean(axis=0)
        self.patterns_ = binarise(S, self.thresholds_)  # (k, a)
        self.priors_ = self.patterns_.mean(axis=0)
        self.weights_, self.intercepts_ = fit_linear(X, cross_entropy(y), len(S), self.penalty)

    def _embed_classes(self, A):
        return binarise(A, self.thresholds_)  # (k, a)

    def _scores(self, X, E, seen):
        P = softmax(X @ self.weights_ + self.intercepts_, axis=1)  # (n, seen)
        # p and 1 − p are both sums of small numbers; the subtraction would lose the smallest.
        log_yes, log_no = (np.log(np.maximum(P @ has, FLOOR)) for has in (self.patterns_, 1 - self.patterns_))
        return pattern_scores(log_yes, log_no, self.priors_, E)  # (n, k)

    def _export_scores(self, graph, X, A, seen):
        P = graph("Softmax", graph.linear(X, self.weights_.T, self.intercepts_), axis=1)
        has = (graph("MatMul", P, graph.constant(pattern)) for pattern in (self.patterns_, 1 - self.patterns_))
        log_yes, log_no = (graph("Log", graph("Max", share, graph.constant(FLOOR))) for share in has)
        return export_pattern_scores(graph, log_yes, log_no, self.priors_, A, self.thresholds_)
