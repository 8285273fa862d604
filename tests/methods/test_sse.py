from __future__ import annotations

import numpy as np
import pytest

from firstsight.evaluation import mean_class_accuracy
from firstsight.methods import SSE
from firstsight.methods.sse import mixtures

pytest.importorskip("torch")

import torch

PLAIN = {"feature_scaling": None, "attribute_scaling": None}


def test_the_score_adds_up_what_a_row_shares_with_each_prototype(task):
    model = SSE(epochs=2, random_state=0, **PLAIN).fit(task.X, task.y, task.table)
    psi = mixtures(task.A, model.seen_descriptions_, model.mixture_penalty)
    for x, found in zip(task.X_unseen[:4], model.decision_function(task.X_unseen[:4]), strict=True):
        shared = [sum(w * min(a, b) for w, a, b in zip(model.weights_, x, v, strict=True)) for v in model.prototypes_]
        np.testing.assert_allclose(found, psi @ shared, rtol=1e-4)


def test_one_step_follows_the_gradient_of_the_margin_by_hand():
    rng = np.random.default_rng(0)
    S, y = rng.uniform(size=(3, 4)), np.arange(12) % 3
    X = rng.uniform(size=(12, 5)).astype(np.float32)
    settings = {"mixture_penalty": 0.1, "penalty": 0.01, "learning_rate": 1e-3, "batch_size": 12}
    model = SSE(epochs=1, random_state=0, **settings, **PLAIN).fit(X, y, S)
    psi = torch.from_numpy(mixtures(S, S, 0.1))
    w = torch.full((5,), 5**-0.5, requires_grad=True)
    V = torch.tensor(np.array([X[y == c].mean(axis=0) for c in range(3)]), requires_grad=True)
    loss = 0.005 * (w @ w)
    for x, c in zip(torch.from_numpy(X), y, strict=True):
        F = psi @ torch.stack([torch.minimum(x, v) @ w for v in V])
        loss = loss + max(F[k] - F[c] + (k != c) for k in range(3)) / 12
    loss.backward()
    np.testing.assert_allclose(model.history_, [loss.item()], rtol=1e-5)
    for before, after in ((w, model.weights_), (V, model.prototypes_)):
        step = before.grad.sign().numpy() * 1e-3  # the first step of Adam is the sign of the gradient
        np.testing.assert_allclose(after, before.detach().numpy() - step, atol=1e-5)


def test_unseen_classes_are_recognised_far_above_chance(task):
    model = SSE(learning_rate=1e-2, epochs=20, random_state=0).fit(task.X, task.y, task.table)
    assert mean_class_accuracy(task.y_unseen, model.predict(task.X_unseen, classes=task.unseen)) > 0.5
