from __future__ import annotations

import os
import sys

import numpy as np
import pandas as pd
import pytest

from firstsight.data import ZeroShotDataset, audit, load_dataset, read_descriptions, read_tables
from firstsight.data.feature_files import read_feature_file
from firstsight.encoders.descriptions import read_class_table
from firstsight.errors import BadInput, FirstsightWarning, UnknownName, UnreadableFile
from firstsight.methods import ESZSL


@pytest.fixture
def samples(arrays):
    table = pd.DataFrame(arrays["features"], columns=[f"f{i}" for i in range(7)])
    table.insert(0, "class", np.array(arrays["class_names"])[arrays["labels"]])
    table["split"] = ""
    for part in ("train", "test_seen", "test_unseen"):
        table.loc[arrays[part], "split"] = part
    return table


@pytest.fixture
def classes(arrays):
    table = pd.DataFrame(arrays["description_matrix"], columns=list("vwxyz"))
    table.insert(0, "animal", arrays["class_names"])
    return table


def _save(folder, samples, classes):
    samples.to_csv(folder / "samples.csv", index=False)
    classes.to_csv(folder / "classes.csv", index=False)
    return folder / "samples.csv", folder / "classes.csv"


def _agrees(dataset, arrays):
    for part in ("train", "test_seen", "test_unseen"):
        np.testing.assert_array_equal(getattr(dataset, part), np.sort(arrays[part]))
    np.testing.assert_array_equal(dataset.y, np.array(arrays["class_names"])[arrays["labels"]])
    np.testing.assert_allclose(dataset.features, arrays["features"], rtol=1e-6)
    np.testing.assert_allclose(dataset.description_matrix, arrays["description_matrix"], rtol=1e-6)
    assert dataset.attribute_names == tuple("vwxyz")


def test_a_pair_of_csv_files_is_a_data_set(tmp_path, samples, classes, arrays):
    _agrees(read_tables(*_save(tmp_path, samples, classes)), arrays)


def test_a_folder_with_the_two_tables_is_recognised(tmp_path, samples, classes, arrays):
    _save(tmp_path, samples, classes)
    dataset = load_dataset(tmp_path)
    _agrees(dataset, arrays)
    assert dataset.name == tmp_path.name


def test_parquet_reads_the_same_even_with_classes_as_the_index(tmp_path, samples, classes, arrays):
    pytest.importorskip("pyarrow", reason="Parquet is optional")
    samples.to_parquet(tmp_path / "samples.parquet")
    classes.set_index("animal").to_parquet(tmp_path / "classes.parquet")
    _agrees(load_dataset(tmp_path), arrays)


def test_without_pyarrow_a_parquet_file_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as if it were not installed
    (tmp_path / "samples.parquet").write_bytes(b"PAR1")
    with pytest.raises(BadInput, match=r"firstsight\[parquet\]"):
        read_tables(tmp_path / "samples.parquet", tmp_path / "classes.csv")


def test_columns_of_truths_and_gaps_in_rows_of_no_part_are_allowed(tmp_path, samples, classes):
    classes["flies"] = classes["animal"] == "bee"
    samples.loc[0, "split"] = ""
    samples.loc[0, "f1"] = np.nan
    dataset = read_tables(*_save(tmp_path, samples, classes))
    assert dataset.descriptions["flies"].sum() == 1


def test_a_column_of_sample_names_is_kept(tmp_path, samples, classes):
    samples["sample"] = [f"{i:03d}" for i in range(80)]
    assert read_tables(*_save(tmp_path, samples, classes)).sample_names[:2] == ("000", "001")


def test_class_names_stay_text(tmp_path, samples, classes):
    renamed = {"ant": "007", "bee": "NA", "cow": "1.0"}
    samples["class"] = samples["class"].replace(renamed)
    classes["animal"] = classes["animal"].replace(renamed)
    assert read_tables(*_save(tmp_path, samples, classes)).class_names[:3] == ("007", "NA", "1.0")


@pytest.mark.parametrize("words", [("true", "false"), (1, 0), ("Yes", "")])
def test_without_a_split_the_unseen_column_decides_and_a_fifth_is_held_out(tmp_path, samples, classes, words):
    classes["unseen"] = [words[0] if name in ("gnu", "hen") else words[1] for name in classes["animal"]]
    dataset = read_tables(*_save(tmp_path, samples.drop(columns="split"), classes))
    assert dataset.unseen_classes == ["gnu", "hen"]
    _, y = dataset.part("test_seen")
    assert all((y == name).sum() == 2 for name in dataset.seen_classes)
    assert len(dataset.train) + len(dataset.test_seen) + len(dataset.test_unseen) == 80
    assert "unseen" not in dataset.attribute_names
    assert dataset.split_hash == load_dataset(tmp_path).split_hash


BAD = {
    "no split and no unseen": (
        lambda s, c: s.pop("split"),
        BadInput,
        "nothing says which classes are unseen",
    ),
    "no class column": (lambda s, c: s.pop("class"), BadInput, "must have a column 'class'"),
    "an undescribed class": (
        lambda s, c: _rename(s, "class", "gnu", "okapi"),
        BadInput,
        "'okapi' is missing",
    ),
    "a text feature": (
        lambda s, c: s.insert(3, "colour", "red"),
        BadInput,
        "Column 'colour' .* hold numbers",
    ),
    "a text attribute": (
        lambda s, c: c.insert(3, "colour", "red"),
        BadInput,
        "Column 'colour' .* hold numbers",
    ),
    "a missing feature": (lambda s, c: s.__setitem__("f3", np.nan), BadInput, "NaN or infinite"),
    "a strange split": (lambda s, c: _rename(s, "split", "train", "trian"), UnknownName, "mean 'train'"),
    "a class twice": (lambda s, c: _rename(c, "animal", "bee", "ant"), BadInput, "'ant' twice"),
    "an empty class": (
        lambda s, c: _rename(s, "class", "gnu", ""),
        BadInput,
        "Column 'class' .* has empty entries",
    ),
    "a strange truth": (lambda s, c: c.insert(1, "unseen", "perhaps"), BadInput, "contains 'perhaps'"),
}


def _rename(table, column, old, new):
    table[column] = table[column].replace(old, new)


@pytest.mark.parametrize("case", BAD)
def test_it_refuses_in_one_sentence(tmp_path, samples, classes, case):
    spoil, error, message = BAD[case]
    spoil(samples, classes)
    with pytest.raises(error, match=message) as caught:
        read_tables(*_save(tmp_path, samples, classes))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00\x01", b'class,f\n"a,1\nb,2,3,4'])
def test_a_file_that_is_no_table_is_named(tmp_path, samples, classes, content):
    paths = _save(tmp_path, samples, classes)
    paths[0].write_bytes(content)
    with pytest.raises(BadInput, match=r"samples\.csv") as caught:
        read_tables(*paths)
    assert "\n" not in str(caught.value)


def test_missing_and_foreign_files_are_named(tmp_path, samples, classes):
    paths = _save(tmp_path, samples, classes)
    with pytest.raises(UnreadableFile, match=r"nothing\.csv does not exist"):
        read_tables(tmp_path / "nothing.csv", paths[1])
    with pytest.raises(BadInput, match=r"must be a \.csv or a \.parquet"):
        read_tables(tmp_path / "samples.xls", paths[1])


def test_two_versions_of_one_table_are_refused(tmp_path, samples, classes):
    _save(tmp_path, samples, classes)
    (tmp_path / "samples.parquet").write_bytes(b"")
    with pytest.raises(BadInput, match="remove one of them"):
        load_dataset(tmp_path)


def _descriptions(tmp_path, content: bytes):
    (tmp_path / "classes.csv").write_bytes(content)
    return read_descriptions(tmp_path / "classes.csv")


@pytest.mark.parametrize(
    ("lines", "number"),
    [
        (["zebra,1,4,9", "lion,0,4"], 2),  # pandas would take "zebra" for an index and name the class "1"
        (["zebra,1,4,9", "lion,0,4,9"], 2),
        (["zebra,1,4", "", "lion,0,4,9"], 4),
        (['"ze\nbra",1,4', "lion,0,4,"], 4),
    ],
)
def test_a_line_with_more_cells_than_the_heading_is_refused_by_its_number(tmp_path, lines, number):
    with pytest.raises(BadInput, match=rf"Line {number} of .*classes\.csv has 4 cells, but the heading names 3"):
        _descriptions(tmp_path, "\n".join(["class,striped,legs", *lines, ""]).encode())


@pytest.mark.parametrize("heading", ["class,legs,legs", "class,class,legs"])
def test_a_column_that_is_named_twice_is_refused(tmp_path, heading):
    with pytest.raises(BadInput, match=r"names the column '\w+' twice"):
        _descriptions(tmp_path, f"{heading}\nzebra,1,4\n".encode())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("separator", [",", "\t", ";"])
def test_what_spreadsheets_write_is_read(tmp_path, encoding, separator):
    text = "class,striped,legs\nTüpfelhyäne,0.5,4\nzebra,1,4\n".replace(",", separator)
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    table = _descriptions(tmp_path, (mark + text).encode(encoding))
    assert list(table.index) == ["Tüpfelhyäne", "zebra"]
    assert table.loc["Tüpfelhyäne"].to_dict() == {"striped": 0.5, "legs": 4.0}


def test_a_table_in_latin_1_is_told_so(tmp_path):
    with pytest.raises(UnreadableFile, match=r"is not UTF-8 text.*Latin-1.*save it as UTF-8"):
        _descriptions(tmp_path, "class,striped\nTüpfelhyäne,1\n".encode("latin-1"))


def test_an_empty_table_and_a_pipe_are_named(tmp_path):
    with pytest.raises(UnreadableFile, match="it is empty"):
        _descriptions(tmp_path, b"\n\n")
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(UnreadableFile, match="regular file"):
        read_descriptions(tmp_path / "pipe.csv")


def test_a_parquet_file_of_endless_repetition_is_refused(tmp_path):
    pytest.importorskip("pyarrow", reason="Parquet is optional")
    pd.DataFrame({"class": ["a"], "x": 1.0}).loc[[0] * 6_000_000].to_parquet(tmp_path / "a.parquet", index=False)
    assert (tmp_path / "a.parquet").stat().st_size < 100_000
    with pytest.raises(UnreadableFile, match="too much for a file"):
        read_descriptions(tmp_path / "a.parquet")


def test_too_large_for_float32_is_said(tmp_path, samples, classes):
    samples = samples.astype({"f1": "float64"})
    samples.loc[3, ["f1", "split"]] = [1e200, "train"]
    with pytest.raises(BadInput, match=r"row 3 .*do not fit float32"):
        read_tables(*_save(tmp_path, samples, classes))


def test_a_heading_of_columns_without_end_is_one_sentence(tmp_path):
    """pandas takes 15 KB for each column: 1 MB of them took 1.5 GB."""
    columns = [f"a{i}" for i in range(20_000)]
    text = "\n".join([",".join(["class", *columns]), *(name + ",1" * len(columns) for name in "xy")])
    (tmp_path / "wide.csv").write_text(text)
    with pytest.raises(UnreadableFile, match=r"The heading in .*wide\.csv claims [\d,]+ bytes"):
        read_descriptions(tmp_path / "wide.csv")


def test_a_name_of_a_million_letters_is_one_sentence():
    table = pd.DataFrame({"a": [0.0, 1.0]}, index=["x", "y" * 10**6])  # an array would keep a million for each
    with pytest.raises(BadInput, match="has 1,000,000 characters; expected at most 10,000"):
        ESZSL().fit(np.eye(2), ["x", "y" * 10**6], table)


def test_the_index_that_pandas_writes_is_not_taken_for_a_feature(tmp_path, samples, classes):
    _save(tmp_path, samples, classes)
    samples.to_csv(tmp_path / "samples.csv")
    with pytest.raises(BadInput, match=r"without a name.*index=False"):
        load_dataset(tmp_path)


@pytest.mark.parametrize("lines", ["wild horse,1,0", "wild horse,0.5,0.25,7"])
def test_a_table_without_a_heading_does_not_lose_its_first_class(tmp_path, lines):
    path = tmp_path / "classes.csv"
    path.write_text(f"{lines}\nzebra{lines[10:]}\n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"first line.*'wild horse'.*names of its columns"):
        read_descriptions(path)


def test_columns_that_pandas_has_counted_are_names(tmp_path):
    path = tmp_path / "classes.csv"
    pd.DataFrame(np.eye(3), index=pd.Index(list("abc"), name="animal")).to_csv(path)
    assert read_descriptions(path).columns.tolist() == ["0", "1", "2"]


@pytest.mark.parametrize("first", ["0.5,0.25,-1", "0.0,0.0,0.0", "3,1,2", "1e-3,inf,nan", "5,6,7"])
def test_a_table_of_features_without_a_header_does_not_lose_its_first_sample(tmp_path, first):
    path = tmp_path / "rows.csv"
    path.write_text(f"{first}\n1,2,3\n4,5,6\n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"first line of .*rows.csv is numbers.*names of its columns.*f0, f1") as caught:
        read_feature_file(path)
    assert "twice" not in str(caught.value)


@pytest.mark.parametrize("first", ["0,1,2", "1,2,3", "f0,f1,f2", "sample,0.5,0.7"])
def test_names_that_count_the_columns_are_names(tmp_path, first):
    path = tmp_path / "rows.csv"
    path.write_text(f"{first}\n1,2,3\n4,5,6\n", encoding="utf-8")
    assert len(read_feature_file(path).features) == 2


def test_two_sources_of_features_are_an_error(tmp_path, samples, classes, arrays):
    """`features.npy` won over the table without a word."""
    _save(tmp_path, samples, classes)
    np.save(tmp_path / "features.npy", arrays["features"][::-1])
    for read in (load_dataset, audit):
        with pytest.raises(
            BadInput, match=r"samples\.csv has columns of features \('f0'.*features\.npy holds features"
        ):
            read(tmp_path)
    with pytest.raises(BadInput, match=r"features\.npy holds features, too"):
        read_feature_file(tmp_path / "samples.csv")
    _save(tmp_path, samples[["class", "split"]], classes)
    np.testing.assert_array_equal(load_dataset(tmp_path).features[:], arrays["features"][::-1])
    with pytest.raises(BadInput, match="give that file"):
        read_feature_file(tmp_path / "samples.csv")


@pytest.mark.parametrize(
    ("header", "line"),
    [
        ("class;length, cm;width, cm", "zebra;240;90"),  # as many commas as semicolons
        ("class;length, width, height;legs", "zebra;240;4"),  # more commas
        ("class;legs;length, cm", "zebra;4;2,4"),  # a decimal comma
        ('class;"length; cm";legs', "zebra;240;4"),
    ],
)
def test_commas_in_a_header_do_not_hide_semicolons(tmp_path, header, line):
    path = tmp_path / "classes.csv"
    path.write_text(f"{header}\n{line}\n", encoding="utf-8")
    table = read_class_table(path)
    assert table.index.tolist() == ["zebra"]
    assert table.shape == (1, 2)


def test_spaces_around_names_of_columns_do_not_count(tmp_path):
    path = tmp_path / "classes.csv"
    path.write_text("class, legs ,tail\nzebra,4,1\n", encoding="utf-8")
    assert read_descriptions(path).columns.tolist() == ["legs", "tail"]
    path.write_text("class,a, a\nzebra,4,1\n", encoding="utf-8")
    for read in (read_descriptions, read_class_table):
        with pytest.raises(BadInput, match="names the column 'a' twice"):
            read(path)


def test_a_class_in_two_normal_forms_is_told(tmp_path, samples, classes):
    one, two = "gn\u00fa", "gnu\u0301"  # the same on every screen
    _rename(samples, "class", "gnu", two)
    _rename(classes, "animal", "gnu", one)
    with pytest.raises(BadInput, match=r"looks the same.*'gn\\xfa'.*write both the same way"):
        read_tables(*_save(tmp_path, samples, classes))
    _rename(classes, "animal", "hen", two)
    _rename(samples, "class", "hen", one)
    _save(tmp_path, samples, classes)
    assert any("look the same" in finding.message for finding in audit(tmp_path).findings)
    with pytest.warns(FirstsightWarning, match="differ in their code points alone"):
        load_dataset(tmp_path)


def test_names_that_cannot_be_kept_are_an_error(arrays):
    names = ("ant", "ant\0", *arrays["class_names"][2:])  # one and the same to NumPy
    with pytest.raises(BadInput, match="ends in the character NUL"):
        ZeroShotDataset(**{**arrays, "class_names": names})
