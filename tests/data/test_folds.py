from __future__ import annotations

import numpy as np
import pytest

from firstsight.data.dataset import check_share, held_out_of, hold_out
from firstsight.errors import BadInput


@pytest.mark.parametrize(
    ("count", "share", "held"), [(10, 0.2, 2), (2, 0.2, 1), (1, 0.2, 0), (3, 0.9, 2), (64, 0.2, 13), (9, 0.0, 0)]
)
def test_the_nearest_whole_number_is_held_out_but_one_row_always_stays(count, share, held):
    assert held_out_of(count, share) == held


def test_every_class_gives_its_share_and_no_row_is_lost():
    labels = np.random.default_rng(0).permutation(np.repeat([3, 5, 8], [10, 20, 1]))
    rows = np.flatnonzero(labels != 5)
    kept, held = hold_out(rows, labels, 0.3, np.random.default_rng(1))
    assert sorted([*kept, *held]) == rows.tolist()
    assert np.unique(labels[held], return_counts=True)[1].tolist() == [3]
    assert (np.diff(kept) > 0).all()
    other = hold_out(rows, labels, 0.3, np.random.default_rng(2))[1]
    assert set(other) != set(held)


def test_no_share_holds_out_nothing():
    kept, held = hold_out(np.arange(4), np.zeros(4, dtype=int), 0.0, np.random.default_rng(0))
    assert (kept.tolist(), held.tolist()) == ([0, 1, 2, 3], [])


@pytest.mark.parametrize("share", [-0.1, 1.0, 7])
def test_what_is_no_share_is_refused(share):
    with pytest.raises(BadInput, match="held_out"):
        check_share(share)
