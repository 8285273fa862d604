"""DEM: descriptions are embedded into the visual space."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances

from firstsight.devices import Precision, find_device, torch
from firstsight.methods._gradient_training import (
    as_tensor,
    as_tensors,
    class_mean_loss,
    class_means,
    draw_two_layers,
    make_generator,
    to_arrays,
    to_numpy,
    train_model,
    two_layers,
)
from firstsight.methods._validation import Range
from firstsight.methods.base import RandomState, Scaling, ZeroShotClassifier


class DEM(ZeroShotClassifier):
    """Learns where among the features the images of a class lie, from the description of the class.

    A network of two layers maps each description into the visual space, onto the samples of its class. Searching
    for the nearest class there, and not among the descriptions, avoids hubs: classes that are the nearest
    neighbour of everything. A new class gets its place from its description alone.

    Objective, with f(a) = m + relu(W₂ relu(W₁ a + b₁) + b₂)::

        mean_i ‖x_i − f(a_{y_i})‖² + λ ‖θ‖²  =  Σ_c (n_c/n) ‖μ_c − f(a_c)‖² + λ ‖θ‖² + constant

    The input of f is the class alone, so the right side (one row per class, its mean μ_c and its number of samples
    n_c) has exactly the gradient of the left one: Adam works on k rows, whatever n is.

    Score: −‖x − f(a_c)‖².

    Parameters
    ----------
    hidden : int
        Units of the hidden layer.
    penalty : float
        λ, the weight of the squared norm of all weights.
    learning_rate : float
        Step size of Adam.
    epochs : int
        Passes over the seen classes.
    batch_size : int
        Classes in one step.
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
    weights_ : dict of arrays
        embed.0.weight (hidden, a), embed.0.bias, embed.1.weight (d, hidden), embed.1.bias.
    floor_ : array (d,)
        m, the smallest training value of each feature if that is negative, else 0.
    history_ : list of float
        The mean loss of every epoch.

    Notes
    -----
    Differences from the paper: a step takes a batch of classes, not of samples. Both layers have a bias. The offset m
    lets the last relu reach features that can be negative; it is zero for features that come out of a relu, and f is
    the paper's then. Samples are scaled to unit length by default, which validation classes prefer.

    References
    ----------
    L. Zhang, T. Xiang, S. Gong, Learning a Deep Embedding Model for Zero-Shot Learning, CVPR 2017.
    https://arxiv.org/abs/1611.05088

    Examples
    --------
    >>> import numpy as np
    >>> from firstsight.methods import DEM
    >>> rng = np.random.default_rng(0)
    >>> descriptions = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 1], [1, 0, 1.0]])
    >>> y = np.repeat([0, 1, 2, 3, 4], 40)                  # class 5 has a description, but no samples
    >>> X = descriptions[y] + 0.1 * rng.normal(size=(200, 3))
    >>> model = DEM(hidden=64, learning_rate=1e-2, random_state=0).fit(X, y, descriptions)
    >>> model.predict([[1.0, 0.1, 0.9]], classes=[1, 5])
    array([5])
    """

    space = "visual"
    needs_torch = True
    reference = "Zhang, Xiang and Gong, Learning a Deep Embedding Model for Zero-Shot Learning, CVPR 2017"
    grid: ClassVar[dict[str, list[Any]]] = {"penalty": [1e-4, 3e-4, 1e-3], "epochs": [200, 600]}
    quick: ClassVar[dict[str, Any]] = {"hidden": 64, "learning_rate": 1e-2}

    dtypes = (np.float32,)
    fitted_arrays: ClassVar[dict[str, str]] = {
        "floor_": "d",
        "weights_/embed.0.weight": "h a",
        "weights_/embed.0.bias": "h",
        "weights_/embed.1.weight": "d h",
        "weights_/embed.1.bias": "d",
    }
    parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "hidden": [Range(int, at_least=1)],
        "penalty": [Range(float, at_least=0)],
    }

    def __init__(
        self,
        *,
        hidden: int = 1200,
        penalty: float = 3e-4,
        learning_rate: float = 3e-4,
        epochs: int = 200,
        batch_size: int = 64,
        feature_scaling: Scaling = "unit",
        attribute_scaling: Scaling = "unit",
        device: str = "cpu",
        precision: Precision = "float32",
        verbose: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.hidden = hidden
        self.penalty = penalty
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
        generator = make_generator(self.random_state)
        device = find_device(self.device)
        weights = draw_two_layers("embed", S.shape[1], self.hidden, X.shape[1], generator, device)
        self.floor_ = np.minimum(X.min(axis=0), 0)
        mu, share = class_means(X, y, len(S))
        A, means, shares = (as_tensor(values, device) for values in (S, mu - self.floor_, share))

        def loss(batch):
            predicted = torch.relu(two_layers(weights, "embed", A[batch]))
            return class_mean_loss(predicted, means[batch], shares[batch], len(A))

        # λ‖θ‖² has the gradient 2λθ
        self.history_ = train_model(self, weights.values(), loss, len(A), generator, weight_decay=2 * self.penalty)
        self.weights_ = to_arrays(weights)

    def _embed_classes(self, A):
        device = find_device(self.device)
        embedded = two_layers(as_tensors(self.weights_, device), "embed", as_tensor(A, device))
        return self.floor_ + to_numpy(torch.relu(embedded))  # (k, d)

    def _scores(self, X, E, seen):
        return -euclidean_distances(X, E, squared=True)

    def _export_scores(self, graph, X, A, seen):
        embedded = graph("Relu", graph.two_layers(A, self.weights_, "embed"))
        return graph.closeness(X, graph("Add", embedded, graph.constant(self.floor_)))
