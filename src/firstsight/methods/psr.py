"""PSR: descriptions are embedded into the visual space so that relations between classes survive."""

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
from firstsight.methods._moments import mean_square
from firstsight.methods._validation import Range
from firstsight.methods.base import RandomState, Scaling, ZeroShotClassifier


class PSR(ZeroShotClassifier):
    """Learns where among the features a class lies, from its description, and keeps relations between classes.

    An encoder maps each description onto the visual mean of its class. Classes whose descriptions are
    similar must stay similar among the features and dissimilar ones dissimilar, so that the space between the
    seen classes, where the unseen ones will lie, keeps its meaning. A decoder back to the description
    keeps the encoder from forgetting what tells classes apart.

    Objective, with f(a) = W₂ relu(W₁ a + b₁) + b₂ the encoder, g the decoder (of the same form)::

        Σ_c (n_c/n) ‖μ_c − f(a_c)‖² + x² (ρ · mean_{r,s} R(r, s) + κ · mean_c ‖a_c − g(f(a_c))‖²/a² + λ ‖θ‖²)

        R(r, s) = [δ_rs − v_rs]₊ if δ_rs ≥ τ (similar classes), else [v_rs − δ_rs]₊
        δ_rs = cos(a_r − ā, a_s − ā),  v_rs = cos(f(a_r) − x̄, μ_s − x̄)

    with ā and x̄ the means of seen descriptions and of samples, and x² and a² the means of their squared lengths, so
    that ρ, κ and λ mean the same whatever these are. Solved by Adam. The networks see the class alone, so the first
    term is mean_i ‖x_i − f(a_{y_i})‖² up to a constant: everything is a problem on k rows, whatever n is.

    Score: −‖x − f(a_c)‖².

    Parameters
    ----------
    hidden : int
        Units of the hidden layer of both networks.
    similarity : float
        τ, the cosine from which two descriptions count as similar.
    relation : float
        ρ, the weight of the relations.
    reconstruction : float
        κ, the weight of the way back to the description.
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
        encode.0.weight (hidden, a), encode.0.bias, encode.1.weight (d, hidden), encode.1.bias.
    history_ : list of float
        The mean loss of every epoch.

    Notes
    -----
    Differences from the paper: relations are held against the visual means, over all pairs of seen classes and not a
    sample of them, and cosines are taken from the centre, because all descriptions (and all features that come out of a
    relu) point the same way.

    References
    ----------
    Y. Annadani, S. Biswas, Preserving Semantic Relations for Zero-Shot Learning, CVPR 2018.
    https://arxiv.org/abs/1803.03049

    Examples
    --------
    >>> import numpy as np
    >>> from firstsight.methods import PSR
    >>> rng = np.random.default_rng(0)
    >>> descriptions = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 1], [1, 0, 1.0]])
    >>> y = np.repeat([0, 1, 2, 3, 4], 40)                  # class 5 has a description, but no samples
    >>> X = descriptions[y] + 0.1 * rng.normal(size=(200, 3))
    >>> model = PSR(hidden=64, learning_rate=1e-2, random_state=0).fit(X, y, descriptions)
    >>> model.predict([[1.0, 0.1, 0.9]], classes=[1, 5])
    array([5])
    """

    space = "visual"
    needs_torch = True
    reference = "Annadani and Biswas, Preserving Semantic Relations for Zero-Shot Learning, CVPR 2018"
    grid: ClassVar[dict[str, list[Any]]] = {"relation": [0.05, 0.488, 2.0], "epochs": [200, 600]}
    quick: ClassVar[dict[str, Any]] = {"hidden": 64, "learning_rate": 1e-2, "relation": 1.0, "reconstruction": 1.0}

    dtypes = (np.float32,)
    fitted_arrays: ClassVar[dict[str, str]] = {
        "weights_/encode.0.weight": "h a",
        "weights_/encode.0.bias": "h",
        "weights_/encode.1.weight": "d h",
        "weights_/encode.1.bias": "d",
    }
    parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "hidden": [Range(int, at_least=1)],
        "similarity": [Range(float, at_least=-1, at_most=1)],
        "relation": [Range(float, at_least=0)],
        "reconstruction": [Range(float, at_least=0)],
        "penalty": [Range(float, at_least=0)],
    }

    def __init__(
        self,
        *,
        hidden: int = 1200,
        similarity: float = 0.2,
        relation: float = 0.488,
        reconstruction: float = 4.88e-3,
        penalty: float = 4.88e-6,
        learning_rate: float = 1e-3,
        epochs: int = 200,
        batch_size: int = 64,
        feature_scaling: Scaling = "standard",
        attribute_scaling: Scaling = "unit",
        device: str = "cpu",
        precision: Precision = "float32",
        verbose: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.hidden = hidden
        self.similarity = similarity
        self.relation = relation
        self.reconstruction = reconstruction
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
        weights = draw_two_layers("encode", S.shape[1], self.hidden, X.shape[1], generator, device)
        weights |= draw_two_layers("decode", X.shape[1], self.hidden, S.shape[1], generator, device)
        A, means, shares = (as_tensor(values, device) for values in (S, *class_means(X, y, len(S))))
        centre = shares @ means  # the mean of all rows
        x2, a2 = mean_square(X), mean_square(S)
        centred, directions = (
            torch.nn.functional.normalize(A - A.mean(0)),
            torch.nn.functional.normalize(means - centre),
        )
        similar = centred @ centred.T  # δ (k, k)

        def loss(batch):
            embedded = two_layers(weights, "encode", A[batch])
            back = two_layers(weights, "decode", embedded)
            return (
                class_mean_loss(embedded, means[batch], shares[batch], len(A))
                + (x2 * self.relation)
                * relation_loss(
                    torch.nn.functional.normalize(embedded - centre) @ directions.T, similar[batch], self.similarity
                )
                + (x2 / a2 * self.reconstruction) * (back - A[batch]).square().sum(1).mean()
            )

        self.history_ = train_model(self, weights.values(), loss, len(A), generator, weight_decay=2 * x2 * self.penalty)
        # The decoder has done its work: a score needs the encoder alone.
        self.weights_ = to_arrays({n: w for n, w in weights.items() if n.startswith("encode")})

    def _embed_classes(self, A):
        device = find_device(self.device)
        return to_numpy(two_layers(as_tensors(self.weights_, device), "encode", as_tensor(A, device)))  # (k, d)

    def _scores(self, X, E, seen):
        return -euclidean_distances(X, E, squared=True)

    def _export_scores(self, graph, X, A, seen):
        return graph.closeness(X, graph.two_layers(A, self.weights_, "encode"))


def relation_loss(cosine, similar, threshold):
    """Mean over pairs of what a visual cosine lacks (similar classes) or has too much of (dissimilar ones)."""
    return torch.where(similar >= threshold, similar - cosine, cosine - similar).relu().mean()
