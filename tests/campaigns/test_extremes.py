"""Every method on numbers at the ends of what a computer can hold, in fits and in predictions."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from campaigns.children import run_in_children, tell, worrying
from firstsight.contract import Trial
from firstsight.contract.input_checks import DESCRIPTIONS, FEATURES, assert_fitted_or_rejected
from firstsight.methods import all_methods


@pytest.mark.campaign
@pytest.mark.parametrize("word", all_methods())
def test_a_method_scores_or_refuses_every_extreme(word):
    """The contract tries some fits in every test run; this tries them all, in both precisions."""

    def try_one(pair: tuple[str, str, bool]) -> None:
        features, descriptions, single = pair
        trial = Trial(all_methods()[word])
        if single:
            task = trial.task
            trial.__dict__["task"] = type(task)(**{**vars(task), "X": task.X.astype(np.float32)})
        assert_fitted_or_rejected(trial, features, descriptions)

    alone = [*product(FEATURES, [""]), *product([""], DESCRIPTIONS), ("× 1e30", "× 1e30"), ("× 1e-30", "× 1e-30")]
    pairs = [(*pair, single) for pair in alone for single in (False, True)]
    outcomes = run_in_children(try_one, pairs, cpu_seconds=60)
    line = tell(f"extremes of {word}", outcomes)
    wrong = worrying(outcomes)
    assert not wrong, "\n".join([line, *(f"{pairs[o.place]}: {o.detail}" for o in wrong[:5])])
