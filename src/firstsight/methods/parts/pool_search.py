"""Choosing how much a pool may say, on simulated tasks whose test rows play the pool."""

from __future__ import annotations

from typing import Any

import numpy as np

from firstsight.methods.parts.coordinate_search import Settings, coordinate_search
from firstsight.methods.parts.description_kernel import fit_kernel, kernel
from firstsight.methods.parts.pool_mixture import Labelled, corrected_by_pool
from firstsight.methods.parts.prototypes import Prototypes, PrototypeSearch, fit_prototypes
from firstsight.methods.parts.simulated_tasks import SimulatedTask, harmonic_curve, unseen_accuracy
from firstsight.methods.parts.whitened_space import of_unit_length, whitened_sums

# Where the search begins, and what it tries, in this order; a cap of 0 leaves the inductive answer as it is.
POOL_START: Settings = {"cap": 30.0, "temperature": 1.5, "rounds": 3, "pool_nugget": 0.03}
POOL_OPTIONS: dict[str, tuple[float, ...]] = {
    "temperature": (0.75, 1.5, 3.0),
    "cap": (10.0, 30.0, 200.0),
    "pool_nugget": (0.01, 0.03, 0.1, 0.3),
    "rounds": (0, 1, 3),
}
HANDICAPS = np.linspace(-0.3, 1, 131)  # after EM, in units of δ


class PoolSearch:
    """The search for the pool's settings; the inductive ones are given, and so is each task's inductive model."""

    def __init__(self, search: PrototypeSearch, S: np.ndarray, inductive: Settings, seen_too: bool, pool_share: float):
        """`pool_share`: the pool's rows per class that it may hold."""
        self.inductive, self.seen_too = inductive, seen_too
        rows = search.rows(inductive["power"])[1]
        self.handicaps: dict[tuple, float] = {}
        self.cases = []
        for number, task in enumerate(search.tasks):
            found = search.statistics_of(number, task, inductive)[0]
            labelled, model = _labelled(task, S, found, rows, inductive)
            test = of_unit_length(rows[task.test] @ model.space.whitening)
            self.cases.append((task, labelled, model, test, _pool_rows(task, seen_too, pool_share)))

    def run(self, start: Settings, options: dict[str, tuple[float, ...]]) -> tuple[Settings, dict[str, Any]]:
        """The settings chosen, those of the inductive answer if no pool did better, and what was tried."""
        chosen, tried = coordinate_search(start, options, self.value)
        without = {**chosen, "cap": 0.0}
        scores = self.value(without)
        better = bool(self.value(chosen).mean() > scores.mean())
        tried.append({"settings": without, "scores": np.round(scores, 5).tolist(), "taken": not better})
        chosen = chosen if better else without
        chosen = {**chosen, "seen_handicap": self.handicaps[_key(chosen)]}
        return chosen, {"tasks": len(self.cases), "chosen": chosen, "tried": tried}

    def value(self, settings: Settings) -> np.ndarray:
        """T1 on each task or, if the pool may hold seen classes, H with the handicap that is best over all tasks."""
        t1, curves = [], []
        for task, labelled, model, test, pool in self.cases:
            k = task.seen
            fitted, foretold = model, labelled.K[k:, :k] @ model.weights
            if settings["cap"]:
                together = {**self.inductive, **settings}
                fitted, foretold = corrected_by_pool(model, labelled, test[pool], self.seen_too, together)
            scores = fitted.scores(test @ fitted.space.directions - fitted.space.offset, foretold)
            t1.append(unseen_accuracy(scores, task))
            curves.append(harmonic_curve(scores / np.float32(max(fitted.unit, 1e-12)), task, HANDICAPS))
        mean = np.mean(curves, axis=0)
        best = int(mean.argmax())
        self.handicaps[_key(settings)] = float(HANDICAPS[best]) if mean[best] > 0 else 0.0
        return np.array(curves)[:, best] if self.seen_too else np.array(t1)


def _labelled(task: SimulatedTask, S: np.ndarray, found, rows: np.ndarray, settings: Settings):
    fitted_kernel = fit_kernel(S[task.classes[: task.seen]])
    K = kernel(fitted_kernel, S[task.classes], S[task.classes])
    train, k = rows[task.train], task.seen
    model: Prototypes = fit_prototypes(found, K[:k, :k], settings, train, task.y_train)
    sums = whitened_sums(train, task.y_train, k, model.space.whitening)
    return Labelled(sums, found.counts, K), model


def _pool_rows(task: SimulatedTask, seen_too: bool, pool_share: float) -> np.ndarray:
    """The test rows that play the pool: as many per class as the real pool has, if the task has as many."""
    rows = np.arange(len(task.test)) if seen_too else np.flatnonzero(task.unseen_rows)
    wanted = round(pool_share * (len(task.classes) - (0 if seen_too else task.seen)))
    if wanted >= len(rows):
        return rows
    return np.sort(np.random.default_rng(0).permutation(rows)[: max(wanted, 1)])


def _key(settings: Settings) -> tuple:
    return tuple(sorted(settings.items()))
