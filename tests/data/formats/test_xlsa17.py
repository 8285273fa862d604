from __future__ import annotations

import os

import numpy as np
import pytest
import scipy.io

from firstsight.data import load_dataset, read_xlsa17
from firstsight.data.formats.xlsa17 import read_splits
from firstsight.errors import BadInput, UnknownName, UnreadableFile


def _agrees(dataset, arrays):
    for field in ("features", "labels", "description_matrix", "train", "test_seen", "test_unseen"):
        np.testing.assert_array_equal(getattr(dataset, field), arrays[field], err_msg=field)
    assert dataset.class_names == arrays["class_names"]


def test_a_folder_in_matlab_v5_is_read_zero_based(folder, arrays):
    dataset = read_xlsa17(folder)
    _agrees(dataset, arrays)
    assert dataset.name == "SMALL"
    assert dataset.sample_names[:2] == ("0.jpg", "1.jpg")


def test_a_folder_in_matlab_v73_reads_the_same(folder, arrays, att_splits, res101, save_hdf5):
    save_hdf5(folder / "att_splits.mat", att_splits)
    save_hdf5(folder / "res101.mat", res101)
    _agrees(read_xlsa17(folder), arrays)


def test_train_loc_and_val_loc_change_nothing(folder, att_splits, arrays):
    poison = {"train_loc": att_splits["test_unseen_loc"], "val_loc": att_splits["test_seen_loc"]}
    scipy.io.savemat(folder / "att_splits.mat", {**att_splits, **poison})
    _agrees(read_xlsa17(folder), arrays)


def test_the_feature_file_is_chosen_by_name_by_habit_or_for_being_the_only_one(folder, res101):
    scipy.io.savemat(folder / "mine.mat", {**res101, "features": res101["features"] * 2})
    original = read_xlsa17(folder)
    doubled = read_xlsa17(folder, features="mine")
    np.testing.assert_array_equal(doubled.features, original.features * 2)
    (folder / "res101.mat").unlink()
    np.testing.assert_array_equal(read_xlsa17(folder).features, doubled.features)
    assert read_xlsa17(folder, features="mine.mat").split_hash == original.split_hash


def test_several_feature_files_without_a_choice_are_listed(folder):
    (folder / "res101.mat").rename(folder / "one.mat")
    (folder / "two.mat").write_bytes((folder / "one.mat").read_bytes())
    with pytest.raises(BadInput, match="one, two"):
        read_xlsa17(folder)


def test_an_unknown_feature_file_is_answered_with_the_nearest(folder):
    with pytest.raises(UnknownName, match="did you mean 'res101'"):
        read_xlsa17(folder, features="res110")


def test_labels_beside_the_feature_file_will_do(folder, res101, arrays):
    labels = res101.pop("labels")
    scipy.io.savemat(folder / "res101.mat", res101)
    with pytest.raises(BadInput, match="has no variable 'labels'"):
        read_xlsa17(folder)
    scipy.io.savemat(folder / "labels.mat", {"labels": labels})
    _agrees(read_xlsa17(folder), arrays)


def test_a_folder_without_features_says_so_and_its_splits_are_still_readable(folder, arrays, res101):
    (folder / "res101.mat").unlink()
    with pytest.raises(BadInput, match="has no feature file"):
        read_xlsa17(folder)
    with pytest.raises(BadInput, match="has no feature file"):
        read_xlsa17(folder, features="res101")
    assert read_splits(folder).labels is None
    scipy.io.savemat(folder / "labels.mat", {"labels": res101["labels"]})
    with pytest.raises(BadInput, match="has no feature file"):
        read_xlsa17(folder)
    np.testing.assert_array_equal(read_splits(folder).labels, arrays["labels"])


def test_a_folder_without_att_splits_says_so(tmp_path):
    with pytest.raises(UnreadableFile, match=r"no att_splits\.mat"):
        read_xlsa17(tmp_path)


def test_missing_variables_are_all_named(folder, att_splits):
    del att_splits["att"], att_splits["trainval_loc"]
    scipy.io.savemat(folder / "att_splits.mat", att_splits)
    with pytest.raises(BadInput, match="lacks att, trainval_loc"):
        read_xlsa17(folder)


def test_a_row_out_of_range_is_named_in_the_files_own_numbering(folder, att_splits):
    att_splits["trainval_loc"][0] = 81
    scipy.io.savemat(folder / "att_splits.mat", att_splits)
    with pytest.raises(BadInput, match="`train` contains 81, but rows are numbered 1 to 80"):
        read_xlsa17(folder)
    att_splits["trainval_loc"][0] = 0
    scipy.io.savemat(folder / "att_splits.mat", att_splits)
    with pytest.raises(BadInput, match="`train` contains 0, but rows are numbered 1 to 80"):
        read_xlsa17(folder)


def test_transposed_features_are_recognised(folder, res101):
    scipy.io.savemat(folder / "res101.mat", {**res101, "features": res101["features"].T})
    with pytest.raises(BadInput, match="transpose it"):
        read_xlsa17(folder)


def test_a_truncated_feature_file_is_named(folder):
    path = folder / "res101.mat"
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(UnreadableFile, match=r"res101\.mat .* truncated"):
        read_xlsa17(folder)


# Classes seen/unseen and rows of train/test_seen/test_unseen, from the benchmark's own paper (Xian et al.).
PUBLIC = {
    "AWA1": (40, 10, 19832, 4958, 5685),
    "AWA2": (40, 10, 23527, 5882, 7913),
    "CUB": (150, 50, 7057, 1764, 2967),
    "SUN": (645, 72, 10320, 2580, 1440),
}


@pytest.mark.parametrize("name", PUBLIC)
def test_the_public_splits_have_their_published_sizes(shared, name):
    raw = read_splits(shared / "data" / "xlsa17" / name)
    seen, unseen = (len(np.unique(raw.labels[raw.parts[part]])) for part in ("train", "test_unseen"))
    assert (seen, unseen, *(len(rows) for rows in raw.parts.values())) == PUBLIC[name]


def test_real_animals_load_and_fold(shared):
    dataset = load_dataset(shared / "data" / "xlsa17" / "ANIMALS42")
    assert dataset.features.shape == (5390, 2048)
    assert len(dataset.unseen_classes) == 9
    assert len(dataset.validation_folds()) == 3


def test_a_folder_whose_name_is_not_utf8_has_a_name_that_can_be_written(folder):
    place = folder.rename(folder.with_name(os.fsdecode(b"caf\xe9")))
    assert load_dataset(place).name == "caf\\xe9"
