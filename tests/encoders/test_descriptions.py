from __future__ import annotations

import logging

import pandas as pd
import pytest

from firstsight.data import read_descriptions
from firstsight.encoders.descriptions import describe
from firstsight.errors import BadInput

TABLE = pd.DataFrame({"striped": ["yes", "no", None], "legs": [4, 4, 2]}, index=["zebra", "ox", "emu"])


def test_a_table_in_memory_and_in_a_file_give_the_same_numbers(tmp_path, caplog):
    TABLE.rename_axis("class").to_csv(tmp_path / "classes.csv")
    with caplog.at_level(logging.INFO, logger="firstsight"):
        made = describe(TABLE, out=tmp_path / "d.csv")
    assert made.loc["emu"].tolist() == [0.5, 2.0]
    pd.testing.assert_frame_equal(made, describe(tmp_path / "classes.csv"))
    pd.testing.assert_frame_equal(made, read_descriptions(tmp_path / "d.csv"), check_dtype=False, check_names=False)
    assert "1 of 6 values are missing" in caplog.text


def test_an_empty_table_is_made_and_a_filled_one_not_written_over(tmp_path):
    made = describe(TABLE, attributes=["wool", "horns"], out=tmp_path / "empty.csv")
    assert made.columns.tolist() == ["wool", "horns"]
    with pytest.raises(BadInput, match="may be filled in already"):
        describe(TABLE, attributes=["wool"], out=tmp_path / "empty.csv")


@pytest.mark.parametrize(
    ("given", "more", "said"),
    [
        (TABLE, {"encoder": "x/y"}, "for words, but the table has attributes"),
        (TABLE[[]], {"scale": True}, "for attributes"),
        (TABLE.assign(text="a horse"), {}, "both text"),
        (pd.concat([TABLE, TABLE]), {}, "'zebra' more than once"),
        (TABLE, {"out": "d.txt"}, r"must end in \.csv"),
    ],
)
def test_what_is_unclear_is_one_sentence(given, more, said):
    with pytest.raises(BadInput, match=said):
        describe(given, **more)
