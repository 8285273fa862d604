from __future__ import annotations

import numpy as np

from firstsight.methods import ESZSL


def test_the_closed_form_has_zero_gradient():
    rng = np.random.default_rng(0)
    X, S, y = rng.normal(size=(30, 6)), rng.uniform(size=(5, 4)), np.arange(30) % 5
    model = ESZSL(feature_penalty=2.0, attribute_penalty=0.5, feature_scaling=None, attribute_scaling=None).fit(X, y, S)
    g, r = 2.0 * np.linalg.eigvalsh(X.T @ X).mean(), 0.5 * np.linalg.eigvalsh(S.T @ S).mean()
    V, Y = model.weights_, np.eye(5)[y]
    gradient = 2 * X.T @ (X @ V @ S.T - Y) @ S + 2 * g * V @ S.T @ S + 2 * r * X.T @ X @ V + 2 * g * r * V
    assert np.abs(gradient).max() < 1e-10


def test_with_one_hot_descriptions_it_is_ridge_regression_on_the_labels():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 4
    model = ESZSL(feature_penalty=1.0, attribute_penalty=1.0, feature_scaling=None).fit(X, y)
    ridge = np.linalg.solve(X.T @ X + (X**2).sum() / 3 * np.eye(3), X.T @ np.eye(4)[y])
    np.testing.assert_allclose(model.decision_function(X), X @ ridge / 2, atol=1e-12)


def test_more_classes_than_features_get_the_scores_that_a_few_get(task):
    model = ESZSL().fit(task.X, task.y, task.table)
    assert len(task.table) > task.X.shape[1] >= task.table.shape[1]
    assert task.X.shape[1] > 5
    few = [model.decision_function(task.X, classes=task.table.iloc[i : i + 5]) for i in range(0, len(task.table), 5)]
    np.testing.assert_allclose(
        model.decision_function(task.X, classes=task.table), np.hstack(few), rtol=1e-5, atol=1e-6
    )


def test_rows_are_not_brought_to_descriptions_that_are_longer_than_they_are():
    rng = np.random.default_rng(0)
    X, S, y = rng.normal(size=(30, 6)), rng.uniform(size=(10, 40)), np.arange(30) % 10
    model = ESZSL().fit(X, y, S)
    assert model._embed_classes(S)[1].shape == (10, 6)  # six products per class and row, not forty
