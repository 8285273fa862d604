from __future__ import annotations

import numpy as np
import pytest

from firstsight.methods.base import scale


@pytest.mark.parametrize("size", [1e-44, 1e-30, 1e-3, 1.0, 1e30, 3e38])
def test_unit_length_is_right_for_rows_whose_squares_leave_the_range_of_float32(size):
    rows = np.array([[1.0, 0.0], [1.0, 1.0]]) * size
    found = scale("unit", {}, rows.astype(np.float32))
    np.testing.assert_allclose(found, [[1, 0], [0.5**0.5, 0.5**0.5]], rtol=1e-6)
    assert found.dtype == np.float32


def test_unit_length_leaves_zeros_and_the_callers_rows_alone():
    rows = np.array([[0, 0], [1e30, 0], [3, 4]], dtype=np.float32)
    before = rows.copy()
    np.testing.assert_allclose(scale("unit", {}, rows), [[0, 0], [1, 0], [0.6, 0.8]], rtol=1e-6)
    np.testing.assert_array_equal(rows, before)
