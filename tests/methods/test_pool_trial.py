from __future__ import annotations

import numpy as np
import pytest

from firstsight.methods.kernel_prototypes.pool import PoolTrial
from firstsight.methods.kernel_prototypes.search import (
    HANDICAPS,
    START,
    PrototypeSearch,
    harmonic_curve,
    unseen_accuracy,
)


@pytest.mark.parametrize("seen_too", [True, False])
def test_without_a_pool_a_trial_tells_what_a_fit_of_its_own_would(seen_too):
    """The search has fitted that model before: what it kept stands for scores computed anew."""
    rng = np.random.default_rng(0)
    A = rng.uniform(size=(12, 5))
    y = np.repeat(np.arange(12), 15)
    X = (A @ rng.normal(size=(5, 20)))[y] + 0.6 * rng.normal(size=(len(y), 20))
    search = PrototypeSearch(X.astype(np.float32), y, A, 512)
    trial = PoolTrial(search, A, seen_too, 10.0)
    handicap = float(HANDICAPS[37])
    without = {**START, "refinement": 5, "hidden": 0, "seen_handicap": handicap, "cap": 0.0}
    of_em = {"temperature": 3.0, "rounds": 1, "pool_nugget": 0.05, "cap": 10.0}
    told = trial.run(without, [{**without, **of_em}])[1]["tried"][0]["scores"]
    for number, task in enumerate(search.tasks):
        problem, test = trial._problem(number, task, without)
        model, k = problem.model, task.seen
        scores = model.scores(model.space.places(test), problem.labelled.K[k:, :k] @ model.weights)
        scores[:, k:] += np.float32(handicap * model.unit)
        expected = harmonic_curve(scores, task, np.zeros(1))[0] if seen_too else unseen_accuracy(scores, task)
        assert told[number] == pytest.approx(expected, abs=1e-5)
    assert min(told) > 0
    assert len(set(told)) > 1
