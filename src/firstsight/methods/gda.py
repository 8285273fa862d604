"""GDA: Gaussian discriminant analysis of image features, added to the text score of a vision-language model."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from firstsight.methods._moments import class_sums, gram
from firstsight.methods._shared_space import (
    LOGIT_SCALE,
    check_one_space,
    export_fitted_or_predicted,
    fitted_or_predicted,
    unit,
)
from firstsight.methods._validation import Range
from firstsight.methods.base import Scaling, ZeroShotClassifier


class GDA(ZeroShotClassifier):
    """Learns class means and one covariance of image features; their linear classifier is added to the text score.

    For features and descriptions of one space (CLIP, SigLIP). Every class is a Gaussian, all with the same covariance,
    which gives one linear classifier per class in closed form. A class without samples borrows the samples nearest to
    its text.

    Objective, with samples x and texts t of unit length, Σ the covariance of the N samples within their classes, d the
    number of features, and μ_c the mean of class c::

        Σ⁻¹ ≈ d · ((N − 1) Σ + tr(Σ) I)⁻¹      w_c = Σ⁻¹ μ_c      b_c = −½ μ_cᵀ Σ⁻¹ μ_c

    A class without samples has as μ_c the mean of the `neighbours` training samples nearest to its text and of `copies`
    copies of its text.

    Score: 100 x·t_c + α (x·w_c + b_c).

    Parameters
    ----------
    alpha : float
        α, the weight of the Gaussians beside the text.
    neighbours : int
        How many training samples a class without samples borrows; all, if there are fewer.
    copies : int
        How many times its text counts among them.
    feature_scaling, attribute_scaling : {None, "unit", "standard"}
        Scaling of features and of descriptions, fitted on the training samples and seen classes. Whatever it is, both
        are brought to unit length afterwards: that is part of the formula.

    Attributes
    ----------
    classes_, descriptions_ : array (C,) and array (C, a)
        Every class that can be named, and its description.
    samples_ : array (n, d)
        The training samples, of unit length, for classes that come later.
    precision_ : array (d, d)
        Σ⁻¹.
    weights_, biases_ : array (k, d) and array (k, 1)
        w_c and b_c of the seen classes.

    Notes
    -----
    Differences from the paper: all classes are equally likely a priori, so that the score of a class does not depend on
    the other candidates, and Σ is that of the seen classes also for new ones. The samples are part of the model, so
    that new classes need no retraining; for that reason it does not read samples on the disk.

    The score favours seen classes, whose means are estimated from their own samples: take a calibrated constant off.

    References
    ----------
    Z. Wang et al., A Hard-to-Beat Baseline for Training-free CLIP-based Adaptation, ICLR 2024.
    https://arxiv.org/abs/2402.04087

    Examples
    --------
    >>> import numpy as np
    >>> from firstsight.methods import GDA
    >>> texts = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0.0]])
    >>> y = np.repeat([0, 1, 2], 10)                        # class 3 has a description, but no samples
    >>> X = texts[y] + 0.1 * np.random.default_rng(0).normal(size=(30, 3))
    >>> GDA(neighbours=10).fit(X, y, texts).predict([[0.9, 0.8, 0.1]])
    array([3])
    """

    space = "visual"
    shared_space = True
    reference = "Wang et al., A Hard-to-Beat Baseline for Training-free CLIP-based Adaptation, ICLR 2024"
    grid: ClassVar[dict[str, list[Any]]] = {"alpha": [0.003, 0.01, 0.03, 0.1, 0.3]}
    quick: ClassVar[dict[str, Any]] = {"alpha": 0.01, "neighbours": 8, "copies": 4}

    fitted_arrays: ClassVar[dict[str, str]] = {
        "samples_": "n d",
        "precision_": "d d",
        "weights_": "k d",
        "biases_": "k 1",
    }
    parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "alpha": [Range(float, at_least=0)],
        "neighbours": [Range(int, at_least=1)],
        "copies": [Range(int, at_least=0)],
    }

    def __init__(
        self,
        *,
        alpha: float = 0.03,
        neighbours: int = 64,
        copies: int = 16,
        feature_scaling: Scaling = None,
        attribute_scaling: Scaling = None,
    ) -> None:
        self.alpha = alpha
        self.neighbours = neighbours
        self.copies = copies
        self.feature_scaling = feature_scaling
        self.attribute_scaling = attribute_scaling

    def _fit(self, X, y, S):
        check_one_space(self, X, S)
        self.samples_ = unit(X)
        means = class_sums(self.samples_, y, len(S)) / np.bincount(y)[:, None]  # (k, d)
        within = gram(self.samples_ - means[y])  # (N − 1) Σ
        ridge = np.trace(within) / (len(X) - 1) or 1.0  # without any variance, Σ⁻¹ is d I
        self.precision_ = X.shape[1] * np.linalg.inv(within + ridge * np.eye(len(within)))
        self.weights_, self.biases_ = self._linear(means)

    def _linear(self, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        weights = means @ self.precision_
        return weights, -0.5 * (weights * means).sum(axis=1, keepdims=True)

    def _embed_classes(self, A):
        texts, n = unit(A), min(self.neighbours, len(self.samples_))
        means = self.copies * texts.astype(np.float64)
        step = max(1, 2**21 // max(len(self.samples_), n * texts.shape[1]))  # 16 MiB at a time
        for part in range(0, len(texts), step):
            nearness = texts[part : part + step] @ self.samples_.T
            nearest = np.argpartition(-nearness, n - 1, axis=1)[:, :n]
            means[part : part + step] += self.samples_[nearest].sum(axis=1, dtype=np.float64)
        return texts, *self._linear(means / (n + self.copies))

    def _scores(self, X, E, seen):
        texts, weights, biases = E
        weights = fitted_or_predicted(seen, self.weights_, weights)
        biases = fitted_or_predicted(seen, self.biases_, biases)
        return unit(X) @ (LOGIT_SCALE * texts + self.alpha * weights).T + self.alpha * biases.T  # (n, k)

    def _export_scores(self, graph, X, A, seen):
        texts, n = graph.unit(A), min(self.neighbours, len(self.samples_))
        nearness = graph("MatMul", texts, graph.constant(self.samples_.T))
        highest = graph("TopK", nearness, graph.constant([n], np.int64), outputs=2)
        borrowed = graph("Gather", graph.constant(self.samples_), highest + "_more", axis=0)  # (k, neighbours, d)
        means = graph("ReduceSum", borrowed, graph.constant([1], np.int64), keepdims=0)
        means = graph("Add", means, graph("Mul", texts, graph.constant(self.copies)))
        means = graph("Div", means, graph.constant(n + self.copies))
        weights = graph("MatMul", means, graph.constant(self.precision_))
        biases = graph("Mul", graph.row_sums(graph("Mul", weights, means)), graph.constant(-0.5))
        weights = export_fitted_or_predicted(graph, seen, self.weights_, weights)
        biases = export_fitted_or_predicted(graph, seen, self.biases_, biases)
        text_scores = graph("Mul", graph.products(graph.unit(X), texts), graph.constant(LOGIT_SCALE))
        gaussians = graph("Add", graph.products(graph.unit(X), weights), graph.transposed(biases))
        return graph("Add", text_scores, graph("Mul", gaussians, graph.constant(self.alpha)))
