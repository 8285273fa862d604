"""The paper's inductive method: a two-branch deep embedding, learned by alternating optimisation."""

from __future__ import annotations

import json
import math
import os
import warnings
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from firstsight._io.disk_samples import DiskSamples
from firstsight._io.identity import fingerprint
from firstsight._io.terminal import progress
from firstsight.devices import Precision, find_device, team, torch
from firstsight.errors import FirstsightWarning
from firstsight.methods._gradient_training import (
    RowsInMemory,
    TrainingSamples,
    as_tensor,
    as_tensors,
    to_arrays,
    to_numpy,
)
from firstsight.methods._moments import fit_scaling_from_disk
from firstsight.methods._validation import ClassSelection, OneOf, Range
from firstsight.methods.base import RandomState, Scaling, ZeroShotClassifier
from firstsight.methods.deep_embedding.alternating import (
    AlternatingTraining,
    Checkpoint,
    SamplesOnDisk,
    factor_to_length,
)
from firstsight.methods.deep_embedding.two_branch import TwoBranch

# What a parameter means that is left at None. "validated": what class-wise validation on training classes of five data
# sets (few folds, mostly one seed) supports; benchmarks/choose_defaults.py prints such comparisons. "paper": what the
# paper states; λ, η, the batch size and the steps for ψ, which it leaves to cross-validation, are those that suit its
# learning rate. "fast": less of the same.
_VALIDATED_AND_PAPER: dict[str, tuple[Any, Any]] = {
    "embedding_dim": (1024, 1024),
    "feature_length": (32.0, 0.0),
    "separation": (300.0, 100.0),
    "penalty": (1e-5, 1e-5),
    "learning_rate": (1e-3, 1e-4),
    "schedule": ("cosine", "constant"),
    "iterations": (50, 50),
    # The right amount of training differs between data sets (4 passes over ANIMALS42, 30 over glyphs), and less so by
    # this measure: most validation folds are near their best when it is between 0.04 and 0.1.
    "stop_below": (0.05, 0.0),
    "batch_size": (256, 128),
    "semantic_steps": (30, 50),
    "semantic_rate": (1.0, 1.0),
    "rounds": (10, 10),
    "round_iterations": (4, 50),
    "selection": (0.1, 40),
}
PRESETS: dict[str, dict[str, Any]] = {
    preset: {name: values[column] for name, values in _VALIDATED_AND_PAPER.items()}
    for column, preset in enumerate(("validated", "paper"))
}
PRESETS["fast"] = {**PRESETS["validated"], "iterations": 18, "stop_below": 0.1, "round_iterations": 2}


class DeepEmbedding(ZeroShotClassifier):
    """Two-branch deep embedding of images and class descriptions into one space.

    Two small networks map features, φ(x) = relu(W_v x + b_v), and descriptions, ψ(a) = relu(W₂ relu(W₁ a + b₁) +
    b₂), into the same space. A regression term pulls every φ(x) to the ψ of its class (compactness); a linear
    classifier W on φ keeps classes apart (separability), without which both networks would shrink to zero. A new
    class needs no training, because ψ embeds it from its description alone.

    Objective (Eq. 1 of the paper; squared distances are summed over dimensions, both terms averaged over samples)::

        mean_i ‖φ(x_i) − ψ(a_{y_i})‖² + λ · mean_i CE(W φ(x_i), y_i) + η (‖θ_v‖² + ‖θ_s‖² + ‖W‖²)

    solved by Algorithm 1: T times, (a) one pass of Adam over the samples for φ and W with ψ fixed (Eq. 4), (b) Adam
    steps for ψ with φ fixed (Eq. 5). Since ψ depends on the class alone, (b) is exactly a problem on the class
    means of φ, weighted by class size: C rows instead of n.

    Score: −‖φ(x) − ψ(a_c)‖² (Eq. 2).

    Parameters
    ----------
    preset : {"validated", "paper", "fast"}
        Where a parameter left at None takes its value from (`firstsight.methods.deep_embedding.PRESETS`).
    embedding_dim : int
        Dimensions of the joint space.
    feature_length : float
        Root mean squared length that features are multiplied to. The effect of λ, η and the learning rate depends on
        the scale of features; so they mean the same on any data. 0: features stay as they are.
    separation : float
        λ, the weight of the classification term; near or below 1 the embedding collapses.
    penalty : float
        η, the weight of the squared norm of all parameters.
    learning_rate : float
        Step size of Adam.
    schedule : {"constant", "cosine"}
        "cosine" lets the learning rate fade to zero over the iterations of a round; not over those of a first round
        that `stop_below` may end, because their number is not known.
    iterations : int
        T, the outer iterations; at most so many.
    stop_below : float
        Training on the labelled samples ends once the mean cross-entropy of a pass is below this: seen classes are
        separated then, and further training overfits. 0: all iterations are done.
    batch_size : int
        Samples per step of (a). Left to the preset, it is at most a sixteenth of the samples, so that a pass over a
        small data set has enough steps.
    semantic_steps : int
        Adam steps for ψ in each outer iteration.
    semantic_rate : float
        Learning rate of ψ as a multiple of `learning_rate`. Class means carry no sampling noise, so ψ can take
        a few long steps where φ takes many short ones.
    feature_scaling, attribute_scaling : {None, "unit", "standard"}
        Scaling of features and of descriptions, fitted on the training samples and seen classes.
    checkpoint : path or None
        A file for the state of the running fit. If it exists, the fit resumes from it and ends with the same model,
        bit for bit, as one that was never interrupted.
    device : str
        Where to compute: "cpu", "cuda", "mps", …, or "auto", which is a GPU if there is one (docs/scale.md).
    precision : {"float32", "bfloat16"}
        Of the matrix products of a fit; weights and sums are float32.
    verbose : bool
        Show a progress bar in a terminal.
    random_state : int, RandomState or None
        Seed of all random numbers.

    Attributes
    ----------
    classes_, descriptions_ : array (C,) and array (C, a)
        Every class that can be predicted, and its description.
    weights_ : dict of arrays
        visual.weight (e, d), semantic.0.weight (h, a), semantic.1.weight (e, h), …
    settings_ : dict
        The value of every parameter after the preset was applied.
    history_ : list of dict
        One per outer iteration: round, iteration, loss, regression, classification, semantic.
    collapsed_ : bool
        Whether the classifier separates seen classes no better than chance.

    Notes
    -----
    Differences from the paper: it leaves λ, η, the batch size and the number of steps for ψ open; they come from
    class-wise validation here. Descriptions are scaled to unit length by default, as in the public files.

    References
    ----------
    L. Zhang et al., Towards Effective Deep Embedding for Zero-Shot Learning, 2018.
    https://arxiv.org/abs/1808.10075

    Examples
    --------
    >>> import numpy as np
    >>> from firstsight.methods import DeepEmbedding
    >>> rng = np.random.default_rng(0)
    >>> descriptions = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 1], [1, 0, 1.0]])
    >>> y = np.repeat([0, 1, 2, 3, 4], 40)                  # class 5 has a description, but no samples
    >>> X = descriptions[y] + 0.1 * rng.normal(size=(200, 3))
    >>> model = DeepEmbedding(embedding_dim=64, learning_rate=1e-2, random_state=0).fit(X, y, descriptions)
    >>> model.predict([[1.0, 0.1, 0.9]], classes=[1, 5])
    array([5])
    """

    space = "latent"
    needs_torch = True
    reads_blocks = True
    reference = "Zhang et al., Towards Effective Deep Embedding for Zero-Shot Learning, 2018"
    grid: ClassVar[dict[str, list[Any]]] = {
        "separation": [100.0, 300.0, 1000.0],
        "penalty": [1e-5, 1e-3],
    }
    quick: ClassVar[dict[str, Any]] = {
        "embedding_dim": 64,
        "learning_rate": 1e-2,
        "iterations": 8,
        "semantic_steps": 10,
        "semantic_rate": 1.0,
    }
    presets = PRESETS

    dtypes = (np.float32,)
    fitted_arrays: ClassVar[dict[str, str]] = {
        "weights_/visual.weight": "e d",
        "weights_/visual.bias": "e",
        "weights_/semantic.0.weight": "h a",
        "weights_/semantic.0.bias": "h",
        "weights_/semantic.1.weight": "e h",
        "weights_/semantic.1.bias": "e",
        "weights_/classifier.weight": "k e",
        "weights_/classifier.bias": "k",
    }
    parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "preset": [OneOf(*PRESETS)],
        "embedding_dim": [Range(int, at_least=1), None],
        "feature_length": [Range(float, at_least=0), None],
        "separation": [Range(float, at_least=0), None],
        "penalty": [Range(float, at_least=0), None],
        "learning_rate": [Range(float, above=0), None],
        "schedule": [OneOf("constant", "cosine"), None],
        "iterations": [Range(int, at_least=1), None],
        "stop_below": [Range(float, at_least=0), None],
        "batch_size": [Range(int, at_least=1), None],
        "semantic_steps": [Range(int, at_least=1), None],
        "semantic_rate": [Range(float, above=0), None],
        "checkpoint": [str, os.PathLike, None],
    }

    def __init__(
        self,
        *,
        preset: Literal["validated", "paper", "fast"] = "validated",
        embedding_dim: int | None = None,
        feature_length: float | None = None,
        separation: float | None = None,
        penalty: float | None = None,
        learning_rate: float | None = None,
        schedule: Literal["constant", "cosine"] | None = None,
        iterations: int | None = None,
        stop_below: float | None = None,
        batch_size: int | None = None,
        semantic_steps: int | None = None,
        semantic_rate: float | None = None,
        feature_scaling: Scaling = None,
        attribute_scaling: Scaling = "unit",
        checkpoint: str | os.PathLike[str] | None = None,
        device: str = "cpu",
        precision: Precision = "float32",
        verbose: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.preset = preset
        self.embedding_dim = embedding_dim
        self.feature_length = feature_length
        self.separation = separation
        self.penalty = penalty
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.iterations = iterations
        self.stop_below = stop_below
        self.batch_size = batch_size
        self.semantic_steps = semantic_steps
        self.semantic_rate = semantic_rate
        self.feature_scaling = feature_scaling
        self.attribute_scaling = attribute_scaling
        self.checkpoint = checkpoint
        self.device = device
        self.precision = precision
        self.verbose = verbose
        self.random_state = random_state

    def embed(self, X: ArrayLike) -> np.ndarray:
        """The embedding φ(x) (n, e) of samples in the joint space."""
        rows = self._scale_features(self.check_features(X))
        with torch.no_grad():
            net = self._net()
            return to_numpy(net.visual(as_tensor(rows, net.device)))

    def embed_classes(self, classes: ClassSelection = None) -> np.ndarray:
        """The embedding ψ(a_c) (k, e) of classes in the joint space; `classes` as in `predict`."""
        check_is_fitted(self)
        A = self.candidates(classes)[1]
        return to_numpy(self._embed_classes(self._scale_descriptions(A))[1])

    def _fit(self, X, y, S):
        settings = self._settings(len(X))
        if isinstance(X, DiskSamples):
            self.feature_scaler_ = fit_scaling_from_disk(self.feature_scaling, X)
        with progress(type(self).__name__, settings["iterations"], self.verbose and team().rank == 0) as show:
            training = self._start_training(settings, show, X, y, S)
            if training.round == 1:
                factor, device = training.factor, training.device
                samples: TrainingSamples
                if isinstance(X, DiskSamples):

                    def scaled(rows: np.ndarray) -> np.ndarray:
                        return self._scale_features(rows) * np.float32(factor)

                    samples = SamplesOnDisk(X, scaled, settings["batch_size"], device)
                else:
                    samples = RowsInMemory(as_tensor(X, device), factor)
                training.run(samples, torch.from_numpy(y), as_tensor(S, device), settings["iterations"])
                training.save(force=True)
        self._store(training, len(S))

    def _embed_classes(self, A):
        net = self._net()
        with torch.no_grad():
            return net, net.semantic(as_tensor(A, net.device))

    def _scores(self, X, E, seen):
        net, embedded_classes = E
        return to_numpy(net.squared_distances(as_tensor(X, net.device), embedded_classes).neg_())

    def _export_scores(self, graph, X, A, seen):
        visual = graph.linear(X, self.weights_["visual.weight"], self.weights_["visual.bias"])
        return graph.closeness(graph("Relu", visual), graph("Relu", graph.two_layers(A, self.weights_, "semantic")))

    def _settings(self, n_rows: int) -> dict[str, Any]:
        """Every parameter of the preset: as given, or else the preset's value."""
        given = self.get_params()
        settings = {k: v if given[k] is None else given[k] for k, v in PRESETS[self.preset].items() if k in given}
        if self.batch_size is None:
            settings["batch_size"] = min(settings["batch_size"], max(16, n_rows // 16))
        return settings

    def _start_training(
        self, settings, on_iteration, X, y, S, *more, rounds=1, n_unseen=0, selection=None
    ) -> AlternatingTraining:
        checkpoint = None
        if self.checkpoint is not None:
            parameters = {**settings, "random_state": self.random_state, "precision": self.precision}
            owner = fingerprint(json.dumps(parameters, sort_keys=True, default=repr), X, y, S, *more)
            checkpoint = Checkpoint(self.checkpoint, owner)
        sizes = (X.shape[1], S.shape[1], len(S))
        scaled = self._scale_features if isinstance(X, DiskSamples) else None  # samples in memory are scaled already
        factor = factor_to_length(X, settings["feature_length"], scaled)
        return AlternatingTraining(
            settings,
            sizes,
            self.random_state,
            checkpoint,
            on_iteration,
            factor,
            find_device(self.device),
            self.precision,
            rounds=rounds,
            n_unseen=n_unseen,
            selection=selection,
        )

    def _store(self, training: AlternatingTraining, n_classes: int) -> None:
        self.settings_ = training.settings
        self.history_ = training.history
        self.weights_ = to_arrays(training.unscaled_net().weights)
        last = training.history[-1]["classification"]
        self.collapsed_ = last > 0.9 * math.log(n_classes)
        if self.collapsed_:
            warnings.warn(
                f"The embedding has collapsed, or has hardly been trained: its classifier tells {n_classes} classes "
                f"apart no better than chance (cross-entropy {last:.2f}). Give `separation` (now "
                f"{training.settings['separation']:g}) a larger value, or train for longer.",
                FirstsightWarning,
                stacklevel=4,
            )

    def _net(self) -> TwoBranch:
        return TwoBranch(as_tensors(self.weights_, find_device(self.device)))
