from __future__ import annotations

import numpy as np
import pytest
import scipy.io

from firstsight.data import ZeroShotDataset, audit, load_dataset
from firstsight.errors import BadInput, FirstsightWarning, UnknownName


def _messages(report, severity=None):
    return " ".join(f.message for f in report.findings if severity in (None, f.severity))


@pytest.fixture
def files(folder, att_splits, res101):
    """Both files as dictionaries; `files.save()` writes them again."""

    class Files:
        splits, features = att_splits, res101

        def save(self):
            scipy.io.savemat(folder / "att_splits.mat", self.splits)
            scipy.io.savemat(folder / "res101.mat", self.features)
            return folder

    return Files()


def test_a_clean_folder_has_no_findings_and_its_sizes_are_told(folder):
    report = audit(folder)
    assert report.ok
    assert report.findings == ()
    assert report.name == "SMALL"
    assert report.sizes == {
        "classes": 8,
        "attributes": 5,
        "rows": 80,
        "features": 7,
        "train_rows": 48,
        "train_classes": 6,
        "test_seen_rows": 12,
        "test_seen_classes": 6,
        "test_unseen_rows": 20,
        "test_unseen_classes": 2,
    }


# What is done to (splits, features), the severity, and what the report must then say.
SPOILED = {
    "rows shared": (
        lambda s, f: s.update(test_seen_loc=np.append(s["test_seen_loc"], s["trainval_loc"][:3])[:, None]),
        "error",
        "is in both `train` and `test_seen` (3 such rows)",
    ),
    "rows repeated": (
        lambda s, f: s.update(trainval_loc=np.append(s["trainval_loc"], s["trainval_loc"][:3])[:, None]),
        "error",
        "more than once (3 such rows)",
    ),
    "rows out of range": (
        lambda s, f: s["test_unseen_loc"].__setitem__(0, 99),
        "error",
        "`test_unseen` contains 99, but rows are numbered 1 to 80 (1 such rows)",
    ),
    "labels out of range": (
        lambda s, f: f["labels"].__setitem__(int(s["trainval_loc"][0, 0]) - 1, 9),
        "error",
        "`labels` contains 9, but classes are numbered 1 to 8 (1 such rows)",
    ),
    "classes shared": (
        lambda s, f: f["labels"].__setitem__(int(s["trainval_loc"][0, 0]) - 1, 8),
        "error",
        "Class 'hen' is in both `train` and `test_unseen` (1 such classes)",
    ),
    "a seen class without training rows": (
        lambda s, f: s.update(trainval_loc=s["trainval_loc"][8:]),
        "error",
        "Class 'ant' is in `test_seen`, but has no row in `train` (1 such classes)",
    ),
    "no unseen rows": (
        lambda s, f: s.update(test_unseen_loc=np.zeros((0, 1))),
        "error",
        "`test_unseen` has no rows",
    ),
    "a NaN description": (
        lambda s, f: s["att"].__setitem__((0, 2), np.nan),
        "error",
        "description of class 'cow' is missing or contains NaN",
    ),
    "descriptions too few": (
        lambda s, f: s.update(att=s["att"][:, 1:]),
        "error",
        "`description_matrix` has 7 entries, but there are 8 class names",
    ),
    "a class name twice": (
        lambda s, f: s["allclasses_names"].__setitem__((1, 0), "ant"),
        "error",
        "contains 'ant' twice",
    ),
    "NaN features": (
        lambda s, f: f["features"].__setitem__((0, int(s["trainval_loc"][0, 0]) - 1), np.nan),
        "error",
        "1 such rows of `train`",
    ),
    "labels too few": (
        lambda s, f: f.update(labels=f["labels"][:79]),
        "error",
        "`labels` has 79 entries, but there are 80 rows",
    ),
    "a description of zeros": (
        lambda s, f: s["att"].__setitem__((slice(None), 1), 0),
        "warning",
        "all zero, for example that of 'bee'",
    ),
    "equal descriptions": (
        lambda s, f: s["att"].__setitem__((slice(None), 1), s["att"][:, 0]),
        "warning",
        "Classes 'ant' and 'bee' have the same description",
    ),
    "the same features in train and test": (
        lambda s, f: f["features"].__setitem__(
            (slice(None), int(s["test_unseen_loc"][0, 0]) - 1),
            f["features"][:, int(s["trainval_loc"][0, 0]) - 1],
        ),
        "warning",
        "1 rows of `test_unseen` have exactly the features of a row of `train`",
    ),
    "train_loc in the test": (
        lambda s, f: s.update(train_loc=s["test_seen_loc"][:5]),
        "warning",
        "`train_loc` contains 5 rows of `test_seen`",
    ),
    "val_loc in unseen classes": (
        lambda s, f: s.update(val_loc=s["test_unseen_loc"]),
        "warning",
        "`val_loc` contains 2 unseen classes",
    ),
    "rows in no part": (
        lambda s, f: s.update(test_seen_loc=s["test_seen_loc"][3:]),
        "note",
        "3 of 80 rows are in no",
    ),
    "a constant feature": (lambda s, f: f["features"].__setitem__(2, 5.0), "note", "1 of 7 feature columns"),
    "a constant attribute": (
        lambda s, f: s["att"].__setitem__(2, 0.1),
        "note",
        "1 of 5 attributes are the same",
    ),
    "unscaled descriptions": (
        lambda s, f: s.update(att=s["att"] * 2),
        "note",
        "8 of 8 descriptions do not have unit",
    ),
    "marks of missing values": (
        lambda s, f: s["original_att"].__setitem__((0, 3), -1),
        "note",
        "marks 1 values as missing (−1), in 1 of 8",
    ),
}


def test_marks_of_missing_values_are_looked_for_in_a_matrix_alone(files, save_hdf5):
    files.splits["original_att"] = np.full(8, -1.0)  # HDF5 can hold a list, which MATLAB never writes
    place = files.save()
    save_hdf5(place / "att_splits.mat", files.splits)
    assert audit(place).ok


@pytest.mark.parametrize("case", SPOILED)
def test_the_audit_finds(files, case):
    spoil, severity, message = SPOILED[case]
    spoil(files.splits, files.features)
    report = audit(files.save())
    assert message in _messages(report, severity)
    assert report.ok == (severity != "error")


@pytest.mark.parametrize("case", SPOILED)
def test_the_audit_and_the_loader_agree_on_what_is_usable(files, case):
    SPOILED[case][0](files.splits, files.features)
    place = files.save()
    if case == "equal descriptions":
        with pytest.warns(FirstsightWarning, match=SPOILED[case][2]):
            load_dataset(place)
    elif audit(place).ok:
        load_dataset(place)
    else:
        with pytest.raises(BadInput):
            load_dataset(place)


def test_everything_wrong_is_reported_at_once_errors_first(files):
    for case in (
        "rows repeated",
        "a NaN description",
        "NaN features",
        "equal descriptions",
        "rows in no part",
    ):
        SPOILED[case][0](files.splits, files.features)
    report = audit(files.save())
    severities = [finding.severity for finding in report.findings]
    assert severities == sorted(severities, key=("error", "warning", "note").index)
    assert severities.count("error") >= 3


def test_a_folder_without_features_or_labels_is_audited_as_far_as_it_goes(folder, files):
    files.splits["test_seen_loc"][0] = files.splits["trainval_loc"][0]
    files.save()
    (folder / "res101.mat").unlink()
    report = audit(folder)
    assert not report.ok
    assert "(1 such rows)" in _messages(report, "error")
    assert "Features were not audited" in _messages(report, "note")
    assert "no labels" in _messages(report, "note")


def test_a_damaged_feature_file_is_one_error_among_the_findings(folder):
    path = folder / "res101.mat"
    path.write_bytes(path.read_bytes()[:-100])
    report = audit(folder)
    assert "truncated" in _messages(report, "error")
    assert report.sizes["train_rows"] == 48


def test_a_wrong_word_for_the_features_is_the_callers_mistake_not_a_finding(folder):
    with pytest.raises(UnknownName, match="res101"):
        audit(folder, features="res102")


def test_a_path_that_is_no_data_set_is_refused(tmp_path):
    with pytest.raises(BadInput, match="accepted are"):
        audit(tmp_path)


def test_a_data_set_in_memory_can_be_audited_and_so_can_its_folds(arrays):
    dataset = ZeroShotDataset(**arrays)
    assert audit(dataset).findings == ()
    assert audit(dataset.validation_folds()[0]).ok


@pytest.mark.parametrize("name", ["ANIMALS42", "APY", "AWA1", "AWA2", "SUN"])
def test_the_real_folders_have_no_errors(shared, name):
    report = audit(shared / "data" / "xlsa17" / name)
    assert report.ok, _messages(report)
