from __future__ import annotations

import numpy as np
import pytest

from firstsight.data import ZeroShotDataset, load_dataset, read_npz, write_npz
from firstsight.errors import BadInput, CannotWrite, UnreadableFile


@pytest.fixture
def dataset(arrays):
    return ZeroShotDataset(
        **arrays,
        attribute_names=tuple("vwxyz"),
        images=np.arange(80 * 6, dtype=np.uint32).astype(np.uint8).reshape(80, 2, 3),
        sample_names=tuple(f"s{i}" for i in range(80)),
    )


def test_what_is_written_reads_back_the_same(tmp_path, dataset):
    back = load_dataset(write_npz(dataset, tmp_path / "deep" / "a.npz"))
    for field in ("features", "labels", "description_matrix", "train", "test_seen", "test_unseen", "images"):
        np.testing.assert_array_equal(getattr(back, field), getattr(dataset, field))
    for field in ("name", "class_names", "attribute_names", "sample_names", "split_hash"):
        assert getattr(back, field) == getattr(dataset, field)


def test_a_fold_with_unlabelled_rows_survives_the_round_trip(tmp_path, dataset):
    fold = dataset.validation_folds()[0]
    assert read_npz(write_npz(fold, tmp_path / "a.npz")).split_hash == fold.split_hash


@pytest.mark.parametrize("key", ["descriptions", "class_attributes"])
def test_optional_keys_may_be_absent_and_descriptions_may_have_their_old_name(tmp_path, arrays, key):
    given = {name: value for name, value in arrays.items() if name not in ("name", "description_matrix")}
    np.savez(tmp_path / "plain.npz", **given, **{key: arrays["description_matrix"]})
    back = read_npz(tmp_path / "plain.npz")
    assert back.name == "plain"
    np.testing.assert_array_equal(back.description_matrix, arrays["description_matrix"])


def test_missing_keys_are_all_named(tmp_path, arrays):
    del arrays["train"], arrays["labels"]
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(BadInput, match="lacks labels, descriptions, train"):
        read_npz(tmp_path / "a.npz")


def test_pickled_arrays_are_refused(tmp_path, arrays):
    arrays["class_names"] = np.array(arrays["class_names"], dtype=object)
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(UnreadableFile, match="pickled"):
        read_npz(tmp_path / "a.npz")


@pytest.mark.parametrize("keep", [0, 10, 1000, -30])
def test_a_cut_file_is_refused(tmp_path, dataset, keep):
    path = write_npz(dataset, tmp_path / "a.npz")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UnreadableFile, match="could not be read"):
        read_npz(path)


def test_a_single_array_is_not_a_data_set(tmp_path):
    with (tmp_path / "a.npz").open("wb") as file:
        np.save(file, np.ones(3))
    with pytest.raises(UnreadableFile, match="could not be read"):
        read_npz(tmp_path / "a.npz")


def test_the_file_must_be_called_npz_and_its_place_writable(tmp_path, dataset):
    with pytest.raises(BadInput, match=r"must end in \.npz"):
        write_npz(dataset, tmp_path / "a.zip")
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotWrite):
        write_npz(dataset, tmp_path / "file" / "a.npz")


@pytest.mark.parametrize("what", ["nothing", "glyph", "a.txt", "."])
def test_anything_else_is_answered_with_what_is_accepted(tmp_path, monkeypatch, what):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("hello")
    with pytest.raises(BadInput, match="accepted are 'glyphs'"):
        load_dataset(what)


def test_choosing_features_where_there_is_no_choice_is_refused(tmp_path, dataset):
    with pytest.raises(BadInput, match="leave it out"):
        load_dataset(write_npz(dataset, tmp_path / "a.npz"), features="res101")
