from __future__ import annotations

import copy
import json
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file
from scipy.spatial.distance import cdist

from firstsight.data.dataset import make_training_set
from firstsight.evaluation.calibration import Calibration
from firstsight.evaluation.novelty import FAR_SHARE, NoveltyDetector, fit_novelty_detector
from firstsight.persistence.model_folder import load, save
from firstsight.recognition import Recognizer


def _rows(random, n, d, *, centre=3.0):
    return (centre + random.normal(size=(n, d))).astype(np.float32)


def _training(features, classes, table):
    return make_training_set("rows", features, [table.index[code] for code in classes], table)


@pytest.fixture
def table(small):
    return small.descriptions


@pytest.fixture(scope="module")
def familiar(small):
    return fit_novelty_detector(small, small.validation_folds(3))


def test_the_distance_is_that_to_the_tenth_nearest_row_by_direction_and_length(small, familiar):
    X = small.features[small.test_unseen].astype(np.float64)
    length = np.linalg.norm(small.features[small.train], axis=1)

    def z(rows):
        norm = np.linalg.norm(rows, axis=1)
        return np.column_stack([rows / norm[:, None], np.log(norm / np.median(length))])

    expected = np.sort(cdist(z(X), z(small.features[small.train].astype(np.float64))), axis=1)[:, 9]
    np.testing.assert_allclose(familiar.distance(X), expected, atol=2e-3)  # rows are kept as float16


def test_the_nearest_added_row_counts_by_itself(small, familiar):
    X, added = small.features[small.test_unseen], small.features[small.test_seen[:3]] * 2
    expected = familiar.distance(X)
    for row in added:  # of one kept row, the nearest is the only one
        kept = np.r_[row / np.linalg.norm(row), np.log(np.linalg.norm(row) / familiar.length)].astype(np.float32)
        expected = np.minimum(expected, replace(familiar, rows=kept[None]).distance(X))
    np.testing.assert_allclose(familiar.distance(X, added), expected, rtol=1e-4)
    assert np.array_equal(familiar.distance(X, added[:0]), familiar.distance(X))
    np.testing.assert_allclose(familiar.distance(added, added), 0, atol=1e-3)


def test_far_rows_are_far_and_at_most_five_percent_of_known_ones_are_lost(small, familiar):
    random = np.random.default_rng(0)
    far = {
        "noise": random.normal(size=(50, 16)).astype(np.float32) * 1e-3,
        "all alike": np.ones((1, 16), dtype=np.float32) * 100,
        "nothing": np.zeros((1, 16), dtype=np.float32),
        "the same direction, but long": small.features[:20] * 1e4,
        "too long to be measured": np.full((2, 16), 1e200),
    }
    for name, X in far.items():
        distance = familiar.distance(X)
        assert familiar.far(distance).all(), name
        assert (familiar.share_nearer(distance) == 1).all()
        assert (familiar.confidence_factor(distance) < 0.1).all()
    for part in ("test_seen", "test_unseen"):
        assert familiar.far(familiar.distance(small.part(part)[0])).mean() <= 0.05


def test_neither_new_classes_nor_new_rows_of_the_folds_lose_more_than_was_promised(small):
    folds = small.validation_folds(3)
    known = fit_novelty_detector(small, folds)
    for part in ("test_seen", "test_unseen"):
        lost = [known.far(fit_novelty_detector(fold, folds).distance(fold.part(part)[0])) for fold in folds]
        assert np.concatenate(lost).sum() <= np.ceil(FAR_SHARE * sum(map(len, lost)))


def test_confidence_falls_beyond_what_is_known_and_not_before(familiar):
    border = familiar.distances[round(100 * (1 - FAR_SHARE))]
    inside, outside = (
        familiar.confidence_factor(np.linspace(0, border, 9)),
        familiar.confidence_factor(border + np.linspace(0.01, 2, 9)),
    )
    assert (inside == 1).all()
    assert (outside < 1).all()
    assert (np.diff(outside) < 0).all()


def test_the_unit_of_the_features_and_their_directions_do_not_matter(small, familiar):
    turned, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(16, 16)))
    before = familiar.distance(small.features)
    for change in (lambda X: 1000 * X, lambda X: (X @ turned).astype(np.float32)):
        other = replace(small, features=change(small.features))
        found = fit_novelty_detector(other, other.validation_folds(3))
        np.testing.assert_allclose(found.distance(other.features), before, atol=2e-3)


def test_test_rows_have_no_say(small, familiar):
    features = small.features.copy()
    features[np.concatenate([small.test_seen, small.test_unseen])] = 7
    other = replace(small, features=features)
    again = fit_novelty_detector(other, other.validation_folds(3))
    assert again.to_json() == familiar.to_json()
    np.testing.assert_array_equal(again.rows, familiar.rows)


def test_one_row_per_class_is_enough(table):
    random = np.random.default_rng(1)
    training = _training(_rows(random, 6, 30), range(6), table)
    found = fit_novelty_detector(training, training.validation_folds(10))
    assert not found.far(found.distance(_rows(random, 40, 30))).all()
    assert found.far(found.distance(_rows(random, 40, 30, centre=-3.0))).all()


def test_more_dimensions_than_rows_are_no_hindrance(table):
    random = np.random.default_rng(2)
    training = _training(_rows(random, 64, 500), np.repeat(range(8), 8), table)
    found = fit_novelty_detector(training, training.validation_folds(10))
    assert found.far(found.distance(_rows(random, 200, 500))).mean() <= 0.05
    assert found.far(found.distance(random.normal(size=(200, 500)))).all()


def test_constant_features_are_known_and_everything_else_is_far(table):
    training = _training(np.ones((32, 5), dtype=np.float32), np.repeat(range(8), 4), table)
    found = fit_novelty_detector(training, training.validation_folds(3))
    assert not found.far(found.distance(np.ones((3, 5)))).any()
    assert found.far(found.distance(np.eye(5))).all()
    assert np.isfinite(found.confidence_factor(found.distance(np.eye(5)))).all()


def test_what_is_kept_is_bounded_and_of_every_class(table):
    random = np.random.default_rng(3)
    codes = np.repeat(range(24), 120)
    features = np.repeat(10 * np.eye(24, dtype=np.float32), 120, axis=0) + _rows(random, 2880, 24, centre=0.0)
    training = _training(features, codes, table)
    found = fit_novelty_detector(training, training.validation_folds(1))
    assert found.rows.shape == (1000, 25)
    assert found.rows.dtype == np.float16
    per_class = np.bincount(found.rows[:, :24].argmax(axis=1), minlength=24)
    assert per_class.min() >= 30


def test_blocks_of_rows_do_not_matter(familiar, small, monkeypatch):
    whole = familiar.distance(small.features)
    monkeypatch.setattr("firstsight.evaluation.novelty.BLOCK_ROWS", 7)
    np.testing.assert_allclose(familiar.distance(small.features), whole, rtol=1e-4)


def test_it_survives_json_and_a_folder(calibrated, small, tmp_path):
    own = calibrated.calibration_
    again = Calibration.from_json(json.loads(json.dumps(own.to_json(), allow_nan=False)), **own.arrays)
    assert isinstance(again.novelty, NoveltyDetector)
    np.testing.assert_array_equal(again.novelty.distance(small.features), own.novelty.distance(small.features))
    Recognizer(calibrated).save(tmp_path / "model")
    loaded = Recognizer.load(tmp_path / "model")
    far = np.ones((2, 16), dtype=np.float32)
    np.testing.assert_array_equal(loaded.predict(far).distance, Recognizer(calibrated).predict(far).distance)


def test_a_folder_of_before_has_none_and_answers_as_before(calibrated, small, tmp_path):
    about = calibrated.calibration_.to_json()
    del about["novelty"]
    old = copy.copy(calibrated)
    old.calibration_ = Calibration.from_json(about, calibrated.calibration_.reference)
    save(old, tmp_path / "old")
    arrays = load_file(tmp_path / "old" / "arrays.safetensors")
    assert [name for name in arrays if name.startswith("calibration/")] == ["calibration/reference"]
    loaded = load(tmp_path / "old")
    far = np.ones((2, 16), dtype=np.float32) * 1e4
    found = Recognizer(loaded).predict(far, top=24)
    assert (found.rejected, found.distance, found.far) == (None, None, None)
    np.testing.assert_allclose(found.confidence.sum(axis=1), 1)
    assert set(found.as_json()[0]) == {"row", "file", "class", "seen", "confidence", "top"}
