"""CMT: images are mapped into the space of descriptions; CMT* asks first whether an image is novel."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import erf
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neighbors import NearestNeighbors

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
from firstsight.methods._validation import OneOf, Range
from firstsight.methods.base import RandomState, Scaling, ZeroShotClassifier


class CMT(ZeroShotClassifier):
    """Learns a map from features to descriptions; a sample belongs to the class whose description it lands near.

    A network of two layers maps every sample onto the description of its class. Samples of unseen classes land near
    the seen descriptions too, because the map has been fitted to these; CMT* (`novelty`) therefore asks a
    detector first whether the mapped sample is novel. Novel samples get an unseen class, the others a seen class by
    softmax.

    Objective, with f(x) = W₁ tanh(W₂ x + b₂) + b₁::

        mean_i ‖a_{y_i} − f(x_i)‖² + λ ‖θ‖²
        mean_i −log p(y_i | x_i) + λ ‖V‖²,  p(· | x) = softmax(V x + b)        (CMT* only)

    solved by Adam. Sample x is novel

    - "gaussian": if log N(f(x); a_y, σ_y² I) lies for every seen class y below the threshold that the share ν
      of the class's own samples fall below. With one σ_y per class this says: f(x) lies outside every ball around
      an a_y that holds 1 − ν of its samples.
    - "loop": if its local outlier probability exceeds π. With N(p) the k training points nearest to p = f(x)
      and s(p) the root mean square distance to them, plof(p) = s(p) / mean_{q ∈ N(p)} s(q) − 1 and LoOP(p) =
      max(0, erf(plof(p) / (λ_L √2 · rms(plof over the training points)))).

    Score: −‖f(x) − a_c‖². CMT*: 1/(1 + cost) − [c is on the side that the detector excludes], with cost = −log
    p(c | x) for seen and ‖f(x) − a_c‖² for unseen classes: the first term lies between 0 and 1, so the detector
    decides first, then the cost.

    Parameters
    ----------
    novelty : {None, "gaussian", "loop"}
        None is CMT, the others are CMT* with one of its two detectors.
    novel_share : float
        ν: raise it, and more samples are novel ("gaussian").
    novel_probability : float
        π: lower it, and more samples are novel ("loop").
    neighbors : int
        k of LoOP.
    significance : float
        λ_L of LoOP: an outlier factor of this many standard deviations is an outlier with probability 0.68.
    hidden : int
        Units of the hidden layer.
    penalty : float
        λ, the weight of the squared norm of all weights.
    learning_rate : float
        Step size of Adam.
    epochs : int
        Passes over the samples.
    batch_size : int
        Samples per step.
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
        map.0.weight (hidden, d), map.1.weight (a, hidden), …; CMT*: seen.weight (k, d), seen.bias.
    history_ : list of float
        The mean loss of every epoch of f.
    seen_attributes_, radii_ : array (k, a) and array (k,)
        Centre and squared radius of every ball ("gaussian").
    mapped_, spreads_, deviation_ : array (n, a), array (n,), float
        f(x_i), s(f(x_i)) and the rms of plof of the training samples ("loop").

    Notes
    -----
    Differences from the paper: both layers have a bias. The detector decides; the paper also tells how to mix both
    answers by the probability of novelty. The thresholds come from validation classes.

    References
    ----------
    R. Socher et al., Zero-Shot Learning Through Cross-Modal Transfer, NeurIPS 2013; LoOP: H.-P. Kriegel et al., LoOP:
    Local Outlier Probabilities, CIKM 2009.
    https://arxiv.org/abs/1301.3666

    Examples
    --------
    >>> import numpy as np
    >>> from firstsight.methods import CMT
    >>> rng = np.random.default_rng(0)
    >>> descriptions = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 1], [1, 0, 1.0]])
    >>> y = np.repeat([0, 1, 2, 3, 4], 40)                  # class 5 has a description, but no samples
    >>> X = descriptions[y] + 0.1 * rng.normal(size=(200, 3))
    >>> model = CMT(hidden=32, learning_rate=1e-2, epochs=30, random_state=0).fit(X, y, descriptions)
    >>> model.predict([[1.0, 0.1, 0.9]], classes=[1, 5])
    array([5])
    """

    space = "semantic"
    needs_torch = True
    reference = "Socher et al., Zero-Shot Learning Through Cross-Modal Transfer, NeurIPS 2013"
    grid: ClassVar[dict[str, list[Any]]] = {"penalty": [1e-3, 3e-3, 1e-2], "epochs": [10, 30]}
    quick: ClassVar[dict[str, Any]] = {"hidden": 64, "learning_rate": 1e-2, "epochs": 30, "penalty": 1e-4}

    dtypes = (np.float32,)
    fitted_arrays: ClassVar[dict[str, str]] = {
        "weights_/map.0.weight": "h d",
        "weights_/map.0.bias": "h",
        "weights_/map.1.weight": "a h",
        "weights_/map.1.bias": "a",
        "weights_/seen.weight?": "k d",
        "weights_/seen.bias?": "k",
        "seen_attributes_?": "k a",
        "radii_?": "k",
        "mapped_?": "n a",
        "spreads_?": "n",
    }
    parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "novelty": [OneOf("gaussian", "loop"), None],
        "novel_share": [Range(float, at_least=0, at_most=1)],
        "novel_probability": [Range(float, at_least=0, at_most=1)],
        "neighbors": [Range(int, at_least=1)],
        "significance": [Range(float, above=0)],
        "hidden": [Range(int, at_least=1)],
        "penalty": [Range(float, at_least=0)],
    }

    def __init__(
        self,
        *,
        novelty: Literal["gaussian", "loop"] | None = None,
        novel_share: float = 0.2,
        novel_probability: float = 0.2,
        neighbors: int = 20,
        significance: float = 3.0,
        hidden: int = 500,
        penalty: float = 1e-2,
        learning_rate: float = 1e-3,
        epochs: int = 10,
        batch_size: int = 64,
        feature_scaling: Scaling = "standard",
        attribute_scaling: Scaling = "unit",
        device: str = "cpu",
        precision: Precision = "float32",
        verbose: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.novelty = novelty
        self.novel_share = novel_share
        self.novel_probability = novel_probability
        self.neighbors = neighbors
        self.significance = significance
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
        rows, labels, A = (as_tensor(values, device) for values in (X, y, S))
        weights = draw_two_layers("map", X.shape[1], self.hidden, S.shape[1], generator, device)

        def map_loss(batch):
            mapped = two_layers(weights, "map", rows[batch], torch.tanh)
            return (mapped - A[labels[batch]]).square().sum(1).mean()

        decay = 2 * self.penalty  # λ‖θ‖² has the gradient 2λθ
        self.history_ = train_model(self, weights.values(), map_loss, len(X), generator, weight_decay=decay)
        self.weights_ = to_arrays(weights)
        if self.novelty is None:
            return
        layer = [part.to(device) for part in new_layer(len(S), X.shape[1], generator)]

        def seen_loss(batch):
            logits = torch.nn.functional.linear(rows[batch], *layer)
            return torch.nn.functional.cross_entropy(logits, labels[batch])

        train_model(self, layer, seen_loss, len(X), generator, weight_decay=decay)
        self.weights_ |= to_arrays({"seen.weight": layer[0], "seen.bias": layer[1]})
        mapped = self._map(X)
        if self.novelty == "gaussian":
            squared = np.square(mapped - S[y]).sum(axis=1)
            radii = [np.quantile(squared[y == c], 1 - self.novel_share) for c in range(len(S))]
            # A training row on the surface of its ball lies inside, however a later product is rounded.
            self.seen_attributes_, self.radii_ = S, np.array(radii, dtype=X.dtype) * X.dtype.type(1 + 1e-4)
        else:
            self.mapped_ = mapped
            self.spreads_, factors = self._outlier_factors()
            self.deviation_ = float(np.sqrt(np.square(factors).mean()))

    def _scores(self, X, E, seen):
        mapped = self._map(X)
        distances = euclidean_distances(mapped, E, squared=True)  # (n, k)
        if self.novelty is None:
            return -distances
        device = find_device(self.device)
        layer = (as_tensor(self.weights_[name], device) for name in ("seen.weight", "seen.bias"))
        logits = torch.nn.functional.linear(as_tensor(X, device), *layer)
        surprise = -to_numpy(torch.log_softmax(logits, dim=1))  # (n, seen classes)
        known = seen >= 0
        cost = np.where(known, surprise[:, seen], distances)
        excluded = self._is_novel(mapped)[:, None] == known
        return 1 / (1 + cost) - excluded

    def _export_scores(self, graph, X, A, seen):
        if self.novelty is not None:
            raise NotImplementedError(f"with novelty={self.novelty!r} it asks whether a class was seen")
        return graph.closeness(graph.two_layers(X, self.weights_, "map", activation="Tanh"), A)

    def _map(self, X):
        device = find_device(self.device)
        mapped = two_layers(as_tensors(self.weights_, device), "map", as_tensor(X, device), torch.tanh)
        return to_numpy(mapped)  # f(x) (n, a)

    def _is_novel(self, mapped):
        if self.novelty == "gaussian":
            return (euclidean_distances(mapped, self.seen_attributes_, squared=True) > self.radii_).all(axis=1)
        return self._outlier_probability(mapped) > self.novel_probability

    def _outlier_probability(self, points):
        """LoOP (n,) of mapped samples."""
        _, factors = self._outlier_factors(points)
        # All training points alike: whatever differs from them at all is an outlier.
        return np.maximum(0, erf(factors / max(self.significance * self.deviation_ * 2**0.5, 1e-12)))

    def _outlier_factors(self, points=None):
        """s and plof of mapped samples among the training points; of these themselves (None), each without itself."""
        search = NearestNeighbors(n_neighbors=min(self.neighbors, len(self.mapped_) - 1), algorithm="brute")
        distances, nearest = search.fit(self.mapped_).kneighbors(points)
        spreads = np.sqrt(np.square(distances).mean(axis=1))
        around = (spreads if points is None else self.spreads_)[nearest].mean(axis=1)
        return spreads, spreads / np.maximum(around, 1e-12) - 1
