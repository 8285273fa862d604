from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from firstsight.errors import BadInput
from firstsight.recognition import Recognizer
from firstsight.recognition.answers import NONE_OF_THESE


def test_answers_are_the_methods_own_in_the_order_of_their_scores(calibrated, small):
    X = small.features[small.test_unseen]
    for classes in (None, list(small.unseen_classes), small.descriptions.iloc[4:9]):
        found = Recognizer(calibrated).predict(X, classes=classes, top=3)
        np.testing.assert_array_equal(found.classes[:, 0], calibrated.predict(X, classes=classes))
        assert (np.diff(found.scores) <= 0).all()
        assert (np.diff(found.confidence) <= 0).all()
        assert (found.confidence.sum(axis=1) <= 1 + 1e-9).all()
    assert Recognizer(calibrated).predict(X, classes=small.class_names[:2], top=9).classes.shape == (120, 2)


def test_seen_classes_are_held_back_only_when_asked(calibrated, small):
    X = small.features[np.concatenate([small.test_seen, small.test_unseen])]
    own, shifted = (Recognizer(calibrated).predict(X, shift_seen=asked).classes[:, 0] for asked in (False, True))
    shift = calibrated.calibration_.seen_shift * calibrated.calibration_.spread
    assert shift > 0
    scores = calibrated.decision_function(X) - shift * (calibrated.seen_code_ >= 0)
    np.testing.assert_array_equal(shifted, calibrated.classes_[scores.argmax(axis=1)])
    assert np.isin(shifted, small.unseen_classes).mean() > np.isin(own, small.unseen_classes).mean()


def test_rows_that_no_candidate_suits_are_none_of_these_more_often_than_others(calibrated, small):
    X, y = small.part("test_unseen")
    with_own, without = small.unseen_classes[:5], small.unseen_classes[5:]
    theirs = np.isin(y, with_own)
    kept = Recognizer(calibrated).predict(X[theirs], classes=with_own, reject_share=0.1)
    lost = Recognizer(calibrated).predict(X[theirs], classes=without, reject_share=0.1)
    assert kept.rejected.mean() < 0.35
    assert lost.rejected.mean() > kept.rejected.mean() + 0.1
    none = Recognizer(calibrated).predict(X[theirs], classes=with_own, reject_share=0.0)
    assert none.rejected.mean() < 0.05
    entries = replace(lost, names=[f"{row}.jpg" for row in range(len(lost))], key="file").as_json()
    for entry, gone in zip(entries, lost.rejected, strict=True):
        assert entry["rejected"] == gone
        assert (entry["class"] == NONE_OF_THESE) == gone
        assert (entry["confidence"] is None) == gone
        assert entry["top"][0]["class"] in without  # what it would have been


def test_without_a_calibration_confidence_is_unknown_rather_than_made_up(eszsl, small):
    bare = eszsl
    found = Recognizer(bare).predict(small.features[:4], top=2)
    assert found.confidence is None
    assert all(entry["confidence"] is None for entry in found.as_json())
    with pytest.raises(BadInput, match=r'"none of these" needs numbers.*--confidence'):
        Recognizer(bare).predict(small.features[:4], reject_share=0.05)
    with pytest.raises(BadInput, match=r"Shifting seen classes needs numbers"):
        Recognizer(bare).predict(small.features[:4], shift_seen=True)


def test_reasons_name_the_attributes_and_the_runner_up(calibrated, small):
    X = small.features[small.test_unseen][:5]
    done = []
    found = Recognizer(calibrated).predict(X, top=2, why=True, progress=lambda n, total: done.append((n, total)))
    assert done[-1] == (5, 5)
    assert [n for n, _ in done] == sorted({n for n, _ in done})
    for why, classes, scores in zip(found.why, found.classes, found.scores, strict=True):
        assert why.instead_of == classes[1]
        assert why.lead == pytest.approx(float(scores[0] - scores[1]))
        assert {part.attribute for part in why.supporting + why.against} <= set(small.attribute_names)
        assert why.supporting, "a winner has something that speaks for it"
        assert abs(why.other.contribution) < 1e-4  # a bilinear score has no other reasons
    with pytest.raises(BadInput, match="at least two candidates"):
        Recognizer(calibrated).predict(X, classes=[small.class_names[0]], why=True)


def test_what_looks_like_nothing_that_training_saw_is_rejected_unasked(calibrated, small):
    noise = np.random.default_rng(0).normal(size=(30, 16)).astype(np.float32) * 1e-3
    found = Recognizer(calibrated).predict(noise)
    assert found.best == [NONE_OF_THESE] * 30
    assert found.far.all()
    assert (found.distance == 1).all()
    assert all(entry["confidence"] is None and entry["distance"] == 1 for entry in found.as_json())
    known = Recognizer(calibrated).predict(small.part("test_seen")[0])
    assert known.rejected.mean() <= 0.05
    assert (known.distance < 0.9).mean() > 0.8
    np.testing.assert_array_equal(known.rejected, known.far)


def test_whoever_accepts_all_gets_the_methods_own_answer_at_little_confidence(calibrated):
    noise = np.random.default_rng(0).normal(size=(30, 16)).astype(np.float32) * 1e-3
    found = Recognizer(calibrated).predict(noise, reject_far=False)
    assert found.rejected is None
    assert found.best == calibrated.predict(noise).tolist()
    assert (found.confidence[:, 0] < 0.1).all()
    assert (found.confidence < calibrated.predict_proba(noise).max(axis=1, keepdims=True)).all()


def test_the_confidence_of_rows_that_are_not_far_is_that_of_predict_proba(calibrated, small):
    X = small.part("test_unseen")[0]
    found = Recognizer(calibrated).predict(X, top=1)
    near = ~found.far
    assert near.mean() > 0.9
    np.testing.assert_array_equal(found.confidence[near, 0], calibrated.predict_proba(X)[near].max(axis=1))


def test_asking_for_none_of_these_adds_rows_that_stand_low_within_the_share_that_was_asked_for(calibrated, small):
    X = small.part("test_unseen")[0]
    far, asked = Recognizer(calibrated).predict(X), Recognizer(calibrated).predict(X, reject_share=0.6)
    assert (asked.rejected >= far.rejected).all()
    assert asked.rejected.sum() > far.rejected.sum() + 10
    alone = Recognizer(calibrated).predict(X, reject_share=0.6, reject_far=False)
    assert alone.rejected.sum() >= (asked.rejected & ~asked.far).sum()  # a part of the share went to what is far
    with pytest.raises(BadInput, match="reject_share: input should be greater than or equal to 0"):
        Recognizer(calibrated).predict(X, reject_share=-0.1)
