from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from firstsight.evaluation import evaluate, fit_on
from firstsight.experiments.jobs import estimator_of, run_job
from firstsight.experiments.plan import Job
from firstsight.experiments.records import Record, line_of
from firstsight.methods import ESZSL


@pytest.fixture(scope="module")
def deep(small, quick):
    """Both records of one fit of the inductive method."""
    return run_job(Job("small", "deep-embedding", ("zsl", "gzsl"), 3, quick["deep-embedding"]), small, "f")


@pytest.fixture(scope="module")
def transductive(small, quick):
    """A record of each training of the transductive method."""
    method = "transductive-deep-embedding"
    return [run_job(Job("small", method, (s,), 0, quick[method]), small, "f")[0] for s in ("zsl", "gzsl")]


def test_the_figures_are_those_of_the_protocol(deep, transductive, small, quick):
    jobs = [Job("small", r.method, (r.setting,), r.seed, quick[r.method]) for r in (*deep, *transductive)]
    for record, job in zip((*deep, *transductive), jobs, strict=True):
        result = evaluate(estimator_of(job), small, (job.settings[0],))
        for name in ("t1", "ts", "tr", "h"):
            value = getattr(result, name)
            assert getattr(record, name) == (None if value is None else pytest.approx(100 * value, abs=0.00501)), (
                job,
                name,
            )
        for name, classes in result.per_class.items():
            assert record.per_class[name] == pytest.approx({c: 100 * v for c, v in classes.items()}, abs=0.00501)


def test_the_record_says_what_ran(deep, small):
    for record, setting in zip(deep, ("zsl", "gzsl"), strict=True):
        assert Record.model_validate_json(line_of(record)) == record
        assert (record.schema_version, record.status, record.error) == (1, "done", None)
        assert (record.dataset, record.method, record.setting) == ("small", "deep-embedding", setting)
        assert (record.seed, record.split, record.features) == (3, small.split_hash, "f")
        assert (record.space, record.transductive, record.extra_supervision) == ("latent", False, "")
        assert (record.parameters["iterations"], record.parameters["separation"]) == (8, 300.0)
        assert not {"random_state", "verbose", "checkpoint", "setting"} & set(record.parameters)
        assert set(record.versions) == {"firstsight", "python", "torch", "numpy", "scikit-learn"}
        assert record.seconds >= record.fit_seconds > 0
        assert record.peak_mib > 50
        assert record.touched.labelled_rows == len(small.train)
        assert record.touched.test_rows_labelled == 0


def test_confusions_are_the_wrong_answers_among_unseen_classes_largest_first(deep, small):
    zsl, gzsl = deep
    wrong = round(sum(12 * (1 - accuracy / 100) for accuracy in zsl.per_class["t1"].values()))  # 12 rows a class
    assert sum(count for _, _, count in zsl.confusion) == wrong > 0
    counts = [count for _, _, count in zsl.confusion]
    assert counts == sorted(counts, reverse=True)
    assert all(t != p and {t, p} <= set(small.unseen_classes) for t, p, _ in zsl.confusion)
    assert gzsl.confusion == []


def test_the_trade_off_belongs_to_the_generalized_setting_and_passes_through_its_figures(deep):
    zsl, gzsl = deep
    assert zsl.seen_unseen is None
    curve = np.array(gzsl.seen_unseen.curve)
    assert len(curve) <= 60
    gaps = np.abs(curve - [gzsl.ts, gzsl.tr]).max(axis=1)
    assert gaps.min() < 10
    assert curve[-1, 0] == pytest.approx(zsl.t1, abs=0.01)  # all seen classes shut out: the conventional setting
    assert gzsl.ts * gzsl.tr / 100 <= gzsl.seen_unseen.ausuc <= 100
    assert gzsl.seen_unseen.calibrated is None


def test_calibrated_figures_are_those_of_the_best_constant_on_validation_classes(small, job):
    (record,) = run_job(replace(job, settings=("gzsl",)), small, "f", calibrate=True)
    calibrated = record.seen_unseen.calibrated
    fold = small.validation_folds(3, random_state=0)[0]
    on_fold = fit_on(ESZSL(), fold)
    candidates = [_figures_with(on_fold, fold, c)[2] for c in np.linspace(-1, 1, 2001)]
    best = _figures_with(on_fold, fold, calibrated.constant)[2]
    assert best >= max(candidates) - 1e-9
    ts, tr, h = _figures_with(fit_on(ESZSL(), small), small, calibrated.constant)
    assert [getattr(calibrated, name) for name in ("ts", "tr", "h")] == pytest.approx([ts, tr, h], abs=0.01)


def _figures_with(model, dataset, constant):
    """ts, tr and H in percent when a constant is taken off the seen classes' scores, by hand."""
    classes = np.array(dataset.seen_classes + dataset.unseen_classes)
    figures = []
    for part in ("test_unseen", "test_seen"):
        X, y = dataset.part(part)
        scores = model.decision_function(X, classes=list(classes)) - constant * np.isin(classes, dataset.seen_classes)
        right = classes[scores.argmax(axis=1)] == y
        figures.append(100 * np.mean([right[y == name].mean() for name in np.unique(y)]))
    ts, tr = figures
    return ts, tr, 2 * ts * tr / (ts + tr) if ts + tr else 0.0


def test_rounds_are_judged_with_the_true_labels_of_the_pool(transductive, deep):
    zsl, gzsl = transductive
    assert deep[0].rounds is None
    assert [r.round for r in zsl.rounds] == [1, 2, 3]
    assert zsl.rounds[-1].t1 == zsl.t1  # the pool is the test, and the last round is the result
    for name in ("ts", "tr", "h"):
        assert getattr(gzsl.rounds[-1], name) == getattr(gzsl, name)
    first, second, third = gzsl.rounds
    assert (first.selected, first.pseudo_label_accuracy) == (0, None)
    assert 0 < second.selected < third.selected
    assert 20 < second.pseudo_label_accuracy <= 100  # chance is 10
    assert 20 < third.pseudo_label_accuracy <= 100


def test_space_facts_are_there_for_every_method_and_the_own_space_where_it_is_shown(deep, small, job):
    (eszsl, _) = run_job(job, small, "f")
    for record in (*deep, eszsl):
        assert 0 < record.space_facts.compactness < 5
        assert -1 <= record.space_facts.separability <= 1
    assert eszsl.space_facts.embedding is None
    assert deep[0].space_facts.embedding.compactness > 0


def test_a_cell_that_fails_is_a_record_with_one_sentence(small, monkeypatch, job):
    def broken(self, X, y, S):
        raise ZeroDivisionError("on\npurpose")

    monkeypatch.setattr(ESZSL, "_fit", broken)
    zsl, gzsl = run_job(job, small, "f")
    assert (
        (zsl.status, zsl.error)
        == (gzsl.status, gzsl.error)
        == (
            "failed",
            "ZeroDivisionError: on purpose",
        )
    )
    assert [getattr(zsl, name) for name in ("t1", "ts", "tr", "h")] == [None] * 4
    assert (zsl.split, zsl.setting, gzsl.setting) == (small.split_hash, "zsl", "gzsl")


def test_bad_parameters_fail_with_the_sentence_of_the_method(small):
    (record,) = run_job(Job("small", "eszsl", ("zsl",), 0, {"feature_penalty": -1.0}), small, "f")
    assert record.status == "failed"
    assert "feature_penalty" in record.error
    assert "\n" not in record.error


def test_a_collapse_is_recorded_and_raises_nothing(small, quick):
    pytest.importorskip("torch")
    job = Job("small", "deep-embedding", ("zsl",), 0, quick["deep-embedding"], {"separation": 0.0}, "separation")
    (record,) = run_job(job, small, "f")
    assert (record.status, record.collapsed, record.variant) == ("done", True, {"separation": 0.0})
    assert record.parameters["separation"] == 0.0
    assert "has collapsed" in record.warnings[0]


def test_a_checkpoint_of_another_fit_is_replaced(small, quick, tmp_path):
    pytest.importorskip("torch")
    place = tmp_path / "state"
    job = Job("small", "deep-embedding", ("zsl",), 0, quick["deep-embedding"])
    (whole,) = run_job(job, small, "f", place)
    assert place.exists()
    (again,) = run_job(job, small, "f", place)  # goes on from the end
    other = Job("small", "deep-embedding", ("zsl",), 1, quick["deep-embedding"])
    (anew,) = run_job(other, small, "f", place)
    assert (whole.t1, whole.resumed) == (again.t1, False)
    assert again.resumed is True
    assert anew.status == "done"
    place.write_bytes(b"nothing of the kind")
    (repaired,) = run_job(job, small, "f", place)
    assert (repaired.status, repaired.t1) == ("done", whole.t1)


def test_the_calibrating_constant_comes_from_training_rows_alone(small, job):
    gzsl = run_job(job, small, "f", calibrate=1)[1].seen_unseen.calibrated
    features = small.features.copy()
    features[np.concatenate([small.test_seen, small.test_unseen])] *= -3
    other = replace(small, features=features)
    moved = run_job(job, other, "f", calibrate=1)[1].seen_unseen.calibrated
    assert moved.constant == gzsl.constant != 0
    assert moved.h != gzsl.h
