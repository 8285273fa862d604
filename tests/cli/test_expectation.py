"""What `learn` says of classes without images: a figure only with what it rests on."""

from __future__ import annotations

import numpy as np
import pytest

from firstsight.cli.fit import expectation
from firstsight.evaluation.calibration import Calibration, Scale


def estimated(t1, n_folds, held_out, training):
    scale = Scale(temperature=1, row_power=0, guess_rate=0, margins=[], rows=240, candidates=held_out, ece=None)
    return Calibration(
        scales={"unseen": scale},
        estimate={"t1": t1},
        spread=1.0,
        seen_shift=0.0,
        reference=np.eye(2),
        n_folds=n_folds,
        held_out_classes=held_out,
        training_classes=training,
    )


@pytest.mark.parametrize("t1", [0.18, 0.33, 0.53])
def test_what_cannot_be_told_from_guessing_is_no_expectation(t1):
    """Wilson's interval of 8 classes at 53 % begins at 24 %, below the chance of one in three."""
    said = expectation(estimated(t1, 10, 3, 5), 8)
    assert "cannot be told from so few classes" in said
    assert f"{100 * t1:.0f} % right among 3 such classes (chance 33 %, 95 % interval" in said
    assert "--unseen" in said


def test_what_is_beyond_guessing_is_told_with_its_interval():
    said = expectation(estimated(0.9, 10, 3, 5), 8)
    assert said.startswith(
        "What to expect of classes without pictures: 90 % right among 3 such classes (chance 33 %, 95 %"
    )
    assert "guessing" not in said
    assert "No estimate" in expectation(None, 3)
