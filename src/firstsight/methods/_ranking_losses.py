"""Ranking losses: hinges over wrong classes, and the bilinear score that they train."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from firstsight.devices import Precision, find_device, torch
from firstsight.methods._gradient_training import as_tensor, make_generator, to_numpy, train_model
from firstsight.methods._moments import mean_square
from firstsight.methods._validation import Range
from firstsight.methods.base import RandomState, Scaling, ZeroShotClassifier

if TYPE_CHECKING:
    from torch import Tensor


class BilinearRanking(ZeroShotClassifier):
    """Base of the methods that score F(x, c) = xᵀ W a_c and differ in the loss on F, and in their defaults, alone.

    The learning rate is in units of 1 / (mean ‖x‖² · mean ‖a‖²): a step moves scores alike, however long samples and
    descriptions are. W starts at zero. Every loss here is a hinge on differences of F, so stretching the margin and the
    learning rate by the same factor stretches W by it and leaves every prediction as it is: only learning_rate /
    margin matters.
    """

    needs_torch = True

    dtypes = (np.float32,)
    fitted_arrays: ClassVar[dict[str, str]] = {"weights_": "d a"}
    parameter_constraints: ClassVar[dict[str, list[Any]]] = {"margin": [Range(float, above=0)]}

    def __init__(
        self,
        margin: float,
        learning_rate: float,
        epochs: int,
        batch_size: int,
        feature_scaling: Scaling,
        attribute_scaling: Scaling,
        device: str,
        precision: Precision,
        verbose: bool,
        random_state: RandomState,
    ) -> None:
        self.margin = margin
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.batch_size = batch_size
        self.feature_scaling = feature_scaling
        self.attribute_scaling = attribute_scaling
        self.device = device
        self.precision = precision
        self.verbose = verbose
        self.random_state = random_state

    def _fit(self, X, y, S):
        device = find_device(self.device)
        rows, labels, A = (as_tensor(values, device) for values in (X, y, S))
        W = A.new_zeros(X.shape[1], S.shape[1])
        self.history_ = train_model(
            self,
            [W],
            lambda batch: self._loss(rows[batch] @ W @ A.T, labels[batch], self.margin),
            len(rows),
            make_generator(self.random_state),
            learning_rate=self.learning_rate / (mean_square(X) * mean_square(S)),
            optimizer="sgd",
        )
        self.weights_ = to_numpy(W)

    @staticmethod
    def _loss(scores: Tensor, y: Tensor, margin: float) -> Tensor:
        """Mean loss of samples with scores (b, C) of the seen classes and labels (b,)."""
        raise NotImplementedError

    def _embed_classes(self, A):
        return self.weights_ @ A.T  # (d, k)

    def _scores(self, X, E, seen):
        return X @ E  # (n, k)

    def _export_scores(self, graph, X, A, seen):
        return graph.bilinear(X, self.weights_, A)


def violations(scores: Tensor, y: Tensor, margin: float) -> Tensor:
    """[m + F(x,c) − F(x,y)]₊ for every class c (b, C); zero in the column of the sample's class."""
    true = y[:, None]
    return (margin + scores - scores.gather(1, true)).relu().scatter(1, true, 0.0)


def summed_hinge(scores: Tensor, y: Tensor, margin: float) -> Tensor:
    """Mean over samples of Σ_{c≠y} [m + F(x,c) − F(x,y)]₊."""
    return violations(scores, y, margin).sum(1).mean()


def hardest_hinge(scores: Tensor, y: Tensor, margin: float) -> Tensor:
    """Mean over samples of max_{c≠y} [m + F(x,c) − F(x,y)]₊."""
    return violations(scores, y, margin).amax(1).mean()


def ranked_hinge(scores: Tensor, y: Tensor, margin: float) -> Tensor:
    """Mean over samples of (ℓ_r / r) Σ_{c≠y} [m + F(x,c) − F(x,y)]₊; r counts the positive terms (WARP)."""
    hinges = violations(scores, y, margin)
    # Where r = 0 the sum is zero as well: any finite weight will do.
    r = (hinges > 0).sum(1).clamp(min=1)
    harmonic = torch.arange(1, scores.shape[1] + 1, device=scores.device).reciprocal().cumsum(0)  # ℓ_1 … ℓ_C
    return (harmonic[r - 1] / r * hinges.sum(1)).mean()


def random_wrong_class(y: Tensor, n_classes: int, generator: torch.Generator) -> Tensor:
    """For each sample one class drawn evenly from those that are not its own."""
    drawn = torch.randint(n_classes - 1, y.shape, generator=generator).to(y.device, non_blocking=True)
    return drawn + (drawn >= y)
