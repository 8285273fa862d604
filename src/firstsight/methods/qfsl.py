"""QFSL: a softmax over all classes that pulls samples known to be unseen away from the seen classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from firstsight.devices import Precision, find_device, torch
from firstsight.methods._gradient_training import as_tensor, make_generator, to_arrays, train_model
from firstsight.methods._validation import Range
from firstsight.methods.base import RandomState, Scaling, Setting, TransductiveClassifier

if TYPE_CHECKING:
    from torch import Tensor


class QFSL(TransductiveClassifier):
    """Learns a linear map of features into the space of descriptions, also from samples of unseen classes.

    A softmax classifier whose class weights are the descriptions is trained on the labelled samples. Left alone, it
    would call everything a seen class (the bias that the title speaks of), so it also gets unlabelled samples that are
    KNOWN to belong to unseen classes, and is asked to put their probability on unseen classes, whichever these are.
    That knowledge is extra supervision, which no other method here has: compare its figures with that in mind.

    Objective, with logits F(x, c) = (Wᵀx + b)·a_c and p_c(x) their softmax over seen and unseen classes together::

        mean_{labelled} − log p_y(x)  +  λ · mean_{pool} − log Σ_{c unseen} p_c(x)

    solved by Adam on batches of labelled samples, each with as many pool samples drawn at random beside it. Stopping
    after few epochs is the only regularisation. Without unseen classes it is a plain softmax.

    W and b start at zero, where all unseen classes are alike and the pool's term, content with any of them, would give
    the whole pool to a few. So the first `warm_up` epochs learn from labelled samples and seen classes alone.

    Score: F(x, c).

    Parameters
    ----------
    setting : {"gzsl", "zsl"}
        The question that the model will be asked. It changes nothing in the training: in either case the pool has
        to hold samples of unseen classes only.
    pool_weight : float
        λ, the weight of the pool's term.
    warm_up : int
        Epochs before the pool comes in.
    learning_rate, epochs, batch_size : float, int, int
        `epochs` are those with the pool.
    feature_scaling, attribute_scaling : {None, "unit", "standard"}
        Scaling of features and of descriptions, fitted on the training samples and seen classes.
    device, precision, verbose, random_state : various
        As in `ALE`.

    Attributes
    ----------
    classes_, descriptions_ : array (C,) and array (C, a)
        Every class that can be named, and its description.
    weights_ : dict of arrays
        weight (d, a), bias (a,).
    history_ : list of float
        The mean loss of every epoch.

    Notes
    -----
    Differences from the paper: features are frozen (the paper also trains the network that makes them), the map is one
    linear layer, there is no weight decay, and there is the warm-up.

    References
    ----------
    J. Song et al., Transductive Unbiased Embedding for Zero-Shot Learning, CVPR 2018.
    https://arxiv.org/abs/1803.11320

    Examples
    --------
    >>> import numpy as np
    >>> from firstsight.methods import QFSL
    >>> rng = np.random.default_rng(0)
    >>> descriptions = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 1], [1, 0, 1.0]])
    >>> y = np.repeat([0, 1, 2, 3, 4], 40)
    >>> X = descriptions[y] + 0.1 * rng.normal(size=(200, 3))
    >>> pool = np.array([1, 0, 1.0]) + 0.1 * rng.normal(size=(30, 3))  # known to be of an unseen class: here, class 5
    >>> model = QFSL(learning_rate=0.1, random_state=0).fit(X, y, descriptions, X_unlabeled=pool)
    >>> float((model.predict(pool) == 5).mean())
    1.0
    """

    space = "latent"
    needs_torch = True
    extra_supervision = "its unlabelled rows are known to belong to unseen classes"
    reference = "Song et al., Transductive Unbiased Embedding for Zero-Shot Learning, CVPR 2018"
    grid: ClassVar[dict[str, list[Any]]] = {"pool_weight": [0.2, 1.0], "learning_rate": [3e-4, 1e-3, 3e-3]}

    dtypes = (np.float32,)
    fitted_arrays: ClassVar[dict[str, str]] = {"weights_/weight": "d a", "weights_/bias": "a"}
    parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "pool_weight": [Range(float, at_least=0)],
        "warm_up": [Range(int, at_least=0)],
    }

    def __init__(
        self,
        *,
        setting: Setting = "gzsl",
        pool_weight: float = 0.2,
        warm_up: int = 4,
        learning_rate: float = 1e-3,
        epochs: int = 16,
        batch_size: int = 64,
        feature_scaling: Scaling = "standard",
        attribute_scaling: Scaling = "unit",
        device: str = "cpu",
        precision: Precision = "float32",
        verbose: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.setting = setting
        self.pool_weight = pool_weight
        self.warm_up = warm_up
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.batch_size = batch_size
        self.feature_scaling = feature_scaling
        self.attribute_scaling = attribute_scaling
        self.device = device
        self.precision = precision
        self.verbose = verbose
        self.random_state = random_state

    def _fit(self, X, y, S, pool, U):  # type: ignore[override]
        device, generator = find_device(self.device), make_generator(self.random_state)
        rows, labels, unlabelled = (as_tensor(values, device) for values in (X, y, pool))
        A = as_tensor(np.concatenate([S, U]), device)  # seen classes first
        W, bias = A.new_zeros(X.shape[1], A.shape[1]), A.new_zeros(A.shape[1])

        def seen_only(batch: Tensor) -> Tensor:
            return torch.nn.functional.cross_entropy((rows[batch] @ W + bias) @ A[: len(S)].T, labels[batch])

        def loss(batch: Tensor) -> Tensor:
            labelled = torch.nn.functional.cross_entropy((rows[batch] @ W + bias) @ A.T, labels[batch])
            if self.pool_weight == 0 or len(unlabelled) == 0:
                return labelled
            drawn = torch.randint(len(unlabelled), batch.shape, generator=generator).to(device, non_blocking=True)
            return labelled + self.pool_weight * unseen_loss((unlabelled[drawn] @ W + bias) @ A.T, len(S))

        self.history_ = []
        for objective, epochs in ((seen_only, self.warm_up), (loss, self.epochs)):
            self.history_ += train_model(self, [W, bias], objective, len(rows), generator, epochs=epochs)
        self.weights_ = to_arrays({"weight": W, "bias": bias})

    def _embed_classes(self, A):
        return self.weights_["weight"] @ A.T, self.weights_["bias"] @ A.T  # (d, k), (k,)

    def _scores(self, X, E, seen):
        return X @ E[0] + E[1]  # (n, k)

    def _export_scores(self, graph, X, A, seen):
        return graph.products(graph.linear(X, self.weights_["weight"].T, self.weights_["bias"]), A)


def unseen_loss(logits: Tensor, n_seen: int) -> Tensor:
    """Mean over samples of −log Σ_{c unseen} p_c; the seen classes have the first n_seen columns."""
    return (logits.logsumexp(1) - logits[:, n_seen:].logsumexp(1)).mean()
