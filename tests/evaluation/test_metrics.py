from __future__ import annotations

import numpy as np
import pytest

from firstsight.evaluation import harmonic_mean, mean_class_accuracy, per_class_accuracy, percent


def _by_plain_loop(y_true, y_pred):
    right, count = {}, {}
    for truth, answer in zip(y_true, y_pred, strict=True):
        count[truth] = count.get(truth, 0) + 1
        right[truth] = right.get(truth, 0) + (truth == answer)
    return {name: right[name] / count[name] for name in count}


@pytest.mark.parametrize("names", [["ox", "okapi", "Ñandú", "a"], [7, 3, 0, 12]], ids=["text", "numbers"])
def test_accuracies_equal_a_plain_loop(names):
    random = np.random.default_rng(0)
    # Classes of very different sizes, and answers that also name a class without rows.
    y_true = np.array(names[:3])[random.choice(3, size=500, p=[0.9, 0.08, 0.02])]
    known = random.random(500) < np.where(y_true == names[0], 0.9, 0.3)
    y_pred = np.where(known, y_true, np.array(names)[random.integers(4, size=500)])
    expected = _by_plain_loop(y_true.tolist(), y_pred.tolist())
    assert per_class_accuracy(y_true, y_pred) == pytest.approx(expected)
    assert mean_class_accuracy(y_true, y_pred) == pytest.approx(sum(expected.values()) / 3)
    assert mean_class_accuracy(y_true, y_pred) != pytest.approx(np.mean(y_true == y_pred), abs=0.01)


def test_every_class_counts_the_same_whatever_its_size():
    y_true = ["ox"] * 98 + ["okapi"] * 2
    y_pred = ["ox"] * 98 + ["ox", "okapi"]
    assert per_class_accuracy(y_true, y_pred) == {"ox": 1.0, "okapi": 0.5}
    assert mean_class_accuracy(y_true, y_pred) == 0.75


def test_a_class_that_is_only_answered_does_not_count():
    assert per_class_accuracy(["ox", "ox"], ["okapi", "ox"]) == {"ox": 0.5}


@pytest.mark.parametrize(
    ("ts", "tr", "h"),
    [
        (0.5, 0.5, 0.5),
        (0.2, 0.8, 0.32),  # 0.32 / 1
        (1.0, 0.25, 0.4),  # 0.5 / 1.25
        (0.0, 0.9, 0.0),
        (0.9, 0.0, 0.0),
        (0.0, 0.0, 0.0),  # not a division by zero
    ],
)
def test_the_harmonic_mean(ts, tr, h):
    assert harmonic_mean(ts, tr) == pytest.approx(h)
    assert harmonic_mean(tr, ts) == harmonic_mean(ts, tr)


def test_the_harmonic_mean_of_the_papers_own_row():
    # Xian et al., CUB, ALE: ts 23.7, tr 62.8, H 34.4.
    assert harmonic_mean(0.237, 0.628) == pytest.approx(0.344, abs=5e-4)


@pytest.mark.parametrize(("fraction", "shown"), [(None, None), (0.0, 0.0), (1.0, 100.0), (0.571428, 57.14)])
def test_fractions_become_percent_with_two_decimals(fraction, shown):
    assert percent(fraction) == shown
