"""Parameters with a unit of their own mean the same on any data: stretched and repeated rows change no answer."""

from __future__ import annotations

import numpy as np
import pytest

from firstsight.methods import all_methods

# Penalties, weights and rates of these are told in units of the data.
CLOSED = ["eszsl", "sae", "dap", "iap", "conse", "sync"]
TRAINED = ["ale", "devise", "sje", "latem"]
PLAIN = {"feature_scaling": None, "attribute_scaling": None}


def _scores(word, X, y, table, X_new, **more):
    cls = all_methods()[word]
    chance = {"random_state": 0} if "random_state" in cls._get_param_names() else {}
    return cls(**PLAIN, **chance, **more).fit(X, y, table).decision_function(X_new)


def _same_order(first, second):
    """Scores may be stretched as a whole; which class is better, and by how much of the spread, may not change."""
    np.testing.assert_allclose(*((s - s.mean()) / s.std() for s in (first, second)), atol=2e-2)


@pytest.mark.parametrize("word", CLOSED + TRAINED)
def test_longer_rows_and_descriptions_change_no_answer(task, word):
    X, new = task.X.astype(np.float64), task.X_unseen.astype(np.float64)
    _same_order(
        _scores(word, X, task.y, task.table, new),
        _scores(word, 8 * X, task.y, 4 * task.table, 8 * new),  # powers of two are exact
    )


@pytest.mark.parametrize("word", CLOSED)
def test_every_row_twice_changes_no_answer(task, word):
    X, new = task.X.astype(np.float64), task.X_unseen.astype(np.float64)
    _same_order(
        _scores(word, X, task.y, task.table, new),
        _scores(word, np.tile(X, (2, 1)), np.tile(task.y, 2), task.table, new),
    )


@pytest.mark.parametrize("word", sorted(all_methods()))
def test_a_grid_is_small_and_holds_the_default(word):
    cls = all_methods()[word]
    own = cls().resolved_parameters()
    assert np.prod([len(values) for values in cls.grid.values()]) <= 8
    assert all(own[name] in values for name, values in cls.grid.items())
