from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from firstsight.evaluation.scores import mean_class_accuracy
from firstsight.methods import KernelPrototypes, TransductiveKernelPrototypes
from firstsight.methods.kernel_prototypes.pool import PoolProblem, PoolSolution

QUICK = {"search": False}


def pool_of(task, setting):
    return task.X_unseen if setting == "zsl" else task.pool


def test_with_no_pool_both_classes_agree(task):
    seen = task.table.loc[task.seen]
    for parameters in ({"refinement": 0}, QUICK):
        one = KernelPrototypes(**parameters).fit(task.X, task.y, seen)
        two = TransductiveKernelPrototypes(**parameters).fit(task.X, task.y, seen)
        for classes in (None, task.table):
            np.testing.assert_array_equal(
                one.decision_function(task.pool, classes=classes), two.decision_function(task.pool, classes=classes)
            )


@pytest.mark.parametrize("setting", ["zsl", "gzsl"])
def test_a_pool_without_a_say_leaves_the_inductive_answer(task, setting):
    one = KernelPrototypes(**QUICK).fit(task.X, task.y, task.table)
    two = TransductiveKernelPrototypes(setting=setting, cap=0, **QUICK)
    two.fit(task.X, task.y, task.table, X_unlabeled=pool_of(task, setting))
    np.testing.assert_allclose(one.decision_function(task.pool), two.decision_function(task.pool), rtol=1e-4)


def test_the_pool_is_tried_even_if_all_else_is_given(task):
    names = {"power": 0.5, "shrinkage": 0.3, "nugget": 0.03, "noise": 2.0, "stretch": 1.0, "refinement": 0}
    model = TransductiveKernelPrototypes(**names, seen_handicap=0.1, rounds=0, temperature=1.5, cap=25.0)
    model.fit(task.X, task.y, task.table, X_unlabeled=task.pool)
    assert model.search_["tried"] == []
    assert [line["settings"]["cap"] for line in model.search_["pool"]["tried"]] == [0.0, 25.0]
    assert names.items() <= model.settings_.items()
    assert model.settings_["seen_handicap"] == 0.1


@pytest.mark.parametrize("setting", ["zsl", "gzsl"])
def test_a_pool_that_did_not_help_in_the_trial_leaves_the_inductive_answer(task, setting, monkeypatch):
    """Predicted means that are right already, and EM that throws them away: the trial has to say no."""

    def scattered(problem, settings, start=None):
        model, j = problem.model, len(problem.labelled.K) - len(problem.labelled.counts)
        means, shares = np.full((j, model.means.shape[1]), 1e3), np.zeros((len(problem.pool), j))
        return PoolSolution(model, means, np.zeros(j), shares, shares)

    monkeypatch.setattr(PoolProblem, "solve", scattered)
    one = KernelPrototypes(refinement=0).fit(task.X, task.y, task.table)
    two = TransductiveKernelPrototypes(setting=setting, refinement=0)
    two.fit(task.X, task.y, task.table, X_unlabeled=pool_of(task, setting))
    assert two.settings_["cap"] == 0
    assert two.settings_.items() >= one.settings_.items()
    np.testing.assert_array_equal(one.decision_function(task.pool), two.decision_function(task.pool))


@pytest.mark.parametrize("setting", ["zsl", "gzsl"])
def test_the_search_is_reported_and_the_fit_is_deterministic(task, setting):
    given = {"setting": setting, "refinement": 10, "rounds": 1}
    models = [
        TransductiveKernelPrototypes(**given).fit(task.X, task.y, task.table, X_unlabeled=pool_of(task, setting))
        for _ in range(2)
    ]
    np.testing.assert_array_equal(*(m.decision_function(task.pool) for m in models))
    report = json.loads(json.dumps(models[0].search_))
    assert report["pool"]["tasks"] == report["tasks"] >= 4
    assert [line["settings"]["cap"] for line in report["pool"]["tried"]] == [0, 10, 30]
    assert set(models[0].settings_) >= {
        "cap",
        "temperature",
        "rounds",
        "pool_nugget",
        "seen_handicap",
        "power",
    }
    found = models[0].predict(task.X_unseen, classes=list(task.unseen))
    assert mean_class_accuracy(task.y_unseen, found) >= 0.8


def far_from_its_description(seed=0):
    """Unseen classes whose rows lie well beside where their descriptions say: only a pool can tell."""
    rng = np.random.default_rng(seed)
    A = rng.uniform(size=(24, 6))
    centres = A @ rng.normal(size=(6, 20)) + 0.35 * rng.normal(size=(24, 20))
    y = np.repeat(np.arange(24), 25)
    return centres[y] + 0.25 * rng.normal(size=(len(y), 20)), y, A


def test_a_pool_helps_where_descriptions_are_inexact():
    X, y, A = far_from_its_description()
    known = y < 18
    inductive = KernelPrototypes(**QUICK).fit(X[known], y[known], A)
    model = TransductiveKernelPrototypes(setting="zsl", **QUICK)
    model.fit(X[known], y[known], A, X_unlabeled=X[~known])
    before, after = (
        mean_class_accuracy(y[~known], m.predict(X[~known], classes=range(18, 24))) for m in (inductive, model)
    )
    assert after > before


def test_unseen_classes_are_known_by_description_and_later_ones_are_predicted(task):
    model = TransductiveKernelPrototypes(setting="zsl", **QUICK)
    model.fit(task.X, task.y, task.table, X_unlabeled=task.X_unseen)
    renamed = task.table.loc[task.unseen].rename(index=lambda c: f"new {c}")
    np.testing.assert_array_equal(
        model.decision_function(task.X_unseen, classes=list(task.unseen)),
        model.decision_function(task.X_unseen, classes=renamed),
    )
    later = pd.DataFrame(task.table.to_numpy()[:2] + 0.05, index=["later 1", "later 2"], columns=task.table.columns)
    assert np.isfinite(model.decision_function(task.X_unseen, classes=later)).all()


@pytest.mark.parametrize(("setting", "search"), [("zsl", False), ("gzsl", False), ("gzsl", True)])
@pytest.mark.parametrize("kind", ["one row", "copies of one row", "zeros", "same descriptions", "few classes"])
def test_odd_pools_get_finite_scores(task, setting, search, kind):
    X, y, table = task.X, task.y, task.table
    pool = {
        "one row": task.X_unseen[:1],
        "copies of one row": np.repeat(task.X_unseen[:1], 20, axis=0),
        "zeros": np.zeros((5, 16), dtype=np.float32),
    }.get(kind, task.X_unseen[:40])
    if kind == "same descriptions":
        table = table.copy()
        table.loc[task.unseen] = table.loc[task.unseen[0]].to_numpy()
    if kind == "few classes":
        some = np.isin(y, task.seen[:3])
        X, y = X[some], y[some]
    model = TransductiveKernelPrototypes(setting=setting, search=search, refinement=0, nugget=0.03, noise=2.0)
    model.fit(X, y, table, X_unlabeled=pool)
    assert np.isfinite(model.decision_function(task.pool)).all()


def test_the_score_gives_credit_for_doubt(task):
    model = TransductiveKernelPrototypes(cap=20, seen_handicap=0.4, **QUICK)
    model.fit(task.X, task.y, task.table, X_unlabeled=task.pool)
    classes = list(model.classes_)
    Z, means = model.embed(task.pool), model.embed_classes(classes)
    expected = -((Z[:, None] - means) ** 2).sum(axis=2) / 2
    seen = [c in set(task.seen) for c in classes]
    expected[:, seen] -= 0.4 * model.unit_
    # The pool says much of each unseen class, and not everything.
    assert ((model.doubt_ > 0) & (model.doubt_ < 0.9)).all()
    expected[:, ~np.array(seen)] -= 0.4 * model.unit_ * (1 - model.doubt_[model.unseen_code_[~np.array(seen)]])
    np.testing.assert_allclose(model.decision_function(task.pool, classes=classes), expected, rtol=1e-3, atol=1e-2)


def test_a_pool_that_lacks_classes_leaves_them_where_their_descriptions_say():
    X, y, A = far_from_its_description()
    known, absent = y < 18, y >= 21
    model = TransductiveKernelPrototypes(setting="gzsl", **QUICK)
    model.fit(X[known], y[known], A, X_unlabeled=X[~absent])
    doubt = model.doubt_[model.unseen_code_[18:]]
    assert model.belief_ < 0.5
    assert doubt[3:].min() > doubt[:3].max() + 0.02
    inductive = KernelPrototypes(**QUICK).fit(X[known], y[known], A)
    right = [
        mean_class_accuracy(y[~known], m.predict(X[~known], classes=np.arange(18, 24))) for m in (inductive, model)
    ]
    assert right[1] >= right[0] - 0.01
