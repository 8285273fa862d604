"""Class means that a pool of unlabelled rows corrects: EM for a mixture of balls with a prior over their centres."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import softmax

from firstsight.methods.parts.class_mean_prior import (
    leave_one_out_errors,
    leave_one_out_variances,
    mean_squared_error,
    mean_variances,
    mean_weights,
    precision,
)
from firstsight.methods.parts.coordinate_search import Settings
from firstsight.methods.parts.prototypes import Prototypes, closeness, labelled_prototypes
from firstsight.methods.parts.whitened_space import Space

STEPS = 3  # of EM in each space
# A class that takes less than this share of what a quarter of the classes exceed is likely absent or rare, and what it
# takes is another's: its rows count for less. Chosen on folds of ANIMALS42's, APASCAL's and glyphs' training classes.
FEW = 0.3
# Half of the attributes has no vote if it predicts seen classes' means with so many times the error of all of them.
WORSE = 1.5


@dataclass(frozen=True)
class Labelled:
    """What EM needs of the labelled rows: class sums (k, q + h) of what a space reads, counts (k,), and the kernel."""

    sums: np.ndarray
    counts: np.ndarray
    K: np.ndarray  # (k + j, k + j), of all classes: the k with rows first

    def precision(self, settings: Settings) -> np.ndarray:
        """(k, k), of the labelled classes alone: the same for all steps of EM."""
        k = len(self.counts)
        return precision(self.K[:k, :k] + settings["pool_nugget"] * np.eye(k), settings["noise"] / self.counts)


@dataclass(frozen=True)
class PoolProblem:
    """An inductive model and the pool that is to correct it; solved for as many settings as one likes.

    Labelled classes keep to their rows: pool rows taken for one of them are only kept out of the way.
    """

    model: Prototypes
    labelled: Labelled
    pool: np.ndarray  # (m, q + h): its rows, as the model's space reads them
    seen_too: bool  # whether the pool may hold rows of labelled classes
    handicap: float  # of these, in units of δ, against a class whose mean is predicted

    def solve(
        self, settings: Settings, start: np.ndarray | None = None
    ) -> tuple[Prototypes, np.ndarray, np.ndarray, np.ndarray]:
        """The corrected prototypes, the unseen classes' means (j, e), how doubtful (j,) these still are, and R (m, j).

        EM finds the nearest of many solutions, and with few classes it matters much which. So it begins as unsure as
        predicted means are on average, and cools down; or it begins with the shares `start` (m, j). Each round's steps
        are taken in a space widened by the directions in which unseen classes' means have left it.
        """
        rounds, temperature, space = int(settings["rounds"]), settings["temperature"], self.model.space
        # The variance of a predicted mean in each direction of the span of the labelled classes' means.
        heat = 2 * self.model.unit / max(len(self.labelled.counts) - 1, 1) if start is None else 0.0
        R = self._inductive_shares(temperature + heat) if start is None else start
        inverse = self.labelled.precision(settings)
        for number in range(rounds + 1):
            if number or start is not None:
                space = widened(self.model.space, self.labelled, self.pool, R)
            Z = space.places(self.pool)
            left = max(0.0, 1 - (number + 1) / max(1, rounds))
            warm = temperature * (1 + heat / temperature) ** left
            for _ in range(STEPS):
                fitted, unseen, doubt = posterior(space, self.labelled, Z, R, settings, inverse)
                if not self.seen_too:  # a credit is held against seen classes; among unseen ones it favoured rare ones
                    doubt = np.full_like(doubt, doubt.mean())
                credit = self.handicap * fitted.unit * doubt
                R = responsibilities(Z, fitted.means, unseen, credit, self.seen_too, warm)
        return fitted, unseen, doubt, R

    def solve_by_vote(
        self, settings: Settings, kernels: Iterable[np.ndarray]
    ) -> tuple[Prototypes, np.ndarray, np.ndarray, np.ndarray]:
        """As `solve`, begun with the mean of the shares that EM ends with: by these kernels of all classes, and by K.

        Clusters of a pool are found easily, and given wrong names easily. A name that hangs on a few attributes is
        outvoted by the kernels that do not know these; K, which knows all of them, has two votes.
        """
        solved, k, space = self.solve(settings), len(self.labelled.counts), self.model.space
        total, votes = 2 * solved[3], 2
        for K in kernels:
            labelled = replace(self.labelled, K=K)
            model = labelled_prototypes(space, labelled.sums, labelled.counts, K[:k, :k], settings)
            if model.unit < WORSE * self.model.unit:
                total += replace(self, model=model, labelled=labelled).solve(settings)[3]
                votes += 1
        return self.solve(settings, total / votes) if votes > 2 else solved

    def _inductive_shares(self, temperature: float) -> np.ndarray:
        k = len(self.labelled.counts)
        predicted = self.labelled.K[k:, :k] @ self.model.weights
        credit = np.full(len(predicted), self.handicap * self.model.unit)
        Z = self.model.space.places(self.pool)
        return responsibilities(Z, self.model.means, predicted, credit, self.seen_too, temperature)


def responsibilities(Z, seen_means, unseen_means, credit, seen_too: bool, temperature: float) -> np.ndarray:
    """E-step: the share (m, j) that every unseen class takes of each pool row; seen classes may take the rest.

    `credit` (j,) is added to the unseen classes' scores: rows lie farther from a mean that is doubtful.
    """
    scores = closeness(Z, np.vstack([seen_means, unseen_means]) if seen_too else unseen_means)
    scores[:, -len(unseen_means) :] += np.asarray(credit, dtype=scores.dtype)
    return softmax(scores / np.float32(temperature), axis=1)[:, -len(unseen_means) :]


def posterior(
    space: Space, labelled: Labelled, Z: np.ndarray, R: np.ndarray, settings: Settings, inverse: np.ndarray
) -> tuple[Prototypes, np.ndarray, np.ndarray]:
    """M-step: all means by the Gaussian process, from labelled rows and the pool rows' shares R (m, j).

    Third, the doubt (j,) about unseen classes' means: the posterior variance of each, in units of what it is on average
    for a seen class that is predicted from the others. δ is the error that goes with a doubt of 1.
    """
    k, (counts, sums) = len(labelled.counts), class_sums(space, labelled, Z, R, settings["cap"])
    with_rows = counts > 1e-3
    among = labelled.K + settings["pool_nugget"] * np.eye(len(counts))
    noise_of, means = settings["noise"] / counts[with_rows], sums[with_rows] / counts[with_rows, None]
    told = among[np.ix_(with_rows, with_rows)]
    weights = np.zeros_like(sums)
    weights[with_rows] = mean_weights(told, noise_of, means)
    everyone = among @ weights
    unit = mean_squared_error(leave_one_out_errors(inverse, means[:k])) / 2
    variances = mean_variances(told, noise_of, among[k:, with_rows], np.diag(among)[k:])
    doubt = variances / leave_one_out_variances(inverse, noise_of[:k]).mean()
    return Prototypes(space, everyone[:k], weights, unit), everyone[k:], doubt


def class_sums(space: Space, labelled: Labelled, Z: np.ndarray, R: np.ndarray, cap: float):
    """Rows of each class, as many as they count as (k + j,), and their sums (k + j, e) in the space that Z is in.

    However many pool rows a class takes, they count as fewer than `cap`: its description keeps a say.
    """
    share = R.sum(axis=0, dtype=np.float64)
    trust = cap / (cap + share) * np.minimum(1, share / max(FEW * np.quantile(share, 0.75), 1e-12)) ** 2
    sums = labelled.sums @ space.projection.astype(np.float64) - labelled.counts[:, None] * space.offset
    return np.concatenate([labelled.counts, trust * share]), np.vstack([sums, trust[:, None] * (R.T @ Z)])


def widened(space: Space, labelled: Labelled, pool: np.ndarray, R: np.ndarray) -> Space:
    """The space, and the directions across it in which the pool's class means differ from the labelled classes'."""
    share, q = R.sum(axis=0), len(space.whitening)
    means = (R.T @ pool[:, :q])[share > 0.5] / share[share > 0.5, None]
    centre = (labelled.sums[:, :q] / labelled.counts[:, None]).mean(axis=0)
    inside, across = space.basis, means - centre
    across = across - across @ inside @ inside.T
    U, size, _ = np.linalg.svd(across.T, full_matrices=False)
    U = U[:, size > 1e-6 * max(size[:1].sum(), 1e-12)][:, : q - inside.shape[1]]
    # The new directions are as long as the old ones are on average; two maps side by side share a direction's length.
    return space.widened(U * (np.linalg.norm(space.directions) / inside.shape[1] ** 0.5), centre)
