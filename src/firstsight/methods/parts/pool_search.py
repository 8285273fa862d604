"""Choosing how much a pool may say, on simulated tasks whose test rows play the pool."""

from __future__ import annotations

from typing import Any

import numpy as np

from firstsight.methods.parts.coordinate_search import Settings, coordinate_search, setting_key
from firstsight.methods.parts.description_kernel import fit_kernel, kernel
from firstsight.methods.parts.pool_mixture import Labelled, PoolProblem
from firstsight.methods.parts.prototypes import PrototypeSearch, fit_prototypes
from firstsight.methods.parts.simulated_tasks import SimulatedTask, harmonic_curve, unseen_accuracy
from firstsight.methods.parts.whitened_space import of_unit_length, whitened_sums

# Where the search begins, and what it tries, in this order. Shrinkage and noise begin anew: what is best for means that
# are foretold need not be best for means that the pool has moved.
POOL_START: Settings = {
    "shrinkage": 0.3,
    "noise": 2.0,
    "starts": 2,
    "cap": 30.0,
    "temperature": 1.5,
    "rounds": 3,
    "pool_nugget": 0.03,
}
POOL_OPTIONS: dict[str, tuple[float, ...]] = {
    "rounds": (0, 1, 3),
    "shrinkage": (0.1, 0.3, 0.6, 0.8),
    "starts": (1, 2, 3),
    "cap": (10.0, 30.0, 200.0),
    "temperature": (0.75, 1.5, 3.0),
    "pool_nugget": (0.01, 0.03, 0.1, 0.3),
}
HANDICAPS = np.linspace(-0.3, 1, 131)  # after EM, in units of δ


class PoolSearch:
    """The search for the pool's settings; the other ones are the inductive answer's."""

    def __init__(self, search: PrototypeSearch, S: np.ndarray, inductive: Settings, seen_too: bool, pool_share: float):
        """`pool_share`: the pool's rows per class that it may hold."""
        self.search, self.S, self.inductive, self.seen_too = search, S, inductive, seen_too
        self.pools = [_pool_rows(task, seen_too, pool_share) for task in search.tasks]
        self.handicaps: dict[tuple, float] = {}
        self.problems: dict[tuple, list[tuple[PoolProblem, np.ndarray]]] = {}

    def run(self, start: Settings, options: dict[str, tuple[float, ...]]) -> tuple[Settings, dict[str, Any]]:
        """The settings chosen, those of the inductive answer if no pool did better, and what was tried."""
        chosen, tried = coordinate_search(start, options, self.value)
        without = {**chosen, **{name: self.inductive[name] for name in ("shrinkage", "noise")}, "cap": 0.0}
        scores = self.value(without)
        better = bool(self.value(chosen).mean() > scores.mean())
        tried.append({"settings": without, "scores": np.round(scores, 5).tolist(), "taken": not better})
        chosen = chosen if better else without
        chosen = {**chosen, "seen_handicap": self.handicaps[setting_key(chosen)]}
        return chosen, {"tasks": len(self.pools), "chosen": chosen, "tried": tried}

    def value(self, settings: Settings) -> np.ndarray:
        """T1 on each task or, if the pool may hold seen classes, H with the handicap that is best over all tasks."""
        t1, curves = [], []
        for task, (problem, test) in zip(self.search.tasks, self._problems(settings), strict=True):
            model, k = problem.model, task.seen
            foretold = problem.labelled.K[k:, :k] @ model.weights
            if settings["cap"]:
                model, foretold = problem.solve({**self.inductive, **settings})
            scores = model.scores(test @ model.space.directions - model.space.offset, foretold)
            t1.append(unseen_accuracy(scores, task))
            curves.append(harmonic_curve(scores / np.float32(max(model.unit, 1e-12)), task, HANDICAPS))
        mean = np.mean(curves, axis=0)
        best = int(mean.argmax())
        self.handicaps[setting_key(settings)] = float(HANDICAPS[best]) if mean[best] > 0 else 0.0
        return np.array(curves)[:, best] if self.seen_too else np.array(t1)

    def _problems(self, settings: Settings) -> list[tuple[PoolProblem, np.ndarray]]:
        """Each task's inductive model with its pool, and its test rows, whitened."""
        key = settings["shrinkage"], settings["noise"]
        if key not in self.problems:
            together = {**self.inductive, "shrinkage": key[0], "noise": key[1]}
            self.problems[key] = [self._problem(i, task, together) for i, task in enumerate(self.search.tasks)]
        return self.problems[key]

    def _problem(self, number: int, task: SimulatedTask, settings: Settings) -> tuple[PoolProblem, np.ndarray]:
        k = task.seen
        rows = self.search.rows(settings["power"])[1]
        found, train = self.search.statistics_of(number, task, settings)[0], rows[task.train]
        described = self.S[task.classes]
        K = kernel(fit_kernel(described[:k]), described, described)
        model = fit_prototypes(found, K[:k, :k], settings, train, task.y_train)
        labelled = Labelled(whitened_sums(train, task.y_train, k, model.space.whitening), found.counts, K)
        test = of_unit_length(rows[task.test] @ model.space.whitening)
        handicap = settings["seen_handicap"] if self.seen_too else 0.0
        return PoolProblem(model, labelled, test[self.pools[number]], self.seen_too, handicap), test


def _pool_rows(task: SimulatedTask, seen_too: bool, pool_share: float) -> np.ndarray:
    """The test rows that play the pool: as many per class as the real pool has, if the task has as many."""
    rows = np.arange(len(task.test)) if seen_too else np.flatnonzero(task.unseen_rows)
    wanted = round(pool_share * (len(task.classes) - (0 if seen_too else task.seen)))
    if wanted >= len(rows):
        return rows
    return np.sort(np.random.default_rng(0).permutation(rows)[: max(wanted, 1)])
