from __future__ import annotations

import numpy as np
import pytest

from firstsight.methods._validation import all_finite


@pytest.mark.parametrize("shape", [(), (3,), (0,), (0, 5), (5, 0), (70_000, 3), (2, 100_000), (4, 5, 6)])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_number_that_is_not_finite_is_found_wherever_it_stands(shape, bad):
    values = np.full(shape, 3e38, dtype=np.float32)  # whose sum is not finite
    assert all_finite(values)
    for place in {0, values.size // 2, values.size - 1} if values.size else ():
        damaged = values.copy()
        damaged.reshape(-1)[place] = bad
        assert not all_finite(damaged)
