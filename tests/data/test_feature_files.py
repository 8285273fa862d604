from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest

from firstsight.data.feature_files import FeatureFile, read_feature_file, read_features, write_feature_file
from firstsight.errors import BadInput, CannotWrite

BACKBONE = {"name": "resnet", "fingerprint": "abc", "dim": 3}


@pytest.fixture
def arrays():
    features = np.arange(6, dtype=np.float32).reshape(2, 3)
    text = np.array(json.dumps(BACKBONE))
    return {"features": features, "sample_names": ["a", "b"], "labels": ["ox", "ox"], "backbone": text}


def test_what_is_written_reads_back(tmp_path, arrays):
    path = tmp_path / "a.npz"
    write_feature_file(path, FeatureFile(arrays["features"], ["a", "b"], ["ox", "ü"], BACKBONE, [("c", "no picture")]))
    back = read_feature_file(path)
    np.testing.assert_array_equal(back.features, arrays["features"])
    assert (back.names, back.labels, back.backbone) == (["a", "b"], ["ox", "ü"], BACKBONE)
    assert back.skipped == [("c", "no picture")]


WRONG = {
    "labels too few": {"labels": ["ox"]},
    "labels of fractions": {"labels": [1.5, 2.5]},
    "labels in a matrix": {"labels": [["ox"], ["ox"]]},
    "names too many": {"sample_names": ["a", "b", "c"]},
    "names in a matrix": {"sample_names": [["a", "b"]]},
    "features in a row": {"features": [1.0, 2.0]},
    "features of text": {"features": [["a"], ["b"]]},
    "skipped without reasons": {"skipped": ["a", "b"]},
    "skipped in threes": {"skipped": [["a", "b", "c"]]},
    "a backbone that is no JSON": {"backbone": "resnet"},
    "a backbone in a list": {"backbone": ["{}"]},
    "a backbone of numbers": {"backbone": 5},
    "a backbone that is a list": {"backbone": "[1]"},
    "a backbone without a name": {"backbone": json.dumps({"fingerprint": "abc", "dim": 3})},
    "a backbone whose name is a number": {"backbone": json.dumps({**BACKBONE, "name": 5})},
    "a backbone whose dim is text": {"backbone": json.dumps({**BACKBONE, "dim": "3"})},
    "a backbone of 5,000 levels": {"backbone": "[" * 5000 + "]" * 5000},
    "a backbone deep inside": {"backbone": '{"name": ' + '{"a":' * 5000 + "1" + "}" * 5001},
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_types_and_lengths_are_one_sentence(tmp_path, arrays, case):
    path = tmp_path / "a.npz"
    np.savez(path, **{**arrays, **WRONG[case]})
    with pytest.raises(BadInput) as caught:
        read_feature_file(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_names_must_be_as_many_as_rows_to_predict(tmp_path, arrays):
    np.savez(tmp_path / "a.npz", features=arrays["features"], sample_names=["a"])
    with pytest.raises(BadInput, match="1 sample names for 2 rows"):
        read_features(tmp_path / "a.npz")
    np.save(tmp_path / "a.npy", arrays["features"])
    X, names = read_features(tmp_path / "a.npy")
    np.testing.assert_array_equal(X, arrays["features"])
    assert names == [0, 1]


def test_a_table_beside_a_matrix_that_holds_more_than_names_and_classes_is_not_written_over(tmp_path, arrays):
    content = FeatureFile(arrays["features"], ["a", "b"], ["ox", "ox"])
    for _ in range(2):  # its own table is replaced
        write_feature_file(tmp_path / "birds.npy", content)
    (tmp_path / "birds.csv").write_text("class,striped\nox,0\n")
    with pytest.raises(BadInput, match=r"birds.csv would be written over .*its column 'striped' lost"):
        write_feature_file(tmp_path / "birds.npy", content)
    assert (tmp_path / "birds.csv").read_text() == "class,striped\nox,0\n"


@pytest.mark.parametrize("full", ["a.npy", "a.csv"])
def test_a_disk_that_fills_up_leaves_a_matrix_and_its_table_as_they_were(tmp_path, arrays, monkeypatch, full):
    write_feature_file(tmp_path / "a.npy", FeatureFile(arrays["features"], ["a", "b"], ["ox", "hen"]))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def refuse(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(*((np, "save") if full == "a.npy" else (Path, "write_text")), refuse)
    with pytest.raises(CannotWrite, match=f"^Could not write [^(]*{full} .No space left"):
        write_feature_file(tmp_path / "a.npy", FeatureFile(arrays["features"] + 1, ["b", "a"], ["hen", "ox"]))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
