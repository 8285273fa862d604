"""Class means that a pool of unlabelled rows corrects: EM for a mixture of balls with a prior over their centres."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from firstsight.methods.parts.class_mean_prior import leave_one_out_errors, mean_squared_error, mean_weights
from firstsight.methods.parts.coordinate_search import Settings
from firstsight.methods.parts.prototypes import Prototypes, closeness
from firstsight.methods.parts.whitened_space import Space

STEPS = 3  # of EM in each space


@dataclass(frozen=True)
class Labelled:
    """What EM needs of the labelled rows: whitened class sums (k, q), counts (k,), and the kernel of all classes."""

    sums: np.ndarray
    counts: np.ndarray
    K: np.ndarray  # (k + j, k + j): the k classes with rows first


def corrected_by_pool(
    model: Prototypes, labelled: Labelled, pool: np.ndarray, seen_too: bool, settings: Settings
) -> tuple[Prototypes, np.ndarray]:
    """The prototypes after EM over the pool (m, q), whitened rows of unit length, and the unseen classes' means (j, e).

    The first responsibilities are the inductive answer's. Each round then widens the space by the directions in which
    the unseen classes' means have left it, and takes a few steps of EM there. Labelled classes keep to their rows:
    pool rows taken for one of them are only kept out of the way. With `seen_too` the handicap of seen classes
    fades from the inductive one to nothing.
    """
    k = len(labelled.counts)
    handicap, rounds = (settings["seen_handicap"] if seen_too else 0.0), int(settings["rounds"])
    foretold = labelled.K[k:, :k] @ model.weights
    Z = pool @ model.space.directions - model.space.offset
    R = responsibilities(Z, model.means, foretold, handicap * model.unit, seen_too, settings["temperature"])
    for number in range(rounds + 1):
        space = model.space if number == 0 else widened(model.space, labelled, pool, R)
        Z = pool @ space.directions - space.offset
        fading = handicap * max(0.0, 1 - (number + 1) / max(1, rounds))
        for _ in range(STEPS):
            fitted, unseen_means = posterior(space, labelled, Z, R, settings)
            R = responsibilities(Z, fitted.means, unseen_means, fading * fitted.unit, seen_too, settings["temperature"])
    return fitted, unseen_means


def responsibilities(Z, seen_means, unseen_means, constant: float, seen_too: bool, temperature: float) -> np.ndarray:
    """How much of each pool row (m, j) every unseen class takes; with `seen_too`, seen classes take the rest."""
    scores = closeness(Z, np.vstack([seen_means, unseen_means]) if seen_too else unseen_means)
    if seen_too:
        scores[:, : len(seen_means)] -= np.float32(constant)
    return softmax(scores / np.float32(temperature), axis=1)[:, -len(unseen_means) :]


def posterior(
    space: Space, labelled: Labelled, Z: np.ndarray, R: np.ndarray, settings: Settings
) -> tuple[Prototypes, np.ndarray]:
    """M-step: all means by the Gaussian process, from labelled rows and the pool rows' shares R (m, j).

    However many pool rows a class takes, they count as fewer than `cap`: its description keeps a say.
    """
    k, share = len(labelled.counts), R.sum(axis=0)
    trust = settings["cap"] / (settings["cap"] + share)
    counts = np.concatenate([labelled.counts, trust * share])
    sums = labelled.sums @ space.directions.astype(np.float64) - labelled.counts[:, None] * space.offset
    sums = np.vstack([sums, trust[:, None] * (R.T @ Z)])
    with_rows = counts > 1e-3
    among = labelled.K + settings["pool_nugget"] * np.eye(len(counts))
    noise_of, means = settings["noise"] / counts[with_rows], sums[with_rows] / counts[with_rows, None]
    weights = np.zeros_like(sums)
    weights[with_rows] = mean_weights(among[np.ix_(with_rows, with_rows)], noise_of, means)
    errors = leave_one_out_errors(among[:k, :k], noise_of[:k], means[:k])
    everyone = among @ weights
    return Prototypes(space, everyone[:k], weights, mean_squared_error(errors) / 2), everyone[k:]


def widened(space: Space, labelled: Labelled, pool: np.ndarray, R: np.ndarray) -> Space:
    """The space, and the directions across it in which the pool's class means differ from the labelled classes'."""
    share = R.sum(axis=0)
    means = (R.T @ pool)[share > 0.5] / share[share > 0.5, None]
    centre = (labelled.sums / labelled.counts[:, None]).mean(axis=0)
    inside = np.linalg.qr(space.directions.astype(np.float64))[0]
    across = means - centre
    across = across - across @ inside @ inside.T
    U, size, _ = np.linalg.svd(across.T, full_matrices=False)
    room = len(space.whitening) - space.directions.shape[1]
    U = U[:, size > 1e-6 * max(size[:1].sum(), 1e-12)][:, :room]
    # The new directions are as long as the old ones are on average.
    more = U * np.linalg.norm(space.directions, axis=0).mean()
    directions = np.hstack([space.directions, more]).astype(np.float32)
    offset = np.concatenate([space.offset, centre @ more]).astype(np.float32)
    return Space(space.whitening, directions, offset)
