from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from firstsight._io.identity import same_data
from firstsight.data import ZeroShotDataset, load_dataset
from firstsight.errors import BadInput, UnknownName


@pytest.fixture
def dataset(arrays):
    return ZeroShotDataset(**arrays)


def test_float32_features_are_not_copied(arrays, dataset):
    assert np.shares_memory(arrays["features"], dataset.features)


def test_arrays_are_read_only_and_the_callers_stay_writable(arrays, dataset):
    for field in ("features", "labels", "description_matrix", "train", "test_seen", "test_unseen"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(dataset, field)[0] = 0
    arrays["features"][0] = 1.0


def test_doubles_and_fortran_order_become_c_contiguous_float32(arrays):
    arrays["features"] = np.asfortranarray(arrays["features"], dtype=np.float64)
    features = ZeroShotDataset(**arrays).features
    assert features.dtype == np.float32
    assert features.flags.c_contiguous


def test_seen_and_unseen_classes_come_in_table_order(arrays, dataset):
    assert dataset.seen_classes == list(arrays["class_names"][:6])
    assert dataset.unseen_classes == list(arrays["class_names"][6:])


def test_class_names_pick_rows_of_the_descriptions(dataset):
    table = dataset.descriptions
    assert list(table.loc[dataset.unseen_classes].index) == ["gnu", "hen"]
    assert len(table.loc[dataset.seen_classes + dataset.unseen_classes]) == 8


def test_a_part_gives_features_and_class_names(arrays, dataset):
    X, y = dataset.part("test_unseen")
    np.testing.assert_array_equal(X, arrays["features"][arrays["test_unseen"]])
    assert set(y) == {"gnu", "hen"}
    np.testing.assert_array_equal(y, dataset.y[dataset.test_unseen])


def test_an_unknown_part_is_answered_with_the_nearest(dataset):
    with pytest.raises(UnknownName, match="did you mean 'test_unseen'"):
        dataset.part("test_unsen")


def test_descriptions_are_a_table_indexed_by_class(arrays):
    table = ZeroShotDataset(**arrays, attribute_names=tuple("vwxyz")).descriptions
    assert list(table.index) == list(arrays["class_names"])
    assert list(table.columns) == list("vwxyz")
    np.testing.assert_array_equal(table.loc["cow"], arrays["description_matrix"][2])


def test_the_split_hash_sees_classes_labels_and_parts_but_not_features(arrays, dataset):
    same = ZeroShotDataset(**{**arrays, "features": arrays["features"] * 2, "train": arrays["train"][::-1]})
    assert same.split_hash == dataset.split_hash
    assert len(dataset.split_hash) == 16
    moved = {"train": arrays["train"][1:]}
    renamed = {"class_names": ("ape", *arrays["class_names"][1:])}
    unlabelled = {"labels": np.where(arrays["labels"] == 7, 6, arrays["labels"])}
    for change in (moved, renamed, unlabelled):
        assert ZeroShotDataset(**{**arrays, **change}).split_hash != dataset.split_hash


def test_the_fingerprint_sees_features_and_descriptions_but_no_split(arrays, dataset):
    same = ZeroShotDataset(**{**arrays, "train": arrays["train"][1:]})
    assert same_data(same.features_fingerprint, dataset.features_fingerprint)
    for change in ({"features": arrays["features"] + 1}, {"description_matrix": -arrays["description_matrix"]}):
        other = ZeroShotDataset(**{**arrays, **change})
        assert not same_data(other.features_fingerprint, dataset.features_fingerprint)


@pytest.mark.skipif(
    tuple(map(int, version("matplotlib").split(".")[:2])) < (3, 11),
    reason="glyphs are drawn with matplotlib, whose older releases draw some letters otherwise",
)
def test_the_records_are_of_the_glyphs_that_are_drawn_here():
    records = Path(__file__).resolve().parents[2] / "results" / "glyphs.jsonl"
    kept = {json.loads(line)["features"] for line in records.read_text(encoding="utf-8").splitlines()}
    assert kept
    assert all(same_data(one, load_dataset("glyphs").features_fingerprint) for one in kept)


def _with(arrays, field, index, value):
    changed = np.array(arrays[field], copy=True)
    changed[index] = value
    return {field: changed}


BAD = {
    "features that are not a matrix": (
        lambda a: {"features": a["features"][0]},
        "`features` must be a matrix",
    ),
    "features without columns": (lambda a: {"features": a["features"][:, :0]}, "has no columns"),
    "features of text": (
        lambda a: {"features": np.full((80, 2), "x")},
        "`features` must be a matrix of numbers",
    ),
    "labels too few": (lambda a: {"labels": a["labels"][:-1]}, "79 entries, but there are 80 rows"),
    "labels that are no whole numbers": (lambda a: {"labels": a["labels"] + 0.5}, "list of whole numbers"),
    "labels beyond int64": (lambda a: {"labels": a["labels"].astype("u8") + 2**63}, r"whole numbers up to 2\^53"),
    "the least label of all": (
        lambda a: _with(a, "labels", 0, np.iinfo(np.int64).min),
        r"whole numbers up to 2\^53",
    ),
    "NaN in features": (
        lambda a: _with(a, "features", (a["train"][3], 2), np.nan),
        "NaN or infinite values in row",
    ),
    "infinity in features": (
        lambda a: _with(a, "features", (a["test_seen"][0], 0), np.inf),
        "NaN or infinite",
    ),
    "NaN in a description": (
        lambda a: _with(a, "description_matrix", (2, 1), np.nan),
        "class 'cow' is missing",
    ),
    "descriptions too few": (
        lambda a: {"description_matrix": a["description_matrix"][1:]},
        "7 entries, but there are 8",
    ),
    "a row beyond the end": (
        lambda a: _with(a, "train", 0, 80),
        "`train` contains 80, but rows are numbered 0 to 79",
    ),
    "a negative row": (lambda a: _with(a, "test_seen", 0, -1), "`test_seen` contains -1"),
    "a label beyond the table": (
        lambda a: _with(a, "labels", a["train"][0], 8),
        "contains 8, but classes are",
    ),
    "a used row without a class": (lambda a: _with(a, "labels", a["train"][0], -1), "`labels` contains -1"),
    "a row twice": (lambda a: _with(a, "train", 0, a["train"][1]), "more than once"),
    "a row in two parts": (
        lambda a: _with(a, "test_seen", 0, a["train"][0]),
        "in both `train` and `test_seen`",
    ),
    "an unseen class with training rows": (
        lambda a: _with(a, "labels", a["train"][0], 7),
        "Class 'hen' is in both `train` and `test_unseen`",
    ),
    "a seen class without training rows": (
        lambda a: {"train": a["train"][a["labels"][a["train"]] != 0]},
        "Class 'ant' is in `test_seen`, but has no row in `train`",
    ),
    "no unseen rows": (lambda a: {"test_unseen": []}, "`test_unseen` has no rows"),
    "no training rows": (lambda a: {"train": []}, "`train` has no rows"),
    "a class name twice": (lambda a: {"class_names": ("bee", *a["class_names"][1:])}, "'bee' twice"),
    "an empty class name": (lambda a: {"class_names": ("", *a["class_names"][1:])}, "empty name"),
    "attribute names too few": (
        lambda a: {"attribute_names": ("x",)},
        "1 entries, but there are 5 attributes",
    ),
    "sample names too few": (lambda a: {"sample_names": ("x",)}, "1 entries, but there are 80 rows"),
    "images of floats": (lambda a: {"images": np.zeros((80, 2, 2))}, "type uint8"),
}


@pytest.mark.parametrize("case", BAD)
def test_it_refuses_in_one_sentence(arrays, case):
    change, message = BAD[case]
    with pytest.raises(BadInput, match=message) as caught:
        ZeroShotDataset(**{**arrays, **change(arrays)})
    assert "\n" not in str(caught.value)


def test_nan_in_a_row_of_no_part_is_nobodys_business(arrays):
    arrays["features"][arrays["test_seen"][0]] = np.nan
    without = ZeroShotDataset(**{**arrays, "test_seen": arrays["test_seen"][1:]})
    assert np.isfinite(without.part("test_seen")[0]).all()


def test_a_fold_shares_the_features_and_sees_no_test_row(dataset):
    for fold in dataset.validation_folds():
        assert np.shares_memory(fold.features, dataset.features)
        used = np.concatenate([fold.train, fold.test_seen, fold.test_unseen])
        assert set(used) == set(dataset.train)
        assert set(fold.class_names) == set(dataset.seen_classes)
        outside = np.setdiff1d(np.arange(80), dataset.train)
        assert (fold.labels[outside] == -1).all()
        assert set(fold.y[outside]) == {""}


def test_a_fold_keeps_every_rows_class_and_description(dataset):
    for fold in dataset.validation_folds(random_state=5):
        np.testing.assert_array_equal(fold.y[dataset.train], dataset.y[dataset.train])
        np.testing.assert_array_equal(fold.descriptions, dataset.descriptions.loc[list(fold.class_names)])


def test_folds_hold_out_different_classes_while_there_are_enough(dataset):
    held = [set(fold.unseen_classes) for fold in dataset.validation_folds(n_folds=3, n_classes=2)]
    assert set.union(*held) == set(dataset.seen_classes)
    assert sum(map(len, held)) == 6


def test_folds_may_overlap_when_there_are_too_few_classes(dataset):
    folds = dataset.validation_folds(n_folds=4, n_classes=3)
    assert [len(fold.unseen_classes) for fold in folds] == [3, 3, 3, 3]


def test_every_remaining_class_gives_its_share_to_test_seen(dataset):
    fold = dataset.validation_folds(held_out=0.25)[0]
    _, y = fold.part("test_seen")
    assert {name: int((y == name).sum()) for name in fold.seen_classes} == dict.fromkeys(fold.seen_classes, 2)
    assert dataset.validation_folds(held_out=0.0)[0].test_seen.size == 0


def test_folds_follow_the_random_state(dataset):
    def hashes(seed):
        return [fold.split_hash for fold in dataset.validation_folds(random_state=seed)]

    assert hashes(0) == hashes(0) != hashes(1)


@pytest.mark.parametrize(
    "arguments", [{"n_classes": 6}, {"n_classes": 0}, {"n_folds": 0}, {"held_out": 1.0}, {"held_out": -0.1}]
)
def test_impossible_folds_are_refused(dataset, arguments):
    with pytest.raises(BadInput, match=next(iter(arguments))):
        dataset.validation_folds(**arguments)


def test_the_customary_number_of_validation_classes_goes_by_name():
    n = 21
    features = np.zeros((n, 1), dtype=np.float32)
    names = tuple(f"c{i}" for i in range(n))
    table = np.arange(n, dtype=float)[:, None]
    known = ZeroShotDataset("aPY", features, np.arange(n), names, table, np.arange(n - 1), [], [n - 1])
    assert [len(fold.unseen_classes) for fold in known.validation_folds()] == [5, 5, 5]
    other = dataclasses.replace(known, name="mine")
    assert [len(fold.unseen_classes) for fold in other.validation_folds()] == [7, 7, 7]


def test_importing_the_package_stays_light():
    heavy = "torch", "sklearn", "pandas", "h5py", "scipy", "firstsight.methods"
    code = f"import sys, firstsight.data; print([name for name in {heavy!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "[]"
