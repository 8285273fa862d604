"""Whether a pool helps, on simulated tasks whose test rows play the pool."""

from __future__ import annotations

from typing import Any

import numpy as np

from firstsight.methods.parts.coordinate_search import Settings
from firstsight.methods.parts.description_kernel import fit_kernel, kernel
from firstsight.methods.parts.pool_mixture import Labelled, PoolProblem
from firstsight.methods.parts.prototypes import HANDICAPS, PrototypeSearch, class_statistics, fit_prototypes
from firstsight.methods.parts.simulated_tasks import SimulatedTask, harmonic_curve, unseen_accuracy
from firstsight.methods.parts.whitened_space import moments_of, of_unit_length, whitened_sums

# What suits means that a pool has moved, whatever suited those that were foretold; chosen, as the defaults of EM were,
# on outer folds of the training classes of six data sets. Searching for them in every fit took noise for gain: it lost
# 15 points where classes are few, and won one where they are many.
POOL_USUAL: Settings = {"shrinkage": 0.45, "noise": 3.0}


class PoolTrial:
    """Simulated tasks with pools of their own, for a comparison of answers with and without them."""

    def __init__(self, search: PrototypeSearch, S: np.ndarray, seen_too: bool, pool_share: float):
        """`pool_share`: the pool's rows per class that it may hold."""
        self.search, self.S, self.seen_too = search, S, seen_too
        self.pools = [_pool_rows(task, seen_too, pool_share) for task in search.tasks]

    def run(self, without: Settings, with_pool: Settings) -> tuple[Settings, dict[str, Any]]:
        """The settings whose answers were the better ones, and the scores of both on each task.

        Those with a pool have the handicap of seen classes that was best after EM over all tasks.
        """
        (scores, _), (scores_pool, after) = (self._value(settings) for settings in (without, with_pool))
        with_pool = {**with_pool, "seen_handicap": after}
        helps = bool(scores_pool.mean() > scores.mean())
        tried = [
            {"settings": without, "scores": np.round(scores, 5).tolist(), "taken": not helps},
            {"settings": with_pool, "scores": np.round(scores_pool, 5).tolist(), "taken": helps},
        ]
        chosen = with_pool if helps else without
        return chosen, {"tasks": len(self.pools), "chosen": chosen, "tried": tried}

    def _value(self, settings: Settings) -> tuple[np.ndarray, float]:
        """T1 on each task or, if the pool may hold seen classes, H with the handicap that is best over all tasks."""
        t1, curves = [], []
        for number, task in enumerate(self.search.tasks):
            problem, test = self._problem(number, task, settings)
            model, k = problem.model, task.seen
            foretold = problem.labelled.K[k:, :k] @ model.weights
            if settings["cap"]:
                model, foretold = problem.solve(settings)
            scores = model.scores(test @ model.space.directions - model.space.offset, foretold)
            t1.append(unseen_accuracy(scores, task))
            curves.append(harmonic_curve(scores / np.float32(max(model.unit, 1e-12)), task, HANDICAPS))
        best = np.mean(curves, axis=0).argmax()
        return np.array(curves)[:, best] if self.seen_too else np.array(t1), float(HANDICAPS[best])

    def _problem(self, number: int, task: SimulatedTask, settings: Settings) -> tuple[PoolProblem, np.ndarray]:
        """A task's inductive model with its pool, and its test rows, whitened."""
        k, y, (train, test) = task.seen, task.y_train, self.search.apart(task, settings["power"])
        found = class_statistics(train, y, moments_of(train, y, k), settings["shrinkage"])
        described = self.S[task.classes]
        K = kernel(fit_kernel(described[:k]), described, described)
        model = fit_prototypes(found, K[:k, :k], settings, train, y)
        labelled = Labelled(whitened_sums(train, y, k, model.space.whitening), found.counts, K)
        test = of_unit_length(test @ model.space.whitening)
        handicap = settings["seen_handicap"] if self.seen_too else 0.0
        return PoolProblem(model, labelled, test[self.pools[number]], self.seen_too, handicap), test


def _pool_rows(task: SimulatedTask, seen_too: bool, pool_share: float) -> np.ndarray:
    """The test rows that play the pool: as many per class as the real pool has, if the task has as many."""
    rows = np.arange(len(task.test)) if seen_too else np.flatnonzero(task.unseen_rows)
    wanted = round(pool_share * (len(task.classes) - (0 if seen_too else task.seen)))
    if wanted >= len(rows):
        return rows
    return np.sort(np.random.default_rng(0).permutation(rows)[: max(wanted, 1)])
