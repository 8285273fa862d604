"""SSE: samples and classes as mixtures of the seen classes, compared by a max-margin score."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from firstsight.devices import Precision, find_device, torch
from firstsight.methods._gradient_training import as_tensor, make_generator, to_numpy, train_model
from firstsight.methods._moments import class_sums
from firstsight.methods._validation import Range
from firstsight.methods.base import RandomState, Scaling, ZeroShotClassifier

if TYPE_CHECKING:
    from torch import Tensor


def mixtures(A: np.ndarray, S: np.ndarray, penalty: float, steps: int = 500) -> np.ndarray:
    """Each row a of A as a mixture of the rows of S: argmin over α ≥ 0, Σα = 1 of ½‖a − Sᵀα‖² + penalty/2 ‖α‖²  (C, k).

    Accelerated projected gradient steps for all rows at once, as many for one row as for a thousand: how a class is
    described must not depend on which others are asked for.
    """
    A, S = A.astype(np.float64), S.astype(np.float64)
    curvature, target = S @ S.T + penalty * np.eye(len(S)), A @ S.T
    rate = 1 / np.linalg.norm(curvature, 2)
    alpha = ahead = np.full(target.shape, 1 / len(S))
    for step in range(steps):  # Nesterov's acceleration
        previous, alpha = alpha, _onto_simplex(ahead - rate * (ahead @ curvature - target))
        ahead = alpha + step / (step + 3) * (alpha - previous)
    return alpha.astype(np.float32)


def _onto_simplex(points: np.ndarray) -> np.ndarray:
    """The nearest point with entries ≥ 0 that sum to one, for each row: all entries lose the same and stop at zero."""
    largest = -np.sort(-points, axis=1)
    loss = (largest.cumsum(axis=1) - 1) / np.arange(1, points.shape[1] + 1)
    kept = (largest > loss).sum(axis=1, keepdims=True)
    return np.maximum(points - np.take_along_axis(loss, kept - 1, axis=1), 0)


# Samples compared with a prototype at once: their minima stay in the processor's cache.
BLOCK = 128


def shared_parts(X: Tensor, w: Tensor, V: Tensor) -> Tensor:
    """⟨w, min(x, v_k)⟩ (n, k), without ever holding the n × k × d minima."""
    out = X.new_empty(len(X), len(V))
    for start in range(0, len(X), BLOCK):
        block = X[start : start + BLOCK]
        for k, v in enumerate(V):
            out[start : start + BLOCK, k] = torch.minimum(block, v) @ w
    return out


@cache
def _shared_parts_function() -> Any:
    """`shared_parts` with its derivative, class by class as well. Defined late: its base is a class of torch."""

    class SharedParts(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, X: Tensor, w: Tensor, V: Tensor) -> Tensor:
            ctx.save_for_backward(X, w, V)
            return shared_parts(X, w, V)

        @staticmethod
        def backward(ctx: Any, slope: Tensor) -> tuple[None, Tensor, Tensor]:
            X, w, V = ctx.saved_tensors
            slope_w, slope_V = torch.zeros_like(w), torch.empty_like(V)
            for k, v in enumerate(V):
                slope_w += slope[:, k] @ torch.minimum(X, v)
                slope_V[k] = w * (slope[:, k] @ (v < X).to(X.dtype))
            return None, slope_w, slope_V

    return SharedParts.apply


class SSE(ZeroShotClassifier):
    """Learns what a sample has in common with each seen class; a class is a mixture of seen classes.

    The description of any class is written as a mixture ψ(c) of the descriptions of the seen classes. A sample is
    compared with every seen class k by φ_k(x) = min(x, v_k), entry by entry: what it shares with a learned prototype
    v_k. Weights w turn that into a number per seen class; a sample belongs to the class whose mixture agrees with them.

    Objective::

        ψ(c) = argmin over α ≥ 0, Σα = 1 of ½‖a_c − Sᵀα‖² + γ/2 ‖α‖²
        mean_i [max_c (Δ·1[c ≠ y_i] + F(x_i, c)) − F(x_i, y_i)]₊ + η/2 ‖w‖²     over w and all v_k

    The mixtures are found by accelerated projected gradient steps, all classes at once; w (from equal weights) and V
    (from the class means) by Adam on batches of samples.

    Score: F(x, c) = Σ_k ⟨w, min(x, v_k)⟩ ψ_k(c).

    Parameters
    ----------
    mixture_penalty : float
        γ. The larger, the more seen classes make up a class; near zero a seen class is made of itself alone.
    margin, penalty, learning_rate : float
        Δ, η and Adam's rate; the prototypes of unit samples are small, and at 1e-3 they drift off after some 200 steps.
    epochs, batch_size : int
        Passes over the samples, and samples per step.
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
    seen_descriptions_ : array (k, a)
        Of the seen classes.
    weights_, prototypes_ : array (d,) and array (k, d)
        w and V.
    history_ : list of float
        The mean loss of every epoch.

    Notes
    -----
    Differences from the paper: w and V take gradient steps together, instead of a support vector machine for w in turn
    with V, and only the worst rival of a sample counts.

    References
    ----------
    Z. Zhang, V. Saligrama, Zero-Shot Learning via Semantic Similarity Embedding, ICCV 2015.
    https://arxiv.org/abs/1509.04767

    Examples
    --------
    >>> import numpy as np
    >>> from firstsight.methods import SSE
    >>> rng = np.random.default_rng(0)
    >>> descriptions = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 1], [1, 0, 1.0]])
    >>> y = np.repeat([0, 1, 2, 3, 4], 40)                  # class 5 has a description, but no samples
    >>> X = descriptions[y] + 0.1 * rng.normal(size=(200, 3))
    >>> model = SSE(learning_rate=1e-2, epochs=20, random_state=0).fit(X, y, descriptions)
    >>> model.predict([[1.0, 0.1, 0.9]], classes=[1, 5])
    array([5])
    """

    space = "latent"
    needs_torch = True
    reference = "Zhang and Saligrama, Zero-Shot Learning via Semantic Similarity Embedding, ICCV 2015"
    grid: ClassVar[dict[str, list[Any]]] = {"mixture_penalty": [1.0, 3.0, 10.0], "learning_rate": [3e-4, 1e-3]}
    quick: ClassVar[dict[str, Any]] = {"mixture_penalty": 3.0, "learning_rate": 0.1, "epochs": 40}

    dtypes = (np.float32,)
    fitted_arrays: ClassVar[dict[str, str]] = {"seen_descriptions_": "k a", "weights_": "d", "prototypes_": "k d"}
    parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "mixture_penalty": [Range(float, above=0)],
        "margin": [Range(float, above=0)],
        "penalty": [Range(float, at_least=0)],
    }

    def __init__(
        self,
        *,
        mixture_penalty: float = 10.0,
        margin: float = 1.0,
        penalty: float = 1e-4,
        learning_rate: float = 3e-4,
        epochs: int = 5,
        batch_size: int = 128,
        feature_scaling: Scaling = "unit",
        attribute_scaling: Scaling = "unit",
        device: str = "cpu",
        precision: Precision = "float32",
        verbose: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.mixture_penalty = mixture_penalty
        self.margin = margin
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
        self.seen_descriptions_ = S
        device = find_device(self.device)
        rows, labels, psi = (as_tensor(values, device) for values in (X, y, self._embed_classes(S)))
        means = (class_sums(X, y, len(S)) / np.bincount(y)[:, None]).astype(np.float32)
        V = as_tensor(means, device)  # (k, d)
        w = torch.full((X.shape[1],), X.shape[1] ** -0.5, device=device)  # (d,)

        shared = _shared_parts_function()

        def loss(batch: Tensor) -> Tensor:
            scores = shared(rows[batch], w, V) @ psi.T  # (b, k)
            true = scores.gather(1, labels[batch, None])  # (b, 1)
            rivals = (scores + self.margin).scatter(1, labels[batch, None], true)
            return (rivals.amax(1, keepdim=True) - true).mean() + self.penalty / 2 * w.square().sum()

        self.history_ = train_model(self, [w, V], loss, len(X), make_generator(self.random_state))
        self.weights_, self.prototypes_ = to_numpy(w), to_numpy(V)

    def _embed_classes(self, A):
        return mixtures(A, self.seen_descriptions_, self.mixture_penalty)  # (k, seen)

    def _scores(self, X, E, seen):
        device = find_device(self.device)
        shared = shared_parts(*(as_tensor(values, device) for values in (X, self.weights_, self.prototypes_)))
        return to_numpy(shared) @ E.T  # (n, k)
