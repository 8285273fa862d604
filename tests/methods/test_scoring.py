from __future__ import annotations

import numpy as np
import pytest

from firstsight.methods._scoring import BestClasses, best_columns


@pytest.mark.parametrize("k", [1, 2, 5, 40, 700])
@pytest.mark.parametrize("levels", [1, 4, 10_000])  # few levels: many equal scores
def test_the_best_columns_are_those_of_a_stable_sort(k, levels):
    scores = np.random.default_rng(k).integers(0, levels, size=(30, 700)).astype(np.float32)
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(best_columns(scores, k), expected)
    blocks = BestClasses(30, k)
    for rows in (slice(0, 13), slice(13, 30)):
        for columns in (slice(0, 3), slice(3, 650), slice(650, 700)):
            blocks.add(rows, columns, scores[rows, columns])
    np.testing.assert_array_equal(blocks.indices, expected)
    np.testing.assert_array_equal(blocks.scores, np.take_along_axis(scores, expected, axis=1))
