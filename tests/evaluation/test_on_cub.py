from __future__ import annotations

import numpy as np
import pytest

from firstsight.data import load_dataset
from firstsight.evaluation import fit_on
from firstsight.evaluation.calibration import calibrate, reliability
from firstsight.methods import ESZSL, SAE


@pytest.mark.slow
@pytest.mark.parametrize("method", [ESZSL, SAE])
def test_confidence_on_the_unseen_classes_of_cub_is_off_by_at_most_five_percent(shared, method):
    """The deep embedding (benchmarks/calibration.py --preset fast) takes minutes and is closer still."""
    cub = load_dataset(shared / "data" / "xlsa17" / "CUB")
    model = fit_on(method(), cub)
    calibration = calibrate(model, cub)
    (X, y), classes = cub.part("test_unseen"), list(cub.unseen_classes)
    scores = model.decision_function(X, classes=classes)
    sure = calibration.confidence(model, X, scores, np.zeros(len(classes), bool)).max(axis=1)
    right = np.array(classes)[scores.argmax(axis=1)] == y
    assert reliability(sure, right).ece <= 0.05
