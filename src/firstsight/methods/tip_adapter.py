"""Tip-Adapter: labelled samples as a cache of keys and values, added to the text score of a vision-language model."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from firstsight.methods._shared_space import (
    LOGIT_SCALE,
    check_one_space,
    export_nearness_to_classes,
    nearness_to_classes,
    unit,
)
from firstsight.methods._validation import Range
from firstsight.methods.base import Scaling, ZeroShotClassifier


class TipAdapter(ZeroShotClassifier):
    """Learns nothing but remembers: labelled samples near a new one add to the text score of their classes.

    For features and descriptions of one space (CLIP, SigLIP). A class without samples has its text score alone.

    Objective: none; `fit` stores the samples f_i and their classes y_i.

    Score, with samples x, f_i and texts t of unit length::

        100 x·t_c + α Σ_i exp(−β (1 − x·f_i)) [y_i = c]

    Parameters
    ----------
    alpha : float
        α, the weight of the labelled samples beside the text.
    beta : float
        β, how sharply a sample's say falls with its distance.
    feature_scaling, attribute_scaling : {None, "unit", "standard"}
        Scaling of features and of descriptions, fitted on the training samples and seen classes. Whatever it is, both
        are brought to unit length afterwards: that is part of the formula.

    Attributes
    ----------
    classes_, descriptions_ : array (C,) and array (C, a)
        Every class that can be named, and its description.
    samples_ : array (n, d)
        The training samples f_i of unit length, those of a class together.
    counts_ : array (k,)
        How many of them each seen class has, in the order of their codes.

    Notes
    -----
    Differences from the paper: none in the formula, but the published code chose α and β on test samples. This is the
    variant without training (the other also trains the samples f_i by gradient descent).

    Only seen classes gain, the more so the more samples they have: take a calibrated constant off them. For the same
    reason T1 is that of the text alone.

    References
    ----------
    R. Zhang et al., Tip-Adapter: Training-free Adaption of CLIP for Few-shot Classification, ECCV 2022.
    https://arxiv.org/abs/2207.09519

    Examples
    --------
    >>> import numpy as np
    >>> from firstsight.methods import TipAdapter
    >>> texts = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0.0]])
    >>> model = TipAdapter().fit(texts[:3], [0, 1, 2], texts)  # class 3 has a description, but no samples
    >>> model.predict([[0.9, 0.8, 0.1]])
    array([3])
    """

    space = "visual"
    shared_space = True
    reference = "Zhang et al., Tip-Adapter: Training-free Adaption of CLIP for Few-shot Classification, ECCV 2022"
    grid: ClassVar[dict[str, list[Any]]] = {"alpha": [0.3, 1.0, 3.0, 10.0], "beta": [5.5, 15.0]}

    fitted_arrays: ClassVar[dict[str, str]] = {"samples_": "n d", "counts_": "k"}
    parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "alpha": [Range(float, at_least=0)],
        "beta": [Range(float, at_least=0)],
    }

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        beta: float = 5.5,
        feature_scaling: Scaling = None,
        attribute_scaling: Scaling = None,
    ) -> None:
        self.alpha = alpha
        self.beta = beta
        self.feature_scaling = feature_scaling
        self.attribute_scaling = attribute_scaling

    def _fit(self, X, y, S):
        check_one_space(self, X, S)
        self.samples_ = unit(X)[np.argsort(y, kind="stable")]
        self.counts_ = np.bincount(y).astype(X.dtype)

    def _embed_classes(self, A):
        return unit(A)  # (k, d)

    def _scores(self, X, E, seen):
        rows, known = unit(X), seen >= 0
        scores = LOGIT_SCALE * rows @ E.T  # (n, k)
        if not known.any():
            return scores
        near = nearness_to_classes(rows, self.samples_, self.counts_.astype(int), self.beta)
        scores[:, known] += self.alpha * near[:, seen[known]]
        return scores

    def _export_scores(self, graph, X, A, seen):
        rows, zero = graph.unit(X), graph.constant(0, np.int64)
        of_seen = export_nearness_to_classes(graph, rows, self.samples_, self.counts_.astype(int), self.beta)
        of_classes = graph("Gather", of_seen, graph("Max", seen, zero), axis=1)
        weights = graph("Where", graph("Less", seen, zero), graph.constant(0.0), graph.constant(self.alpha))  # (k,)
        text_scores = graph("Mul", graph.products(rows, graph.unit(A)), graph.constant(LOGIT_SCALE))
        return graph("Add", text_scores, graph("Mul", of_classes, weights))
