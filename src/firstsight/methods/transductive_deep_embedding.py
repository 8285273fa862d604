"""The paper's transductive method: the deep embedding, refined with pseudo-labels of unlabelled samples."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from firstsight._io.terminal import progress
from firstsight.devices import Precision, team, torch
from firstsight.methods._gradient_training import RowsInMemory, as_tensor, to_numpy
from firstsight.methods._validation import Range
from firstsight.methods.base import RandomState, Scaling, Setting, TransductiveClassifier
from firstsight.methods.deep_embedding import DeepEmbedding
from firstsight.methods.deep_embedding.alternating import AlternatingTraining

if TYPE_CHECKING:
    from torch import Tensor


class TransductiveDeepEmbedding(TransductiveClassifier, DeepEmbedding):
    """`DeepEmbedding` trained on labelled samples and on unlabelled samples that it pseudo-labels itself.

    A model that was never trained on a class tends to predict a seen one for its samples. So after a first training on
    the labelled samples, the pool of unlabelled samples is predicted, those predicted as an unseen class that lie
    nearest to its description join the training set under that label, and training continues; every round may select
    more. The model does not know which samples of the pool belong to unseen classes.

    Objective (Eq. 3): that of `DeepEmbedding`, summed over labelled and selected samples alike. Algorithm 2: round 1 is
    Algorithm 1 on the labelled samples. Before round r + 1 the pool is predicted with Eq. 2 and, for each unseen class
    c, the M nearest of the samples predicted as c are selected, M = M₀ · r (fewer if fewer were predicted). Every round
    selects afresh; weights are kept (warm start), Adam is not. W gets columns for the unseen classes; classes without a
    sample in the training set are masked out of the softmax.

    Score: −‖φ(x) − ψ(a_c)‖².

    Parameters
    ----------
    setting : {"gzsl", "zsl"}
        What the pool may hold. "gzsl": samples of any class; it is labelled among all classes. "zsl": samples of
        unseen classes only; it is labelled among these.
    preset : {"validated", "paper", "fast"}
        As in `DeepEmbedding`.
    rounds : int
        R, including the first on labelled samples alone.
    round_iterations : int
        Outer iterations in each round after the first.
    selection : int or float
        M₀ as a number of samples per class (the paper's), or, as a fraction below 1, that share of the mean number of
        samples *predicted* as an unseen class; M grows in proportion to the round and is the same for every class.
    preset, embedding_dim, feature_length, separation, penalty, learning_rate, schedule, iterations : various
        As in `DeepEmbedding`.
    stop_below, batch_size, semantic_steps, semantic_rate, feature_scaling, attribute_scaling, checkpoint : various
        As in `DeepEmbedding`.
    device, precision, verbose, random_state : various
        As in `DeepEmbedding`.

    Attributes
    ----------
    pool_predictions_ : array (R, m)
        The class of every pool sample after each round, as a position in `classes_`.
    selected_ : array (R, m)
        Whether a pool sample was trained on in each round (none in the first).
    rounds_ : list of dict
        One per round: round, selected (samples), classes (unseen classes reached).
    weights_, settings_, history_, classes_, descriptions_ : various
        As in `DeepEmbedding`.

    Notes
    -----
    Differences from the paper: M may be a fraction as well as a number (M₀ = 40 takes nearly the whole pool of a small
    data set by round 3 and learning stops), and later rounds are shorter than the first.

    References
    ----------
    L. Zhang et al., Towards Effective Deep Embedding for Zero-Shot Learning, 2018.
    https://arxiv.org/abs/1808.10075

    Examples
    --------
    >>> import numpy as np
    >>> from firstsight.methods import TransductiveDeepEmbedding
    >>> rng = np.random.default_rng(0)
    >>> descriptions = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 1], [1, 0, 1.0]])
    >>> y = np.repeat([0, 1, 2, 3, 4], 40)
    >>> X = descriptions[y] + 0.1 * rng.normal(size=(200, 3))
    >>> pool = np.array([1, 0, 1.0]) + 0.1 * rng.normal(size=(30, 3))  # of class 5, without labels
    >>> model = TransductiveDeepEmbedding(embedding_dim=64, learning_rate=1e-2, rounds=3, random_state=0)
    >>> model = model.fit(X, y, descriptions, X_unlabeled=pool)
    >>> float((model.predict(pool) == 5).mean())
    1.0
    """

    quick: ClassVar[dict[str, Any]] = {**DeepEmbedding.quick, "rounds": 3, "round_iterations": 2}

    fitted_arrays: ClassVar[dict[str, str]] = {
        **DeepEmbedding.fitted_arrays,
        "weights_/classifier.weight": "n e",
        "weights_/classifier.bias": "n",
    }
    parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "rounds": [Range(int, at_least=1), None],
        "round_iterations": [Range(int, at_least=1), None],
        "selection": [
            Range(int, at_least=1),
            Range(float, above=0, below=1),
            None,
        ],
    }

    def __init__(
        self,
        *,
        setting: Setting = "gzsl",
        preset: Literal["validated", "paper", "fast"] = "validated",
        rounds: int | None = None,
        round_iterations: int | None = None,
        selection: float | None = None,
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
        super().__init__(
            preset=preset,
            embedding_dim=embedding_dim,
            feature_length=feature_length,
            separation=separation,
            penalty=penalty,
            learning_rate=learning_rate,
            schedule=schedule,
            iterations=iterations,
            stop_below=stop_below,
            batch_size=batch_size,
            semantic_steps=semantic_steps,
            semantic_rate=semantic_rate,
            feature_scaling=feature_scaling,
            attribute_scaling=attribute_scaling,
            checkpoint=checkpoint,
            device=device,
            precision=precision,
            verbose=verbose,
            random_state=random_state,
        )
        self.setting = setting
        self.rounds = rounds
        self.round_iterations = round_iterations
        self.selection = selection

    def _fit(self, X, y, S, pool, U):  # type: ignore[override]
        settings = {**self._settings(len(X)), "setting": self.setting}
        # Without a pool there is nothing to select: Algorithm 2 is then Algorithm 1.
        rounds = settings["rounds"] if len(pool) else 1
        n, seen, classes = len(X), len(S), len(S) + len(U)
        labels = torch.from_numpy(y)
        total = settings["iterations"] + (rounds - 1) * settings["round_iterations"]
        selection = {
            "predictions": torch.full((rounds, len(pool)), -1),
            "selected": torch.zeros(rounds, len(pool), dtype=torch.bool),
        }
        with progress(type(self).__name__, total, self.verbose and team().rank == 0) as show:
            training = self._start_training(
                settings, show, X, y, S, pool, U, rounds=rounds, n_unseen=len(U), selection=selection
            )
            predictions, selected = training.selection["predictions"], training.selection["selected"]
            A = as_tensor(np.concatenate([S, U]), training.device)
            # One tensor for both kinds of samples, so that a batch is gathered at once; the pool is the end of it.
            both = torch.empty(n + len(pool), X.shape[1], device=training.device)
            both[:n], both[n:] = as_tensor(X), as_tensor(pool)
            if training.round == 1:
                training.run(RowsInMemory(both[:n], training.factor), labels, A[:seen], settings["iterations"])
            while training.round <= rounds:
                r = training.round - 1  # rounds finished; M = M₀ · r
                if training.iteration == 0:
                    predicted, gaps = self._pseudo_label(training, both[n:], A, seen)
                    predictions[r - 1] = torch.from_numpy(predicted)
                    nearest = select_nearest(predicted, gaps, seen, classes, settings["selection"], r)
                    selected[r] = torch.from_numpy(nearest)
                    training.net.widen_classifier(classes, training.generator)
                chosen = selected[r].nonzero().squeeze(1)
                targets = torch.cat([labels, predictions[r - 1][chosen]])
                numbers = torch.cat([torch.arange(n), n + chosen]).to(training.device)
                training.run(RowsInMemory(both, training.factor, numbers), targets, A, settings["round_iterations"])
            if len(pool):
                predictions[rounds - 1] = torch.from_numpy(self._pseudo_label(training, both[n:], A, seen)[0])
            training.save(force=True)
        self._store(training, seen)
        self.selected_ = selected.numpy()
        # From training codes (seen classes first, then unseen ones) to positions in `classes_`.
        codes = np.where(self.seen_code_ >= 0, self.seen_code_, seen + self.unseen_code_)
        self.pool_predictions_ = np.argsort(codes)[predictions.numpy()]
        self.rounds_ = [
            {"round": r + 1, "selected": int(row.sum()), "classes": len(predictions[r - 1][row].unique())}
            for r, row in enumerate(selected)
        ]

    def _pseudo_label(
        self, training: AlternatingTraining, pool: Tensor, A: Tensor, seen: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Codes and visual–semantic gaps of the pool, among the classes that the setting allows."""
        first = 0 if self.setting == "gzsl" else seen
        labels, gaps = training.unscaled_net().nearest(pool, A[first:])
        return to_numpy(labels) + first, to_numpy(gaps)


def select_nearest(
    labels: np.ndarray, gaps: np.ndarray, seen: int, classes: int, selection: float, finished: int
) -> np.ndarray:
    """Which pool samples to train on (m,): for each unseen class the M nearest of those predicted as it.

    M is selection · finished or, if selection is below 1, that share of the *mean* number of samples predicted as an
    unseen class. It is the same for every class: a share of each class's predicted number would let a class that
    attracts too many samples attract still more.
    """
    unseen = labels >= seen
    m = selection * finished
    if selection < 1:
        m = math.ceil(m * unseen.sum() / (classes - seen))
    selected = np.zeros(len(labels), dtype=bool)
    for c in range(seen, classes):
        rows = np.flatnonzero(labels == c)
        # Stable: samples at the same distance are selected in the order of the pool, so a run repeats exactly.
        selected[rows[np.argsort(gaps[rows], kind="stable")[:m]]] = True
    return selected
