from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from firstsight.errors import BadInput
from firstsight.evaluation import evaluate, fit_on
from firstsight.evaluation.calibration import (
    Calibration,
    _fit,
    _Rows,
    accuracy_interval,
    calibrate,
    log_loss,
    reliability,
)
from firstsight.methods import ESZSL, DeepEmbedding, TransductiveDeepEmbedding

QUICK = {"embedding_dim": 16, "learning_rate": 1e-2, "iterations": 8, "batch_size": 16, "semantic_steps": 10}


def _confidence(model, calibration, X, classes):
    seen = np.isin(classes, model.seen_classes_)
    return calibration.confidence(model, X, model.decision_function(X, classes=classes), seen)


def _rows(random, n, k, temperature, guess_rate=0.0):
    """Rows whose class is drawn from the very softmax that confidence is made of."""
    scores = random.normal(size=(n, k))
    row_spread = random.uniform(0.5, 2, size=n)
    chance = np.exp(scores / temperature)
    chance = (1 - guess_rate) * chance / chance.sum(axis=1, keepdims=True) + guess_rate / k
    drawn = (chance.cumsum(axis=1) > random.random((n, 1))).argmax(axis=1)
    right = scores.argmax(axis=1) == drawn
    return _Rows(scores, row_spread, scores.max(axis=1), right, np.full(n, 1 / n))


def test_the_gradient_is_that_of_the_loss():
    rows = _rows(np.random.default_rng(0), 60, 5, 0.5)
    for parameters in ([-0.5, 0.3, 0.1], [0.4, 1.2, 0.0], [-2.0, 0.0, 0.4]):
        args = (rows.scores, rows.row_spread, rows.right, rows.weights)
        _, gradient = log_loss(np.array(parameters), *args)
        numeric = approx_fprime(np.array(parameters), lambda p: log_loss(p, *args)[0], 1e-7)  # noqa: B023
        np.testing.assert_allclose(gradient, numeric, atol=2e-6)


@pytest.mark.parametrize(("temperature", "guess_rate"), [(0.3, 0.0), (1.0, 0.0), (0.2, 0.3)])
def test_the_numbers_that_made_the_rows_are_found_again(temperature, guess_rate):
    random = np.random.default_rng(1)
    log_t, power, found = _fit(
        [_rows(random, 6000, 20, temperature, guess_rate), _rows(random, 6000, 12, temperature, guess_rate)]
    )
    assert np.exp(log_t) == pytest.approx(temperature, rel=0.12)
    assert power == pytest.approx(0, abs=0.1)
    assert found == pytest.approx(guess_rate, abs=0.05)


def test_a_few_rows_that_are_all_right_do_not_make_certainty():
    rows = _rows(np.random.default_rng(2), 12, 3, 0.01)
    assert rows.right.all()
    log_t, power, guess_rate = _fit([rows])
    t = np.exp(log_t) * rows.row_spread**power
    u = np.exp((rows.scores - rows.scores.max(axis=1, keepdims=True)) / t[:, None])
    sure = (1 - guess_rate) / u.sum(axis=1) + guess_rate / 3
    assert 0.5 < sure.mean() < 0.995


def test_confidence_sums_to_one_and_keeps_the_order_of_the_scores(calibrated, small):
    model, X = calibrated, small.features[small.test_unseen]
    for classes in (small.unseen_classes, small.seen_classes, small.class_names, small.class_names[:2]):
        sure = _confidence(model, calibrated.calibration_, X, list(classes))
        np.testing.assert_allclose(sure.sum(axis=1), 1)
        assert (
            np.diff(np.take_along_axis(sure, model.decision_function(X, classes=list(classes)).argsort(1), 1)) >= 0
        ).all()
    assert sure.max() < 1


def test_confidence_on_unseen_classes_is_about_how_often_it_is_right(calibrated, small):
    X, y = small.part("test_unseen")
    sure = _confidence(calibrated, calibrated.calibration_, X, list(small.unseen_classes))
    right = np.array(small.unseen_classes)[sure.argmax(axis=1)] == y
    assert 0.4 < right.mean() < 0.98  # else there would be nothing to calibrate
    assert abs(sure.max(axis=1).mean() - right.mean()) < 0.12
    raw = np.exp(calibrated.decision_function(X, classes=list(small.unseen_classes)))
    raw /= raw.sum(axis=1, keepdims=True)
    assert reliability(sure.max(axis=1), right).ece < reliability(raw.max(axis=1), right).ece / 2


def test_a_row_has_the_same_confidence_alone_as_among_others(calibrated, small):
    X, classes = small.features[small.test_unseen], list(small.unseen_classes)
    together = _confidence(calibrated, calibrated.calibration_, X, classes)
    alone = _confidence(calibrated, calibrated.calibration_, X[3:4], classes)
    np.testing.assert_allclose(alone[0], together[3], rtol=1e-5)


class Loud(ESZSL):
    """ESZSL whose scores are a thousand times as large."""

    def _scores(self, X, E, seen):
        return 1000 * super()._scores(X, E, seen)


def test_the_unit_of_the_scores_does_not_matter(calibrated, small):
    loud = fit_on(Loud(**calibrated.get_params()), small)
    calibration = calibrate(loud, small)
    assert calibration.spread == pytest.approx(1000 * calibrated.calibration_.spread, rel=1e-4)
    X, classes = small.features[small.test_unseen], list(small.unseen_classes)
    quiet = _confidence(calibrated, calibrated.calibration_, X, classes)
    np.testing.assert_allclose(_confidence(loud, calibration, X, classes), quiet, atol=1e-3)


def test_test_rows_and_unseen_descriptions_have_no_say(calibrated, small):
    random = np.random.default_rng(0)
    features, attributes = small.features.copy(), small.description_matrix.copy()
    test = np.concatenate([small.test_seen, small.test_unseen])
    features[test] = random.normal(size=features[test].shape)
    unseen = np.isin(small.class_names, small.unseen_classes)
    attributes[unseen] = random.random(attributes[unseen].shape)
    changed = replace(small, features=features, description_matrix=attributes)
    again = calibrate(fit_on(ESZSL(**calibrated.get_params()), changed), changed)
    assert again.to_json() == calibrated.calibration_.to_json()


def test_the_estimate_is_what_evaluation_on_the_folds_says(calibrated, small):
    results = [evaluate(calibrated, fold) for fold in small.validation_folds(3)]
    for name in ("t1", "ts", "tr", "h"):
        expected = np.mean([getattr(result, name) for result in results])
        assert calibrated.calibration_.estimate[name] == pytest.approx(expected)
    assert calibrated.calibration_.estimate["h_shifted"] >= calibrated.calibration_.estimate["h"]
    assert calibrated.calibration_.held_out_classes == len(small.validation_folds(3)[0].unseen_classes)


def test_models_that_are_fitted_on_the_folds_already_are_not_fitted_again(calibrated, small, monkeypatch):
    folds = small.validation_folds(3)
    models = [fit_on(ESZSL(**calibrated.get_params()), fold) for fold in folds]
    monkeypatch.setattr(ESZSL, "fit", None)
    again = calibrate(calibrated, small, folds=folds, models=models)
    assert again.to_json() == calibrated.calibration_.to_json()


def test_none_of_these_loses_the_share_of_known_rows_that_was_asked_for(calibrated, small):
    folds = small.validation_folds(3)
    scale = calibrated.calibration_.scales["unseen"]
    for share in (0.05, 0.3):
        lost, known = 0, 0
        for fold in folds:
            model = fit_on(ESZSL(**calibrated.get_params()), fold)
            X, _ = fold.part("test_unseen")
            scores = model.decision_function(X, classes=list(fold.unseen_classes))
            own = replace(calibrated.calibration_, reference=model.descriptions_[model.seen_code_ >= 0])
            lost += (own.margin(model, X, scores) < scale.threshold(share)).sum()
            known += len(X)
        assert lost / known == pytest.approx(share, abs=0.02)
    assert scale.threshold(0.0) < scale.threshold(0.05) < scale.threshold(0.5)


def test_a_calibration_survives_json(calibrated, small):
    text = json.dumps(calibrated.calibration_.to_json(), allow_nan=False)
    again = Calibration.from_json(json.loads(text), calibrated.calibration_.reference)
    X, classes = small.features[:9], list(small.class_names)
    np.testing.assert_array_equal(
        _confidence(calibrated, again, X, classes),
        _confidence(calibrated, calibrated.calibration_, X, classes),
    )


def test_a_transductive_method_and_a_network_can_be_calibrated_and_stay_as_they_are(small, tmp_path):
    for cls, more in ((DeepEmbedding, {}), (TransductiveDeepEmbedding, {"rounds": 2, "round_iterations": 1})):
        model = fit_on(cls(**QUICK, **more, random_state=0), small)
        before = model.decision_function(small.features[:5])
        calibration = calibrate(model, small, 2, checkpoint=tmp_path / cls.__name__)
        assert calibration.n_folds == 2
        np.testing.assert_array_equal(model.decision_function(small.features[:5]), before)
        assert model.checkpoint is None
        assert len(list(tmp_path.glob(f"{cls.__name__}.fold*"))) == 2  # an interrupted calibration goes on from these


def test_too_few_classes_or_models_are_one_sentence(calibrated, small):
    few = small.validation_folds(1, n_classes=11)[0]
    assert len(few.seen_classes) == 3
    with pytest.raises(BadInput, match=r"at least 4 with labelled rows.*has 3"):
        calibrate(calibrated, few)
    with pytest.raises(BadInput, match=r"one fitted model per fold \(3\), but there are 1"):
        calibrate(calibrated, small, models=[calibrated])
    with pytest.raises(BadInput, match="share of known rows"):
        calibrated.calibration_.scales["unseen"].threshold(1.5)


def test_the_interval_of_an_estimate_is_wilsons_over_classes():
    """The ends are where an accuracy's own test is at 1.96 standard errors: (p − a)² = 1.96² a (1 − a) / n."""
    for accuracy, n_folds, held_out, training, n in ((0.53, 10, 3, 5, 8), (1.0, 10, 2, 2, 4), (0.6, 3, 50, 100, 150)):
        for end in accuracy_interval(accuracy, n_folds, held_out, training):
            assert (accuracy - end) ** 2 == pytest.approx(1.96**2 * end * (1 - end) / n, abs=1e-12)


def test_folds_that_hold_few_classes_out_say_less():
    low, high = accuracy_interval(0.5, 1, 3, 97)
    assert (low, high) == accuracy_interval(0.5, 1, 3, 5)  # three classes were asked about, whatever the others are
    assert high - low > 0.7
