from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from firstsight.data.dataset import check_described, make_training_set
from firstsight.errors import BadInput

TABLE = pd.DataFrame(
    {"striped": [0.0, 1.0, 0.0, 0.0], "legs": [4.0, 4.0, 2.0, 2.0]}, index=["Polar Bear", "zebra", "hen", "dove"]
)


@pytest.mark.parametrize("folder", ["polar_bear", "Polar-Bear", "polar bear", "POLARBEAR", "Polar Beer"])
def test_a_folder_that_is_written_otherwise_than_the_table_is_answered_with_the_row(folder):
    with pytest.raises(BadInput, match="did you mean 'Polar Bear'"):
        check_described([folder, "zebra"], TABLE)


def test_a_class_that_nobody_described_gets_no_guess():
    with pytest.raises(BadInput, match=r"'okapi' and 1 more.* add a description"):
        check_described(["okapi", "zebra", "quokka"], TABLE)


def test_unlabelled_rows_join_without_a_part_and_twins_are_found():
    features = np.arange(12, dtype=np.float32).reshape(4, 3)
    training = make_training_set("t", features, ["zebra", "hen"] * 2, TABLE, unlabeled=features[:1] + 9)
    np.testing.assert_array_equal(training.pool, features[:1] + 9)
    assert "'hen' and 'dove' have the same description" in training.findings()[0].message
    assert training.findings()[0].severity == "warning"
    assert training.warnings == (training.findings()[0],)
    with pytest.raises(BadInput, match="has 2 features per row, but labelled rows have 3"):
        make_training_set("t", features, ["zebra", "hen"] * 2, TABLE, unlabeled=features[:, :2])
