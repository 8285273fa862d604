"""Tables as people fill them in."""

from __future__ import annotations

import os

import numpy as np
import pytest

from firstsight.encoders.descriptions import attributes_as_numbers, empty_table, read_class_table
from firstsight.errors import BadInput


@pytest.fixture
def table(tmp_path):
    def write(text: str):
        (tmp_path / "classes.csv").write_text(text, encoding="utf-8")
        return read_class_table(tmp_path / "classes.csv")

    return write


def test_numbers_stay_as_they_are(table):
    numbers, notes = attributes_as_numbers(table("class,a,b\nox,0,3.25\nokapi,-1,1e1\n"))
    assert numbers.to_numpy().tolist() == [[0, 3.25], [-1, 10]]
    assert list(numbers.index) == ["ox", "okapi"]
    assert notes == []


def test_percent_yes_and_no_in_several_languages(table):
    numbers, _ = attributes_as_numbers(
        table("class,striped,share,hooved\nzebra,yes,85%,ja\nlion,No,12.5 %,nein\nox,FALSE,0,true\n")
    )
    np.testing.assert_allclose(numbers.to_numpy(), [[1, 0.85, 1], [0, 0.125, 0], [0, 0, 1]])


def test_semicolons_and_decimal_commas(table):
    numbers, _ = attributes_as_numbers(table("class;a;b\nox;0,5;85,5%\nokapi;2;1%\n"))
    np.testing.assert_allclose(numbers.to_numpy(), [[0.5, 0.855], [2, 0.01]])


def test_a_comma_before_three_digits_is_asked_about_unless_another_value_tells(table):
    with pytest.raises(BadInput, match=r"'1,500', which half of the world reads as 1500 and the other half as 1.500"):
        attributes_as_numbers(table("class;kilograms\nox;1,500\nokapi;250\n"))
    numbers, _ = attributes_as_numbers(table("class;tons\nox;1,500\nokapi;0,25\n"))
    assert numbers["tons"].tolist() == [1.5, 0.25]


def test_missing_values_take_the_mean_and_are_counted(table):
    numbers, notes = attributes_as_numbers(table("class,a,b\nox,1,2\nokapi,,4\nlion,4,n/a\n"))
    assert numbers.to_numpy().tolist() == [[1, 2], [2.5, 4], [4, 3]]
    assert "2 of 6 values are missing, in 2 of 2 attributes" in notes[0]


def test_scale_brings_every_column_to_its_own_range(table):
    text = "class,kilograms,striped,legs\nox,800,0,4\nmouse,0,0,4\nzebra,400,1,4\n"
    numbers, notes = attributes_as_numbers(table(text), scale=True)
    assert numbers.to_numpy().tolist() == [[1, 0, 0], [0, 0, 0], [0.5, 1, 0]]
    assert any("same scale" in note for note in notes)
    _, notes = attributes_as_numbers(table(text))
    assert any("'kilograms' spreads over 800" in note and "--scale" in note for note in notes)
    assert any("'legs'" in note for note in notes)


@pytest.mark.parametrize(
    ("ranges", "advised"),
    [
        ([0.7, 1.2, 2, 5, 11, 30, 60, 97], False),  # percentages: some attributes are rare, none is in another unit
        ([1, 1, 1, 800], True),  # yes and no beside kilograms
        ([1, 1, 700, 900], True),  # however many of either
        ([0, 0, 1, 1], False),  # yes and no alone; some say the same of every class
        ([5, 90], False),
    ],
    ids=["percentages", "kilograms", "half of each", "binary", "close"],
)
def test_scaling_is_advised_where_units_differ_and_not_where_one_unit_has_small_ranges(table, ranges, advised):
    names = [f"a{number}" for number in range(len(ranges))]
    rows = [",".join(["class", *names]), ",".join(["ox", *("0" for _ in names)]), ",".join(["yak", *map(str, ranges)])]
    _, notes = attributes_as_numbers(table("\n".join(rows) + "\n"))
    assert any("--scale" in note for note in notes) == advised


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("class,a\nox,1\nox,2\n", "'ox' more than once"),
        ("class,a,b\nox,1,2\nokapi,1,2,3\n", "Line 3 of .* has 4 cells, but the heading names 3 columns"),
        ("class,a\n,1\n", "empty entries"),
        ("class,a\n", "no classes"),
        ("ox\nokapi\n", "must have a column 'class'"),
        ("class,a\nox,lots\n", "'a' of class 'ox' is 'lots'"),
        ("class,a\nox,inf\n", "is 'inf'"),
        ("class,a\nox,85%\nokapi,85\n", "% everywhere or nowhere"),
        ("class,a,b\nox,1,\nokapi,2,\n", "'b' is filled in for no class"),
        ("", "could not be read"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(text, words, table):
    with pytest.raises(BadInput, match=words):
        attributes_as_numbers(table(text))


def test_an_unreadable_table_is_one_sentence(tmp_path):
    with pytest.raises(BadInput, match="does not exist"):
        read_class_table(tmp_path / "none.csv")
    with pytest.raises(BadInput, match=r"must be a \.csv"):
        read_class_table(tmp_path / "none.xlsx")
    (tmp_path / "latin.csv").write_bytes("class\nTüpfelhyäne\n".encode("latin-1"))
    with pytest.raises(BadInput, match="is not UTF-8 text; it may be Latin-1"):
        read_class_table(tmp_path / "latin.csv")
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(BadInput, match="must be a regular file, but is a pipe"):
        read_class_table(tmp_path / "pipe.csv")


@pytest.mark.parametrize("name", ["t.csv", "T.CSV", "t.txt"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_spreadsheets_own_encodings_and_tabs_are_read(tmp_path, name, encoding):
    (tmp_path / name).write_text("class\tsize, roughly\tlegs\nTüpfelhyäne\t0,5\t4\nNA\n", encoding=encoding)
    found = read_class_table(tmp_path / name)
    assert found.to_dict("index") == {
        "Tüpfelhyäne": {"size, roughly": "0,5", "legs": "4"},
        "NA": {"size, roughly": "", "legs": ""},
    }


def test_an_empty_table_has_a_cell_for_everything(tmp_path):
    made = empty_table(["NA", "007"], ["striped", " eats grass"])
    made.to_csv(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == "class,striped,eats grass\nNA,,\n007,,\n"
    again = read_class_table(tmp_path / "t.csv")
    assert list(again.index) == ["NA", "007"]
    with pytest.raises(BadInput, match="'a' is named more than once"):
        empty_table(["ox"], ["a", "b", "a"])
    with pytest.raises(BadInput, match="separated by commas"):
        empty_table(["ox"], ["a", ""])
