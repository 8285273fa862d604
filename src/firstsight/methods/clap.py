"""CLAP: class weights that start at the texts of a vision-language model and are held near them, class by class."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from firstsight.methods._moments import class_sums
from firstsight.methods._shared_space import (
    LOGIT_SCALE,
    check_one_space,
    export_fitted_or_predicted,
    fitted_or_predicted,
    unit,
)
from firstsight.methods._validation import Range
from firstsight.methods.base import Scaling, ZeroShotClassifier


class CLAP(ZeroShotClassifier):
    """Learns a softmax over the seen classes whose weights stay near the texts, the nearer the better these are.

    For features and descriptions of one space (CLIP, SigLIP). A class whose text already names its own samples is held
    at its text; one whose text does not may follow its samples. Unseen classes keep their texts.

    Objective, with samples x and texts t of unit length, for the k seen classes::

        mean_i −log softmax_c(100 x_i·w_c)[y_i]  +  (penalty/k) Σ_c λ_c ‖w_c − t_c‖²

    where λ_c is the mean probability softmax_c(100 x·t_c) that the texts alone give to class c on its own samples. This
    is convex in the w_c, and minimised by L-BFGS from w_c = t_c.

    Score: 100 x·w_c for a seen class, 100 x·t_c for any other.

    Parameters
    ----------
    penalty : float
        How strongly weights are held at texts.
    iterations : int
        The most steps of L-BFGS.
    feature_scaling, attribute_scaling : {None, "unit", "standard"}
        Scaling of features and of descriptions, fitted on the training samples and seen classes. Whatever it is, both
        are brought to unit length afterwards: that is part of the formula.

    Attributes
    ----------
    classes_, descriptions_ : array (C,) and array (C, a)
        Every class that can be named, and its description.
    weights_ : array (k, d)
        w_c of the seen classes.
    class_penalties_ : array (k,)
        λ_c.
    history_ : list of float
        The objective after every step.

    Notes
    -----
    Differences from the paper: the w_c are not brought back to unit length (the penalty holds them near it), so that
    the objective is convex. It is minimised, and `penalty` chosen on validation classes, where the paper ends gradient
    descent on augmented images after a number of epochs.

    LP++ (CVPR 2024) is the other strong linear probe of that year. This one is here because it says what unseen classes
    do beside the learned ones: they keep the texts that seen classes are held at, in one scale. LP++ learns a scale of
    the text per class, which a class without samples does not have.

    Only seen classes learn: take a calibrated constant off them. T1 is that of the text alone.

    References
    ----------
    J. Silva-Rodríguez et al., A Closer Look at the Few-Shot Adaptation of Large Vision-Language Models, CVPR 2024.
    https://arxiv.org/abs/2312.12730

    Examples
    --------
    >>> import numpy as np
    >>> from firstsight.methods import CLAP
    >>> texts = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0.0]])
    >>> model = CLAP().fit(texts[:3], [0, 1, 2], texts)     # class 3 has a description, but no samples
    >>> model.predict([[0.9, 0.8, 0.1]])
    array([3])
    """

    space = "latent"
    shared_space = True
    reference = (
        "Silva-Rodríguez et al., A Closer Look at the Few-Shot Adaptation of Large Vision-Language Models, CVPR 2024"
    )
    grid: ClassVar[dict[str, list[Any]]] = {"penalty": [100.0, 300.0, 1e3, 3e3, 1e4, 3e4]}

    fitted_arrays: ClassVar[dict[str, str]] = {"weights_": "k d", "class_penalties_": "k"}
    parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "penalty": [Range(float, above=0)],
        "iterations": [Range(int, at_least=1)],
    }

    def __init__(
        self,
        *,
        penalty: float = 1e3,
        iterations: int = 200,
        feature_scaling: Scaling = None,
        attribute_scaling: Scaling = None,
    ) -> None:
        self.penalty = penalty
        self.iterations = iterations
        self.feature_scaling = feature_scaling
        self.attribute_scaling = attribute_scaling

    def _fit(self, X, y, S):
        check_one_space(self, X, S)
        rows, texts, each = unit(X).astype(np.float64), unit(S).astype(np.float64), np.arange(len(X))
        zero_shot = softmax(LOGIT_SCALE * rows @ texts.T, axis=1)[each, y]
        self.class_penalties_ = np.bincount(y, zero_shot) / np.bincount(y)
        weight = self.penalty / len(S) * self.class_penalties_[:, None]  # (k, 1)
        targets = class_sums(rows, y, len(S))  # (k, d)

        def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
            W = flat.reshape(texts.shape)
            logits = log_softmax(LOGIT_SCALE * rows @ W.T, axis=1)
            value = -logits[each, y].mean() + (weight * (W - texts) ** 2).sum()
            gradient = LOGIT_SCALE / len(rows) * (np.exp(logits).T @ rows - targets) + 2 * weight * (W - texts)
            return value, gradient.ravel()

        self.history_: list[float] = []
        found = minimize(
            objective,
            texts.ravel(),
            jac=True,
            method="L-BFGS-B",
            callback=lambda intermediate_result: self.history_.append(float(intermediate_result.fun)),
            options={"maxiter": self.iterations, "maxfun": 2 * self.iterations, "ftol": 1e-9, "gtol": 1e-7},
        )
        self.weights_ = found.x.reshape(texts.shape)

    def _embed_classes(self, A):
        return unit(A)  # (k, d)

    def _scores(self, X, E, seen):
        return LOGIT_SCALE * unit(X) @ fitted_or_predicted(seen, self.weights_, E).T  # (n, k)

    def _export_scores(self, graph, X, A, seen):
        weights = export_fitted_or_predicted(graph, seen, self.weights_, graph.unit(A))
        return graph("Mul", graph.products(graph.unit(X), weights), graph.constant(LOGIT_SCALE))
