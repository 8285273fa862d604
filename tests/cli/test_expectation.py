"""What `learn` says of classes without images: a figure only with what it rests on."""

from __future__ import annotations

import numpy as np
import pytest

from firstsight.cli.fit import _report_learn, _report_weights, expectation
from firstsight.evaluation.calibration import Calibration, Scale
from firstsight.methods import Blend, Cosine
from firstsight.recognition import Recognizer


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


@pytest.mark.parametrize(
    ("labelled", "said"),
    [
        (2, "cosine knows 4 classes: 2 from 0 pictures, 1 from samples that were added to the former model, 1 from"),
        (0, "knows 3 classes by their description alone, without a labelled picture, and 1 from samples that were"),
    ],
)
def test_classes_of_added_samples_are_not_from_pictures_of_the_training(labelled, said, tmp_path, caplog):
    X = np.eye(4, dtype=np.float32)
    model = Cosine().fit(X[:labelled], np.arange(labelled), X).add_samples(X[2:3], [2])
    with caplog.at_level("INFO", "firstsight"):
        _report_learn(Recognizer(model), tmp_path)
    assert said in caplog.text


@pytest.mark.parametrize(
    ("parts", "weights", "said"),
    [
        (["eszsl", "cosine"], [1, 3], "Weights: 25 % eszsl, 75 % cosine (as given)."),
        (["eszsl", "cosine"], None, "Weights: 0 % eszsl, 100 % cosine (too few classes to choose)."),
        (["eszsl"], None, ""),
    ],
)
def test_weights_are_told_with_where_they_come_from(parts, weights, said, caplog):
    model = Blend(parts, weights=weights).fit(np.eye(3), [0, 1, 2], np.eye(3))
    with caplog.at_level("INFO", "firstsight"):
        _report_weights(model)
    assert "".join(caplog.messages) == said
