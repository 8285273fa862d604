from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist, pdist

from firstsight.evaluation import mean_class_accuracy
from firstsight.methods import SynC
from firstsight.methods._linear_models import fit_linear, squared_hinge

PLAIN = {"feature_scaling": None, "attribute_scaling": None}


def test_weights_of_phantoms_sum_to_one_and_follow_the_distance(task):
    model = SynC(**PLAIN, kernel_width=0.5).fit(task.X, task.y, task.table)
    S, A = model.seen_descriptions_, task.A.astype(np.float32)
    weights = np.exp(-((cdist(A, S) / np.median(pdist(S)) / 0.5) ** 2))
    found = model._similarities(A)
    np.testing.assert_allclose(found, weights / weights.sum(axis=1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


def test_seen_classes_keep_the_classifiers_that_were_learned(task):
    X = task.X.astype(np.float64)
    model = SynC(penalty=0.01, **PLAIN).fit(X, task.y, task.table)
    names, first, codes = np.unique(task.y, return_index=True, return_inverse=True)
    order = np.argsort(first)
    W, b = fit_linear(X, squared_hinge(np.where(codes[:, None] == order, 1.0, -1.0)), 20, 0.01)
    np.testing.assert_allclose(model.decision_function(X, classes=names[order]), X @ W + b, atol=1e-6)


def test_a_new_class_between_two_phantoms_is_judged_by_both_alike():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    model = SynC(**PLAIN).fit(X, y, np.array([[0.0, 0.0], [1.0, 0.0]]))
    middle = pd.DataFrame([[0.5, 3.0]], index=[7])
    expected = model.phantoms_.mean(axis=0)
    found = model.decision_function(X, classes=middle)[:, 0]
    np.testing.assert_allclose(found, X @ expected[:-1] + expected[-1])


def test_a_class_unlike_all_others_gets_finite_scores(task):
    model = SynC(kernel_width=0.01, attribute_scaling=None).fit(task.X, task.y, task.table)
    far = pd.DataFrame([[1e3] * 10], index=["far"])
    assert np.isfinite(model.decision_function(task.X_unseen, classes=far)).all()


def test_unseen_classes_are_recognised_far_above_chance(task):
    model = SynC().fit(task.X, task.y, task.table)
    assert mean_class_accuracy(task.y_unseen, model.predict(task.X_unseen, classes=task.unseen)) > 0.6
