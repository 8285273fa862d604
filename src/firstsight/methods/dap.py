"""DAP: one classifier per attribute; a class is recognised by its pattern of attributes."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from firstsight.methods._linear_models import binarise, export_pattern_scores, fit_linear, logistic, pattern_scores
from firstsight.methods._validation import Range
from firstsight.methods.base import Scaling, ZeroShotClassifier


class DAP(ZeroShotClassifier):
    """Learns to tell from the features, for each attribute alone, whether a sample has it (direct prediction).

    Descriptions are reduced to yes and no: an attribute holds for a class if it exceeds its mean over the
    seen classes. One logistic regression per attribute is trained on all samples; a sample has the attributes of its
    class. A class with any pattern of attributes, seen or not, is then as likely as its attributes are together,
    relative to how common they are.

    Objective, with t_m^c ∈ {−1, 1} the binarised attribute m of class c::

        mean_i Σ_m log(1 + exp(−t_m^{y_i} (w_m·x_i + b_m))) + α/2 Σ_m ‖w_m‖²

    solved by L-BFGS for all attributes at once, with one matrix product for all of them per step.

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
    priors_ : array (a,)
        The share of seen classes that have the attribute.
    weights_, intercepts_ : array (d, a) and array (a,)
        w_m and b_m.

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
    >>> from firstsight.methods import DAP
    >>> rng = np.random.default_rng(0)
    >>> descriptions = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 1], [1, 0, 1.0]])
    >>> y = np.repeat([0, 1, 2, 3, 4], 40)                  # class 5 has a description, but no samples
    >>> X = descriptions[y] + 0.1 * rng.normal(size=(200, 3))
    >>> model = DAP().fit(X, y, descriptions)
    >>> model.predict([[1.0, 0.1, 0.9]], classes=[1, 5])
    array([5])
    """

    space = "semantic"
    reference = "Lampert et al., Attribute-Based Classification for Zero-Shot Visual Object Categorization, TPAMI 2014"
    grid: ClassVar[dict[str, list[Any]]] = {"penalty": [0.003, 0.01, 0.03, 0.104, 0.3, 1.0]}

    fitted_arrays: ClassVar[dict[str, str]] = {
        "thresholds_": "a",
        "priors_": "a",
        "weights_": "d a",
        "intercepts_": "a",
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
        patterns = binarise(S, self.thresholds_)  # (k, a)
        self.priors_ = patterns.mean(axis=0)
        self.weights_, self.intercepts_ = fit_linear(X, logistic(2 * patterns[y] - 1), S.shape[1], self.penalty)

    def _embed_classes(self, A):
        return binarise(A, self.thresholds_)  # (k, a)

    def _scores(self, X, E, seen):
        Z = X @ self.weights_ + self.intercepts_  # (n, a)
        log_yes, log_no = -np.logaddexp(0, -Z), -np.logaddexp(0, Z)  # log p and log(1 − p) without rounding to 0
        return pattern_scores(log_yes, log_no, self.priors_, E)  # (n, k)

    def _export_scores(self, graph, X, A, seen):
        Z = graph.linear(X, self.weights_.T, self.intercepts_)
        log_yes, log_no = (graph("Neg", graph("Softplus", z)) for z in (graph("Neg", Z), Z))
        return export_pattern_scores(graph, log_yes, log_no, self.priors_, A, self.thresholds_)
