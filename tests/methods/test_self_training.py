from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from firstsight.methods import TransductiveKernelPrototypes
from firstsight.methods.kernel_prototypes.pool import PoolSettings, pseudo_labels, refit_with_pseudo_labels
from firstsight.methods.kernel_prototypes.prior import PrototypeSettings
from firstsight.methods.kernel_prototypes.search import fit_prototypes
from firstsight.methods.kernel_prototypes.space import class_statistics, labelled_moments

SEEN, UNSEEN = 8, 4
SETTINGS = PrototypeSettings(refinement=5)
WITH_POOL = PoolSettings(SETTINGS, seen_handicap=0.3, temperature=3.0, rounds=1, pool_nugget=0.05, cap=10.0)


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(SEEN + UNSEEN, 3))
    K = np.exp(-((A[:, None] - A) ** 2).sum(axis=2) / 6)
    centres = A @ rng.normal(size=(3, 10)) + rng.normal(size=(SEEN + UNSEEN, 10))
    y, truth = np.repeat(np.arange(SEEN), 15), np.repeat(np.arange(UNSEEN), 12)
    rows, pool = (
        (centres[codes] + 0.3 * rng.normal(size=(len(codes), 10))).astype(np.float32) for codes in (y, SEEN + truth)
    )
    statistics = class_statistics(rows, y, labelled_moments(rows, y, SEEN), SETTINGS.shrinkage)
    return rows, y, pool, truth, K, fit_prototypes(statistics, K[:SEEN, :SEEN], SETTINGS, rows, y)


def test_a_sample_is_pseudo_labelled_if_a_class_takes_more_than_half_of_it_and_of_another():
    R = np.array([[0.6, 0.1, 0.3], [0.4, 0.3, 0.3], [0.9, 0, 0.1], [0, 0.8, 0.2], [0, 0, 1], [0.1, 0, 0.7]])
    rows, codes, classes = pseudo_labels(R)
    assert (rows.tolist(), codes.tolist(), classes.tolist()) == ([0, 2, 4, 5], [0, 0, 1, 1], [0, 2])
    assert [len(part) for part in pseudo_labels(np.empty((0, 3)))] == [0, 0, 0]


def test_the_whitening_stays_and_the_span_holds_what_the_pseudo_labelled_samples_add(case):
    rows, y, pool, truth, K, model = case
    settings = replace(WITH_POOL, model=replace(SETTINGS, refinement=0))
    again = refit_with_pseudo_labels(model, rows, y, pool, K, np.eye(UNSEEN)[truth], settings)
    np.testing.assert_array_equal(again.space.whitening, model.space.whitening)
    assert model.space.directions.shape[1] == SEEN - 1
    assert again.space.directions.shape[1] == min(SEEN + UNSEEN - 1, 10)
    means = np.array([again.space(pool[truth == c]).mean(axis=0) for c in range(UNSEEN)])
    nearest = ((again.space(pool)[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == truth).mean() > 0.95


def test_without_a_pseudo_label_the_maps_are_those_of_the_labelled_rows(case):
    rows, y, pool, _, K, model = case
    again = refit_with_pseudo_labels(model, rows, y, pool, K, np.zeros((len(pool), UNSEEN)), WITH_POOL)
    np.testing.assert_allclose(again.space(pool), model.space(pool), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(again.means, model.means, rtol=1e-4, atol=1e-4)
    assert again.unit == pytest.approx(model.unit, rel=1e-4)


@pytest.mark.parametrize("setting", ["zsl", "gzsl"])
def test_maps_are_refitted_if_there_are_any_and_it_is_asked_for(task, setting, monkeypatch):
    calls = []
    name = "firstsight.methods.transductive_kernel_prototypes.refit_with_pseudo_labels"
    monkeypatch.setattr(name, lambda *given: calls.append(given) or refit_with_pseudo_labels(*given))
    pool = task.X_unseen if setting == "zsl" else task.pool
    scores = []
    for parameters in ({}, {"self_training": False}, {"refinement": 0}, {"refinement": 0, "hidden": 8}):
        model = TransductiveKernelPrototypes(setting=setting, search=False, **parameters)
        scores.append(model.fit(task.X, task.y, task.table, X_unlabeled=pool).decision_function(task.pool))
    assert len(calls) == 2
    assert np.isfinite(scores).all()
    assert np.abs(scores[0] - scores[1]).max() > 1e-3
