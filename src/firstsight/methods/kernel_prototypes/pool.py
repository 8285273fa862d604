"""Unlabelled samples for the kernel prototypes: EM mixture, the trial of trust in the pool, self-training."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import softmax

from firstsight.methods._moments import class_sums
from firstsight.methods.kernel_prototypes.prior import (
    fit_kernel,
    kernel,
    leave_one_out_errors,
    leave_one_out_variances,
    mean_squared_error,
    mean_variances,
    mean_weights,
    precision,
)
from firstsight.methods.kernel_prototypes.search import (
    HANDICAPS,
    OF_MODEL,
    ClassStatistics,
    Prototypes,
    PrototypeSearch,
    Settings,
    SimulatedTask,
    beats,
    class_statistics,
    closeness,
    fit_prototypes,
    harmonic_curve,
    labelled_prototypes,
    unseen_accuracy,
)
from firstsight.methods.kernel_prototypes.space import Space, moments_of, span_of_means, whitened_sums

# Class means that a pool of unlabelled rows corrects: EM for a mixture of balls with a prior over their centres.

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
    k, (counts, sums) = len(labelled.counts), mixture_class_sums(space, labelled, Z, R, settings["cap"])
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


def mixture_class_sums(space: Space, labelled: Labelled, Z: np.ndarray, R: np.ndarray, cap: float):
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


# How far a pool is believed, on simulated tasks whose test rows play the pool.

# What suits means that a pool has moved, whatever suited those that were predicted; chosen, as the defaults of EM were,
# on outer folds of the training classes of six data sets. Searching for them in every fit took noise for gain: it lost
# 15 points where classes are few, and won one where they are many.
POOL_USUAL: Settings = {"shrinkage": 0.45, "noise": 3.0}
# Caps that go with little and with much belief in a pool. Many classes that are hard to tell apart lose by much belief,
# and so do pools that lack classes; what the trial says for it has to exceed so many standard errors.
CAPS, SURE = (10.0, 30.0), 1.0
# Of the inductive handicap: how much of it a class is credited with whose mean is as doubtful as a predicted one.
CREDIT = 0.5


class PoolTrial:
    """Simulated tasks with pools of their own, for a comparison of answers with and without them."""

    def __init__(self, search: PrototypeSearch, S: np.ndarray, seen_too: bool, pool_share: float):
        """`pool_share`: the pool's rows per class that it may hold."""
        self.search, self.S, self.seen_too = search, S, seen_too
        self.pools = [_pool_rows(task, seen_too, pool_share) for task in search.tasks]

    def run(self, without: Settings, with_pool: list[Settings]) -> tuple[Settings, dict[str, Any]]:
        """The settings taken, and the scores of all on each task; `with_pool` goes from little to much belief in it.

        More belief has to beat less beyond the noise between tasks; what is left then has to be better than no pool.
        """
        settings = [without, *with_pool]
        by_task = [self._values(number, task, without, with_pool) for number, task in enumerate(self.search.tasks)]
        scores = np.array(by_task).T  # (settings, tasks)
        believed = 1
        for number in range(2, len(settings)):
            believed = number if beats(scores[number], scores[believed], SURE) else believed
        taken = believed if scores[believed].mean() > scores[0].mean() else 0
        tried = [
            {"settings": of, "scores": np.round(scores[i], 5).tolist(), "taken": i == taken}
            for i, of in enumerate(settings)
        ]
        return settings[taken], {"tasks": len(self.pools), "chosen": settings[taken], "tried": tried}

    def _values(self, number: int, task: SimulatedTask, without: Settings, with_pool: list[Settings]) -> list[float]:
        """H, or T1 if the pool holds unseen classes only, of the answer without a pool and of those with one."""
        t1, curve = self.search.apart_figures(number, {name: without[name] for name in OF_MODEL})
        values = [float(np.interp(without["seen_handicap"], HANDICAPS, curve)) if self.seen_too else t1]
        problem, test = self._problem(number, task, with_pool[0])  # they differ in their caps alone
        for settings in with_pool:
            model, means, doubt, _ = problem.solve(settings)
            scores = model.scores(model.space.places(test), means)
            scores[:, task.seen :] += (settings["seen_handicap"] * model.unit * doubt).astype(scores.dtype)
            of_setting = (
                harmonic_curve(scores, task, np.zeros(1))[0] if self.seen_too else unseen_accuracy(scores, task)
            )
            values.append(float(of_setting))
        return values

    def _problem(self, number: int, task: SimulatedTask, settings: Settings) -> tuple[PoolProblem, np.ndarray]:
        """A task's inductive model with its pool, and its test rows, as its space reads them."""
        k, y, (train, test) = task.seen, task.y_train, self.search.apart(number, settings["power"])
        statistics = class_statistics(train, y, moments_of(train, y, k), settings["shrinkage"])
        described = self.S[task.classes]
        K = kernel(fit_kernel(described[:k]), described, described)
        model = fit_prototypes(statistics, K[:k, :k], settings, train, y)
        labelled = Labelled(class_sums(model.space.read(train), y, k), statistics.counts, K)
        test = model.space.read(test)
        return PoolProblem(model, labelled, test[self.pools[number]], self.seen_too, settings["seen_handicap"]), test


def _pool_rows(task: SimulatedTask, seen_too: bool, pool_share: float) -> np.ndarray:
    """The test rows that play the pool: as many per class as the real pool has, if the task has as many."""
    rows = np.arange(len(task.test)) if seen_too else np.flatnonzero(task.unseen_rows)
    wanted = round(pool_share * (len(task.classes) - (0 if seen_too else task.seen)))
    if wanted >= len(rows):
        return rows
    return np.sort(np.random.default_rng(0).permutation(rows)[: max(wanted, 1)])


# Maps learned again from labelled rows and from those of a pool that a first solution has named.

SURE_OF_NAME = 0.5  # a row has the name of the unseen class that takes more than this share of it


def named_rows(R: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers of the rows with a name, the place of each one's class among `classes`, and `classes`.

    One row alone says nothing of how rows of a class differ, so such a class is left out.
    """
    rows = np.flatnonzero(R.max(axis=1, initial=0) > SURE_OF_NAME)
    own = R[rows].argmax(axis=1)
    classes = np.flatnonzero(np.bincount(own, minlength=R.shape[1]) > 1)
    kept = np.isin(own, classes)
    return rows[kept], np.searchsorted(classes, own[kept]), classes


def trained_again(
    model: Prototypes, rows: np.ndarray, y: np.ndarray, pool: np.ndarray, K: np.ndarray, R: np.ndarray, settings
) -> Prototypes:
    """The model of the k labelled classes in a space whose maps were learned from named pool rows as well.

    Whitening stays that of the labelled rows: refitted with the pool, it lost up to 25 points where classes are few.
    K is the kernel of all classes, the k with labelled rows first.
    """
    k, (some, codes, classes) = len(model.means), named_rows(R)
    both, everyone = np.vstack([rows, pool[some]]), np.concatenate([y, k + codes])
    known = np.concatenate([np.arange(k), k + classes])
    counts = np.bincount(everyone, minlength=len(known)).astype(np.float64)
    sums = whitened_sums(both, everyone, len(known), model.space.whitening)
    space = span_of_means(model.space.whitening, sums[:k], counts[:k], sums[k:] / counts[k:, None])
    means = sums / counts[:, None] @ space.directions.astype(np.float64) - space.offset
    counted = np.concatenate([counts[:k], counts[k:] * settings["cap"] / (settings["cap"] + counts[k:])])
    statistics = ClassStatistics(space, means, counted)
    space = fit_prototypes(statistics, K[np.ix_(known, known)], settings, both, everyone).space
    return labelled_prototypes(space, class_sums(space.read(rows), y, k), counts[:k], K[:k, :k], settings)
