from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from firstsight.data import load_dataset, read_tables
from firstsight.errors import BadInput, UnknownName, UnreadableFile


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
    def read_parquet(path):
        raise ImportError("Unable to find a usable engine")  # what pandas answers without pyarrow

    monkeypatch.setattr(pd, "read_parquet", read_parquet)
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
