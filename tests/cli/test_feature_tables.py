"""Tables of features: columns are matched by name, and what would be read as something else is an error."""

from __future__ import annotations

import csv
import io

import numpy as np
import pandas as pd
import pytest

from firstsight.data import load_dataset
from firstsight.persistence.model_folder import load
from firstsight.recognition import Recognizer
from firstsight.serving.samples import read_samples


def answers(done) -> list[str]:
    assert done.code == 0, done
    return [row["class"] for row in csv.DictReader(io.StringIO(done.out))]


@pytest.fixture(scope="module")
def tables(small):
    """`samples` and `classes` as a person writes them, with features called f0, f1, …"""
    samples = pd.DataFrame(small.features, columns=[f"f{n}" for n in range(small.features.shape[1])])
    samples.insert(0, "class", small.y)
    split = np.full(len(samples), "", dtype=object)
    for part in ("train", "test_seen", "test_unseen"):
        split[getattr(small, part)] = part
    return samples.assign(split=split), small.descriptions


@pytest.fixture(scope="module")
def folder(tables, tmp_path_factory):
    place = tmp_path_factory.mktemp("tables")
    samples, classes = tables
    samples.to_csv(place / "samples.csv", index=False)
    classes.to_csv(place / "classes.csv")
    return place


@pytest.fixture(scope="module")
def rows(tables):
    samples, _ = tables
    return samples[samples["split"] == "test_unseen"].drop(columns=["class", "split"])


@pytest.fixture
def model(cli, folder, tmp_path):
    assert cli("fit", folder, "--method", "eszsl", "--out", tmp_path / "model").code == 0
    return tmp_path / "model"


def test_columns_in_another_order_get_the_same_answers(cli, model, rows, tmp_path):
    rows.to_csv(tmp_path / "rows.csv", index=False)
    rows[rows.columns[::-1]].to_csv(tmp_path / "turned.csv", index=False)
    rows[rows.columns[::-1]].to_parquet(tmp_path / "turned.parquet")
    np.save(tmp_path / "rows.npy", rows.to_numpy())
    expected = answers(cli("predict", model, tmp_path / "rows.csv"))
    assert load(model).predict(rows.to_numpy(dtype="f4")).tolist() == expected
    for other in ("turned.csv", "turned.parquet", "rows.npy"):
        assert answers(cli("predict", model, tmp_path / other)) == expected, other
    assert load(model).predict(rows.to_numpy(dtype="f4")[:, ::-1]).tolist() != expected  # by position they are others


def test_other_columns_are_refused_with_their_names(cli, model, rows, tmp_path):
    def asked(table):
        table.to_csv(tmp_path / "rows.csv", index=False)
        return cli("predict", model, tmp_path / "rows.csv")

    asked(rows.rename(columns={"f2": "F-2"})).is_refused_with("rows.csv", "lacks 'f2'", "did you mean 'f2'?")
    numbered = rows.drop(columns="f0")
    numbered.insert(0, "id", range(len(rows)))
    asked(numbered).is_refused_with("lacks 'f0'", "has 'id'")
    asked(rows.assign(id=range(len(rows)))).is_refused_with("has 'id'", "remove it", "`sample`")
    named = asked(rows.assign(sample=[f"s{n}" for n in range(len(rows))]))
    assert named.out.splitlines()[1].startswith("s0,")


def test_learning_from_a_table_keeps_its_names_too(cli, tables, rows, tmp_path):
    samples, classes = tables
    samples[samples["split"] == "train"].drop(columns="split").to_csv(tmp_path / "train.csv", index=False)
    classes.to_csv(tmp_path / "classes.csv")
    quick = ["--method", "eszsl", "--out", tmp_path / "model"]
    done = cli("learn", tmp_path / "train.csv", "--classes", tmp_path / "classes.csv", *quick)
    assert done.code == 0, done
    recognise = Recognizer.load(tmp_path / "model")
    assert recognise.model.feature_names_in_.tolist() == rows.columns.tolist()
    rows[rows.columns[::-1]].to_csv(tmp_path / "rows.csv", index=False)
    assert recognise.predict(tmp_path / "rows.csv").best == recognise.predict(rows.to_numpy(dtype="f4")).best


def test_samples_of_the_web_app_are_matched_by_name(model, tables, folder, tmp_path):
    samples, classes = tables
    samples[samples.columns[::-1]].to_csv(tmp_path / "samples.csv", index=False)
    classes.to_csv(tmp_path / "classes.csv")
    recognise = Recognizer.load(model)
    expected = read_samples(str(folder), recognise).features
    np.testing.assert_array_equal(read_samples(str(tmp_path), recognise).features, expected)


def test_a_model_without_names_says_that_it_goes_by_position(cli, npz, quick, rows, tmp_path):
    assert cli("fit", npz, "--out", tmp_path / "model", "--method", "eszsl").code == 0
    rows.to_csv(tmp_path / "rows.csv", index=False)
    done = cli("predict", tmp_path / "model", tmp_path / "rows.csv")
    assert len(answers(done)) == len(rows)
    assert "no names of features, so the columns of" in done.err


def test_a_column_that_numbers_samples_is_a_warning(cli, tables, tmp_path):
    samples, classes = tables
    samples.assign(id=range(len(samples))).to_csv(tmp_path / "samples.csv", index=False)
    classes.to_csv(tmp_path / "classes.csv")
    done = cli("data", "check", tmp_path)
    assert "Column 'id' counts as a feature" in " ".join(done.out.split())


def test_names_of_features_survive_an_npz_file_and_folds(folder, tmp_path):
    from firstsight.data import write_npz

    data = load_dataset(folder)
    assert data.feature_names == tuple(f"f{n}" for n in range(data.features.shape[1]))
    assert load_dataset(write_npz(data, tmp_path / "data.npz")).feature_names == data.feature_names
    assert data.validation_folds(1)[0].feature_names == data.feature_names
