from __future__ import annotations

import numpy as np
import pytest

from firstsight.evaluation import mean_class_accuracy
from firstsight.methods import LatEm
from firstsight.methods._gradient_training import make_generator
from firstsight.methods._ranking_losses import random_wrong_class
from firstsight.methods.latem import best_map

pytest.importorskip("torch")

import torch

PLAIN = {"feature_scaling": None, "attribute_scaling": None, "random_state": 0}


def step_by_hand(W, X, codes, wrong, S, margin, rate):
    """One full-batch step on the docstring's formula, row by row; W (K, d, a)."""
    gradient = np.zeros_like(W)
    for x, y, other in zip(X, codes, wrong, strict=True):
        right_scores = [x @ W_k @ S[y] for W_k in W]
        wrong_scores = [x @ W_k @ S[other] for W_k in W]
        if margin + max(wrong_scores) - max(right_scores) > 0:
            gradient[np.argmax(wrong_scores)] += np.outer(x, S[other])
            gradient[np.argmax(right_scores)] -= np.outer(x, S[y])
    return W - rate * gradient / len(X)


@pytest.mark.parametrize("n_maps", [1, 3])
def test_a_step_moves_only_the_maps_that_won(n_maps):
    rng = np.random.default_rng(0)
    S, codes = rng.uniform(size=(4, 3)), np.repeat([0, 1, 2, 3], 3)
    X = rng.normal(size=(12, 5)).astype(np.float32)
    model = LatEm(n_maps=n_maps, margin=0.2, learning_rate=0.3, epochs=1, batch_size=12, initial_scale=1.0, **PLAIN)
    model.fit(X, codes, S)
    # The same draws in the same order: the maps, the order of the rows, a wrong class for each of them.
    generator = make_generator(0)
    unit = np.mean([x @ x for x in X]) * np.mean([a @ a for a in S])
    W = torch.randn(5, n_maps * 3, generator=generator).numpy().astype(float) / unit**0.5
    W = W.reshape(5, n_maps, 3).transpose(1, 0, 2)
    order = torch.randperm(12, generator=generator)
    wrong = random_wrong_class(torch.from_numpy(codes)[order], 4, generator).numpy()
    expected = step_by_hand(W, X[order], codes[order], wrong, S, 0.2, 0.3 / unit)
    np.testing.assert_allclose(model.weights_, expected, atol=1e-5)


def test_the_score_is_the_best_of_the_maps(task):
    model = LatEm(n_maps=3, epochs=2, random_state=0).fit(task.X, task.y, task.table)
    A = task.A / np.linalg.norm(task.A, axis=1, keepdims=True)
    X = model._scale_features(task.X_unseen)
    expected = [[max(x @ W_k @ a for W_k in model.weights_) for a in A] for x in X[:5]]
    np.testing.assert_allclose(model.decision_function(task.X_unseen[:5]), expected, rtol=1e-3, atol=1e-4)


def test_with_one_map_the_score_is_bilinear(task):
    model = LatEm(n_maps=1, epochs=2, random_state=0).fit(task.X, task.y, task.table)
    A = task.A / np.linalg.norm(task.A, axis=1, keepdims=True)
    expected = model._scale_features(task.X_unseen) @ model.weights_[0] @ A.T
    np.testing.assert_allclose(model.decision_function(task.X_unseen), expected, rtol=1e-3, atol=1e-4)


def test_the_best_map_is_found_row_by_row():
    mapped, A = torch.randn(6, 3, 4, generator=torch.Generator().manual_seed(0)), torch.linspace(0, 1, 24).view(6, 4)
    expected = [max(float(mapped[i, k] @ A[i]) for k in range(3)) for i in range(6)]
    np.testing.assert_allclose(best_map(mapped, A).numpy(), expected, rtol=1e-5)


def test_several_maps_part_from_each_other_in_training(task):
    model = LatEm(n_maps=2, random_state=0).fit(task.X, task.y, task.table)
    first, second = model._embed_classes(model.descriptions_)
    X = model._scale_features(task.X)
    share = (X @ first > X @ second).mean()
    assert 0.05 < share < 0.95  # neither map is idle


def test_unseen_classes_are_recognised_far_above_chance(task):
    model = LatEm(random_state=0).fit(task.X, task.y, task.table)
    found = model.predict(task.X_unseen, classes=task.unseen)
    assert mean_class_accuracy(task.y_unseen, found) > 0.6  # chance is 0.2
