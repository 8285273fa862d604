"""Cosine: the answer of a vision-language model alone, without learning from seen classes."""

from __future__ import annotations

import numpy as np

from firstsight.methods._shared_space import check_one_space, unit
from firstsight.methods.base import Scaling, ZeroShotClassifier


class Cosine(ZeroShotClassifier):
    """Learns nothing: a sample belongs to the class whose description points the same way.

    Models such as CLIP and SigLIP map images and words into one space, where an image lies near the words that
    describe it. With such features and descriptions there is an answer before any training; this is
    that answer, so that it can stand beside what learning from seen classes adds to it.

    Objective: none. `fit` looks at no label; it only makes sure that samples and descriptions have the same length. So
    X may have no rows: names of classes are enough for a model.

    Score: x·a_c / (‖x‖ ‖a_c‖), 0 for a sample or a description of zeros.

    Parameters
    ----------
    feature_scaling, attribute_scaling : {None, "unit", "standard"}
        Scaling of features and of descriptions, fitted on the training samples and seen classes. "standard" for both
        takes the gap between images and words out, with the mean of each.

    Attributes
    ----------
    classes_, descriptions_ : array (C,) and array (C, a)
        Every class that can be named, and its description.

    References
    ----------
    A. Radford et al., Learning Transferable Visual Models From Natural Language Supervision, ICML 2021.
    https://arxiv.org/abs/2103.00020

    Examples
    --------
    >>> import numpy as np
    >>> from firstsight.methods import Cosine
    >>> descriptions = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0.0]])
    >>> model = Cosine().fit(descriptions[:2], [0, 1], descriptions)
    >>> model.predict([[0.9, 0.8, 0.1]])
    array([3])
    """

    space = "semantic"
    shared_space = True
    needs_samples = False
    reference = "Radford et al., Learning Transferable Visual Models From Natural Language Supervision, ICML 2021"

    def __init__(self, *, feature_scaling: Scaling = None, attribute_scaling: Scaling = None):
        self.feature_scaling = feature_scaling
        self.attribute_scaling = attribute_scaling

    def _fit(self, X, y, S):
        check_one_space(self, X, S)

    def _embed_classes(self, A):
        return unit(A)  # (k, d)

    def _scores(self, X, E, seen):
        return np.clip(unit(X) @ E.T, -1, 1)  # (n, k)

    def _export_scores(self, graph, X, A, seen):
        return graph.products(graph.unit(X), graph.unit(A))
