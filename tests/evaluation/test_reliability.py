from __future__ import annotations

import numpy as np
import pytest

from firstsight.evaluation.calibration import reliability


def _by_plain_loop(confidence, right, bins):
    total = 0.0
    for number in range(bins):
        low, high = number / bins, (number + 1) / bins
        inside = [
            (c, r) for c, r in zip(confidence, right, strict=True) if low <= c < high or (number == bins - 1 and c == 1)
        ]
        if inside:
            gap = sum(r for _, r in inside) / len(inside) - sum(c for c, _ in inside) / len(inside)
            total += len(inside) / len(confidence) * abs(gap)
    return total


@pytest.mark.parametrize("bins", [1, 4, 15])
def test_the_calibration_error_equals_a_plain_loop(bins):
    random = np.random.default_rng(0)
    confidence = np.concatenate([random.random(300), [0.0, 1.0, 1.0]])
    right = random.random(303) < confidence**2
    expected = _by_plain_loop(confidence.tolist(), right.tolist(), bins)
    assert expected > 0.05
    assert reliability(confidence, right, bins=bins).ece == pytest.approx(expected)


def test_confidence_that_comes_true_has_a_small_error_and_bragging_a_large_one():
    random = np.random.default_rng(1)
    chance = random.random(20_000)
    right = random.random(20_000) < chance
    assert reliability(chance, right).ece < 0.02
    assert reliability(chance**0.3, right).ece > 0.2


def test_a_row_that_weighs_three_counts_like_three_rows():
    once = reliability([0.2, 0.9], [True, False], weights=[3, 1])
    thrice = reliability([0.2, 0.2, 0.2, 0.9], [True, True, True, False])
    assert once.ece == pytest.approx(thrice.ece)
    assert once.ece == pytest.approx(0.75 * 0.8 + 0.25 * 0.9)
    assert once.share.sum() == pytest.approx(1)
