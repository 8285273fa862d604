"""How far a pool is believed, on simulated tasks whose test rows play the pool."""

from __future__ import annotations

from typing import Any

import numpy as np

from firstsight.methods.parts.coordinate_search import Settings, beats
from firstsight.methods.parts.description_kernel import fit_kernel, kernel
from firstsight.methods.parts.moments import class_sums
from firstsight.methods.parts.pool_mixture import Labelled, PoolProblem
from firstsight.methods.parts.prototypes import (
    HANDICAPS,
    OF_MODEL,
    PrototypeSearch,
    class_statistics,
    fit_prototypes,
)
from firstsight.methods.parts.simulated_tasks import SimulatedTask, harmonic_curve, unseen_accuracy
from firstsight.methods.parts.whitened_space import moments_of

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
