"""RN: a network that judges whether an image and a description belong together."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from firstsight.devices import Precision, find_device, torch
from firstsight.methods._gradient_training import (
    as_tensor,
    as_tensors,
    draw_two_layers,
    make_generator,
    new_layer,
    to_arrays,
    to_numpy,
    train_model,
    two_layers,
)
from firstsight.methods._validation import Range
from firstsight.methods.base import RandomState, Scaling, ZeroShotClassifier

# Hidden values of the pairs that are scored at once: a few megabytes stay in the processor's cache.
PAIR_VALUES = 2**20


class RN(ZeroShotClassifier):
    """Learns to judge whether a sample and a description belong together.

    A network f embeds the description; a second one, g, sees this embedding beside the features and gives their
    relation, a number between 0 and 1. Instead of a fixed distance, the comparison itself is learned. A new
    class needs its description only: g compares it as any other.

    Objective, over the samples i of a batch and the classes c that occur in it (m of them)::

        mean_{i,c} w_ic (g(f(a_c), x_i) − [c = y_i])² + λ ‖θ‖²,    w_ic = (m − 1)^β if c = y_i, else 1

        f(a) = relu(W₂ relu(γ W₁ a + b₁) + b₂),  g(f, x) = σ(v · relu(W_r [f; x] + b_r) + b)

    solved by Adam. W_r [f; x] = W_a f + W_x x: a batch costs one product for its samples and one for its classes;
    only their sum, the relu and v meet every pair.

    Score: g before σ, which has the order of g and does not saturate.

    Parameters
    ----------
    attribute_gain : float
        Scale of descriptions at the input of f: γ = attribute_gain · √(3a) / mean_c ‖a_c‖.
    attribute_hidden, embedding_dim : int
        Units of the two layers of f.
    relation_hidden : int
        Units of the hidden layer of g.
    balance : float
        β: 0 weighs all pairs alike, 1 gives those that belong together half of the weight.
    penalty : float
        λ, the weight of the squared norm of all weights.
    learning_rate : float
        Step size of Adam.
    epochs : int
        Passes over the samples.
    batch_size : int
        Samples in one step; their classes are what a sample is compared with.
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
        attribute.0.weight (attribute_hidden, a), attribute.1.weight (embedding_dim, …), relation.description W_a,
        relation.feature W_x, relation.bias, output.weight v, output.bias, …
    gain_ : float
        γ.
    history_ : list of float
        The mean loss of every epoch.

    Notes
    -----
    Differences from the paper: one pair in m belongs together, so the constant g = 1/m is nearly optimal, and training
    was seen to stay there unless it takes very many very small steps (the paper's rate is 1e-5). Three things lead away
    from it: b starts at this constant, pairs that belong together weigh more (β), and descriptions are enlarged (γ),
    without which they are faint beside the features. The learning rate fades to zero.

    References
    ----------
    F. Sung et al., Learning to Compare: Relation Network for Few-Shot Learning, CVPR 2018.
    https://arxiv.org/abs/1711.06025

    Examples
    --------
    >>> import numpy as np
    >>> from firstsight.methods import RN
    >>> rng = np.random.default_rng(0)
    >>> descriptions = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 1], [1, 0, 1.0]])
    >>> y = np.repeat([0, 1, 2, 3, 4], 40)                  # class 5 has a description, but no samples
    >>> X = descriptions[y] + 0.1 * rng.normal(size=(200, 3))
    >>> small = {"attribute_hidden": 32, "embedding_dim": 32, "relation_hidden": 64, "learning_rate": 1e-2}
    >>> model = RN(**small, random_state=0).fit(X, y, descriptions)
    >>> model.predict([[1.0, 0.1, 0.9]], classes=[1, 5])
    array([5])
    """

    space = "latent"
    needs_torch = True
    reference = "Sung et al., Learning to Compare: Relation Network for Few-Shot Learning, CVPR 2018"
    grid: ClassVar[dict[str, list[Any]]] = {"attribute_gain": [1.0, 2.0, 4.0], "balance": [0.25, 0.5]}
    quick: ClassVar[dict[str, Any]] = {
        "attribute_hidden": 32,
        "embedding_dim": 32,
        "relation_hidden": 64,
        "learning_rate": 1e-2,
    }

    dtypes = (np.float32,)
    fitted_arrays: ClassVar[dict[str, str]] = {
        "weights_/attribute.0.weight": "h a",
        "weights_/attribute.0.bias": "h",
        "weights_/attribute.1.weight": "e h",
        "weights_/attribute.1.bias": "e",
        "weights_/relation.description": "r e",
        "weights_/relation.feature": "r d",
        "weights_/relation.bias": "r",
        "weights_/output.weight": "1 r",
        "weights_/output.bias": "1",
    }
    parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "attribute_gain": [Range(float, above=0)],
        "attribute_hidden": [Range(int, at_least=1)],
        "embedding_dim": [Range(int, at_least=1)],
        "relation_hidden": [Range(int, at_least=1)],
        "balance": [Range(float, at_least=0, at_most=1)],
        "penalty": [Range(float, at_least=0)],
    }

    def __init__(
        self,
        *,
        attribute_gain: float = 2.0,
        attribute_hidden: int = 1024,
        embedding_dim: int = 2048,
        relation_hidden: int = 1200,
        balance: float = 0.25,
        penalty: float = 1e-5,
        learning_rate: float = 3e-4,
        epochs: int = 15,
        batch_size: int = 32,
        feature_scaling: Scaling = "standard",
        attribute_scaling: Scaling = "unit",
        device: str = "cpu",
        precision: Precision = "float32",
        verbose: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.attribute_gain = attribute_gain
        self.attribute_hidden = attribute_hidden
        self.embedding_dim = embedding_dim
        self.relation_hidden = relation_hidden
        self.balance = balance
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
        generator, device = make_generator(self.random_state), find_device(self.device)
        weights = draw_two_layers("attribute", S.shape[1], self.attribute_hidden, self.embedding_dim, generator)
        joint, bias = new_layer(self.relation_hidden, self.embedding_dim + X.shape[1], generator)
        weights["relation.description"] = joint[:, : self.embedding_dim].clone()  # W_a
        weights["relation.feature"] = joint[:, self.embedding_dim :].clone()  # W_x
        weights["relation.bias"] = bias
        weights["output.weight"], weights["output.bias"] = new_layer(1, self.relation_hidden, generator)
        # The best constant, so that the first steps need not silence the hidden units to get there.
        rivals = max(min(self.batch_size, len(S)) - 1, 1)
        weights["output.bias"].fill_((self.balance - 1) * math.log(rivals))
        # A hidden unit of f starts with a variance of attribute_gain², whatever the scale of descriptions.
        length = float(np.linalg.norm(S, axis=1).mean())
        self.gain_ = self.attribute_gain * (3 * S.shape[1]) ** 0.5 / (length or 1.0)
        weights = {name: weight.to(device) for name, weight in weights.items()}
        rows, labels, A = (as_tensor(values, device) for values in (X, y, S))
        A = A * self.gain_

        def loss(batch):
            present, true = labels[batch].unique(return_inverse=True)
            of_row, of_class = row_part(weights, rows[batch]), class_part(weights, A[present])
            same = torch.eye(len(present), device=device)[true]  # (b, c)
            error = (relation_logits(weights, of_row, of_class).sigmoid() - same).square()
            return (error * max(len(present) - 1, 1) ** (self.balance * same)).mean()

        # λ‖θ‖² has the gradient 2λθ
        self.history_ = train_model(
            self, weights.values(), loss, len(rows), generator, weight_decay=2 * self.penalty, schedule="cosine"
        )
        self.weights_ = to_arrays(weights)

    def _embed_classes(self, A):
        weights = as_tensors(self.weights_, find_device(self.device))
        return weights, class_part(weights, as_tensor(A, weights["output.bias"].device) * self.gain_)  # (k, h)

    def _scores(self, X, E, seen):
        weights, E = E
        of_row = row_part(weights, as_tensor(X, E.device))  # (n, h)
        scores = E.new_empty(len(of_row), len(E))
        columns = max(1, min(len(E), PAIR_VALUES // E.shape[1]))
        height = max(1, PAIR_VALUES // (E.shape[1] * columns))
        for top in range(0, len(of_row), height):
            for left in range(0, len(E), columns):
                part = slice(top, top + height), slice(left, left + columns)
                scores[part] = relation_logits(weights, of_row[part[0]], E[part[1]])
        return to_numpy(scores)

    def _export_scores(self, graph, X, A, seen):
        enlarged = graph("Mul", A, graph.constant(self.gain_))
        embedded = graph("Relu", graph.two_layers(enlarged, self.weights_, "attribute"))
        of_class = graph("MatMul", embedded, graph.constant(self.weights_["relation.description"].T))  # (k, h)
        of_row = graph.linear(X, self.weights_["relation.feature"], self.weights_["relation.bias"])  # (n, h)
        pairs = graph("Add", graph("Unsqueeze", of_row, graph.constant([1], np.int64)), of_class)  # (n, k, h)
        logits = graph.linear(graph("Relu", pairs), self.weights_["output.weight"], self.weights_["output.bias"])
        return graph("Squeeze", logits, graph.constant([2], np.int64))


def class_part(weights, A):
    """W_a f(a) for each description: what it adds to the hidden layer of g, whatever the sample."""
    return torch.nn.functional.linear(torch.relu(two_layers(weights, "attribute", A)), weights["relation.description"])


def row_part(weights, X):
    """W_x x + b for each sample: what it adds to the hidden layer of g, whatever the class."""
    return torch.nn.functional.linear(X, weights["relation.feature"], weights["relation.bias"])


def relation_logits(weights, of_row, of_class):
    """g before its sigmoid for every pair (b, c)."""
    hidden = torch.relu(of_row[:, None] + of_class)  # (b, c, h)
    return (hidden @ weights["output.weight"][0]) + weights["output.bias"]
