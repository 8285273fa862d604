"""When features and descriptions count as vectors of one space."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from firstsight.data import ZeroShotDataset
from firstsight.data.dataset import make_training_set
from firstsight.data.shared_space import in_shared_space, text_columns, text_encoder_of


def test_a_text_encoder_is_known_by_the_names_of_its_numbers():
    assert text_encoder_of(text_columns("openai/clip", 3)) == "openai/clip"
    assert text_encoder_of(["clip:0", "clip:2"]) is None
    assert text_encoder_of(["base a", "base b"]) is None
    assert text_encoder_of([]) is None
    assert text_encoder_of(None) is None


@pytest.mark.parametrize(
    ("columns", "backbone", "expected"),
    [
        (None, None, True),  # arrays: all that is known is their width
        (None, "resnet", True),
        (["0", "1", "2"], "clip", True),  # a table of numbers without an origin
        (["f1", "f2", "f3"], None, True),
        (["striped", "hooved", "horns"], None, False),  # attributes, which are three by chance
        (["f1", "f3", "f2"], None, False),
        (["a1", "b2", "c3"], None, False),
        (text_columns("clip", 3), None, True),
        (text_columns("clip", 3), "openai/CLIP", True),
        (text_columns("minilm", 3), "clip", False),
    ],
)
def test_equal_width_counts_unless_names_speak_against_it(columns, backbone, expected):
    assert in_shared_space(3, 3, columns, backbone) is expected
    assert not in_shared_space(4, 3, columns, backbone)


def test_a_data_set_and_its_folds_know_it(small):
    assert not small.shared_space
    data = ZeroShotDataset(
        "text",
        features=np.arange(24.0).reshape(8, 3),
        labels=[0, 0, 1, 1, 2, 2, 3, 3],
        class_names=tuple("abcd"),
        description_matrix=np.eye(4, 3) + 1,
        train=[0, 1, 2, 3, 4, 5],
        test_seen=[],
        test_unseen=[6, 7],
        attribute_names=text_columns("clip", 3),
        backbone="resnet",
    )
    assert not data.shared_space
    assert not data.validation_folds(1, 1)[0].shared_space


@pytest.mark.parametrize(("backbone", "expected"), [("clip", True), ("resnet", False), (None, True)])
def test_a_training_set_knows_what_made_its_features(backbone, expected):
    table = pd.DataFrame(np.eye(3), index=list("abc"), columns=text_columns("clip", 3))
    training = make_training_set("t", np.eye(3), list("abc"), table, backbone=backbone)
    assert training.shared_space is expected
