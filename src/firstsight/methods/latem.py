"""LatEm: latent embeddings, the best of several bilinear scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from firstsight.devices import Precision, find_device, torch
from firstsight.methods._gradient_training import as_tensor, make_generator, to_numpy, train_model
from firstsight.methods._moments import mean_square
from firstsight.methods._ranking_losses import random_wrong_class
from firstsight.methods._validation import Range
from firstsight.methods.base import RandomState, Scaling, ZeroShotClassifier

if TYPE_CHECKING:
    from torch import Tensor


class LatEm(ZeroShotClassifier):
    """Learns several bilinear scores of features and descriptions, of which each pair of the two uses the best.

    One bilinear map has to serve birds in flight and on water alike. LatEm keeps K maps and lets every sample and class
    choose the one that suits them (the latent variable). A new class is scored from its description.

    Objective, averaged over samples, with F(x, c) = max_k xᵀ W_k a_c and a wrong class ỹ drawn anew for every sample of
    every epoch, evenly from the seen classes::

        [m + F(x, ỹ) − F(x, y)]₊

    solved by plain stochastic gradient descent on batches of samples: a violating sample moves only the map that won
    for y and the one that won for ỹ. Stopping early is the only regularisation.

    Score: F(x, c). With K = 1 it is the bilinear score of `DeViSE`, `ALE` and `SJE`.

    Parameters
    ----------
    n_maps : int
        K.
    margin : float
        m, 1 in the paper.
    learning_rate : float
        For the mean gradient of a batch (the paper's rate per sample, times the batch size), in units of
        1 / (mean ‖x‖² · mean ‖a‖²): a step moves scores alike, however long samples and descriptions are.
    epochs, batch_size : int
        Passes over the samples, and samples per step.
    initial_scale : float
        W_k starts with independent normal entries, for scores of this deviation: equal maps would never part.
    feature_scaling, attribute_scaling : {None, "unit", "standard"}
        Scaling of features and of descriptions, fitted on the training samples and seen classes.
    device : str
        Where to compute: "cpu", "cuda", "mps", …, or "auto", which is a GPU if there is one (docs/scale.md).
    precision : {"float32", "bfloat16"}
        Of the matrix products of a fit; weights and sums are float32.
    verbose : bool
        Show a progress bar when a terminal is there.
    random_state : int, RandomState or None
        Everything random follows from it.

    Attributes
    ----------
    classes_, descriptions_ : array (C,) and array (C, a)
        Every class that can be named, and its description.
    weights_ : array (K, d, a)
        W_1 … W_K.
    history_ : list of float
        The mean loss of every epoch.

    Notes
    -----
    Differences from the paper: batches of samples instead of single ones, and K is a parameter, where the paper can
    also prune maps that few samples choose. On CUB's validation classes more than two maps lose: T1 falls beyond K = 2.

    References
    ----------
    Y. Xian et al., Latent Embeddings for Zero-Shot Classification, CVPR 2016.
    https://arxiv.org/abs/1603.08895

    Examples
    --------
    >>> import numpy as np
    >>> from firstsight.methods import LatEm
    >>> rng = np.random.default_rng(0)
    >>> descriptions = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 1], [1, 0, 1.0]])
    >>> y = np.repeat([0, 1, 2, 3, 4], 40)                  # class 5 has a description, but no samples
    >>> X = descriptions[y] + 0.1 * rng.normal(size=(200, 3))
    >>> model = LatEm(random_state=0).fit(X, y, descriptions)
    >>> model.predict([[1.0, 0.1, 0.9]], classes=[1, 5])
    array([5])
    """

    space = "latent"
    needs_torch = True
    reference = "Xian et al., Latent Embeddings for Zero-Shot Classification, CVPR 2016"
    grid: ClassVar[dict[str, list[Any]]] = {"n_maps": [1, 2], "learning_rate": [60.0, 204.8, 600.0]}

    dtypes = (np.float32,)
    fitted_arrays: ClassVar[dict[str, str]] = {"weights_": "m d a"}
    parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "margin": [Range(float, above=0)],
        "n_maps": [Range(int, at_least=1)],
        "initial_scale": [Range(float, above=0)],
    }

    def __init__(
        self,
        *,
        n_maps: int = 2,
        margin: float = 1.0,
        learning_rate: float = 204.8,
        epochs: int = 32,
        batch_size: int = 64,
        initial_scale: float = 0.1,
        feature_scaling: Scaling = "standard",
        attribute_scaling: Scaling = "unit",
        device: str = "cpu",
        precision: Precision = "float32",
        verbose: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.n_maps = n_maps
        self.margin = margin
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.batch_size = batch_size
        self.initial_scale = initial_scale
        self.feature_scaling = feature_scaling
        self.attribute_scaling = attribute_scaling
        self.device = device
        self.precision = precision
        self.verbose = verbose
        self.random_state = random_state

    def _fit(self, X, y, S):
        device, generator = find_device(self.device), make_generator(self.random_state)
        rows, labels, A = (as_tensor(values, device) for values in (X, y, S))
        d, a = X.shape[1], S.shape[1]
        unit = mean_square(X) * mean_square(S)  # of squared scores, for W of unit size
        # The maps lie side by side, so that one matrix product serves them all.
        drawn = torch.randn(d, self.n_maps * a, generator=generator)
        W = (drawn * (self.initial_scale / unit**0.5)).to(device)

        def loss(batch: Tensor) -> Tensor:
            right = labels[batch]
            wrong = random_wrong_class(right, len(A), generator)
            mapped = (rows[batch] @ W).view(len(batch), self.n_maps, a)
            return (self.margin + best_map(mapped, A[wrong]) - best_map(mapped, A[right])).relu().mean()

        self.history_ = train_model(
            self, [W], loss, len(rows), generator, learning_rate=self.learning_rate / unit, optimizer="sgd"
        )
        self.weights_ = np.ascontiguousarray(to_numpy(W).reshape(d, self.n_maps, a).transpose(1, 0, 2))

    def _embed_classes(self, A):
        return self.weights_ @ A.T  # (K, d, k)

    def _scores(self, X, E, seen):
        scores = X @ E[0]  # (n, k)
        for embedded in E[1:]:
            np.maximum(scores, X @ embedded, out=scores)
        return scores

    def _export_scores(self, graph, X, A, seen):
        return graph("Max", *(graph.bilinear(X, W, A) for W in self.weights_))


def best_map(mapped: Tensor, A: Tensor) -> Tensor:
    """max_k of the mapped samples (b, K, a) times the description (b, a) that goes with each sample."""
    return (mapped @ A[:, :, None]).amax((1, 2))
