from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from firstsight.evaluation import harmonic_mean
from firstsight.methods.kernel_prototypes.pool import PoolSettings, PoolTrial
from firstsight.methods.kernel_prototypes.prior import PrototypeSettings
from firstsight.methods.kernel_prototypes.search import (
    HANDICAPS,
    PrototypeSearch,
)


@pytest.mark.parametrize("seen_too", [True, False])
def test_without_a_pool_a_trial_reports_what_a_separate_fit_would(seen_too):
    """The search has fitted that model before: its cached metrics stand for scores computed again."""
    rng = np.random.default_rng(0)
    A = rng.uniform(size=(12, 5))
    y = np.repeat(np.arange(12), 15)
    X = (A @ rng.normal(size=(5, 20)))[y] + 0.6 * rng.normal(size=(len(y), 20))
    search = PrototypeSearch(X.astype(np.float32), y, A, 512)
    trial = PoolTrial(search, A, seen_too, 10.0)
    handicap = float(HANDICAPS[37])
    settings = PrototypeSettings(refinement=5)
    without = PoolSettings(settings, handicap, temperature=3.0, rounds=1, pool_nugget=0.05, cap=0.0)
    reported = trial.run(without, [replace(without, cap=10.0)])[1]["tried"][0]["scores"]
    for number, task in enumerate(search.tasks):
        problem, test = trial._problem(number, task, settings)
        model, k = problem.model, task.seen
        scores = model.scores(model.space.project(test), problem.labelled.K[k:, :k] @ model.weights)
        scores[:, k:] += np.float32(handicap * model.unit)
        task_scores = task.scored(scores)
        expected = harmonic_mean(*task_scores.curve.at(0.0)) if seen_too else task_scores.t1
        assert reported[number] == pytest.approx(expected, abs=1e-5)
    assert min(reported) > 0
    assert len(set(reported)) > 1
