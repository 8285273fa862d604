from __future__ import annotations

import numpy as np
import pytest

from firstsight.evaluation import mean_class_accuracy
from firstsight.methods import DEM
from firstsight.methods._gradient_training import class_mean_loss, class_means, draw_two_layers, two_layers

pytest.importorskip("torch")

import torch
from torch.nn.functional import relu

SMALL = {"hidden": 64, "learning_rate": 1e-2, "random_state": 0}


def gradients(weights, loss):
    """Of `loss()` for every weight."""
    for weight in weights.values():
        weight.requires_grad_(True).grad = None
    loss().backward()
    return {name: weight.grad.numpy().copy() for name, weight in weights.items()}


def test_the_class_means_have_the_gradient_of_all_rows():
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([0, 1, 2], [3, 10, 7]))
    X, S = rng.uniform(size=(20, 5)), rng.uniform(size=(3, 4))
    weights = {n: w.double() for n, w in draw_two_layers("embed", 4, 6, 5, torch.Generator().manual_seed(0)).items()}
    A, (means, shares) = torch.from_numpy(S), map(torch.from_numpy, class_means(X, y, 3))

    def embed(a):
        return relu(two_layers(weights, "embed", a))

    def by_row():
        return sum(((torch.from_numpy(x) - embed(A[c])) ** 2).sum() for x, c in zip(X, y, strict=True)) / len(X)

    expected = gradients(weights, by_row)
    found = gradients(weights, lambda: class_mean_loss(embed(A), means, shares, 3))
    for name in weights:
        np.testing.assert_allclose(found[name], expected[name], atol=1e-12)


def test_a_batch_of_classes_is_right_on_average():
    rng = np.random.default_rng(0)
    predicted, means = torch.from_numpy(rng.normal(size=(2, 6, 3)))
    shares = torch.from_numpy(rng.dirichlet(np.ones(6)))
    whole = class_mean_loss(predicted, means, shares, 6)
    parts = [class_mean_loss(predicted[b], means[b], shares[b], 6) for b in torch.arange(6).split(2)]
    assert whole.item() == pytest.approx(sum(p.item() for p in parts) / 3)
    by_hand = sum(share * ((p - m) ** 2).sum() for share, p, m in zip(shares, predicted, means, strict=True))
    assert whole.item() == pytest.approx(by_hand.item())


def test_the_score_is_the_squared_distance_to_the_embedded_description(task):
    model = DEM(**SMALL, feature_scaling=None, attribute_scaling=None).fit(task.X, task.y, task.table)
    w = model.weights_
    rows, scores = task.X_unseen[:4], model.decision_function(task.X_unseen[:4])
    for c, a in enumerate(task.A):
        hidden = np.maximum(w["embed.0.weight"] @ a + w["embed.0.bias"], 0)
        place = np.maximum(w["embed.1.weight"] @ hidden + w["embed.1.bias"], 0)
        np.testing.assert_allclose(scores[:, c], [-np.sum((x - place) ** 2) for x in rows], rtol=1e-3, atol=1e-4)


def test_features_from_a_relu_need_no_offset_and_others_get_one(task):
    assert not DEM(**SMALL, epochs=1).fit(task.X, task.y, task.table).floor_.any()
    shifted = DEM(**SMALL, epochs=1, feature_scaling=None).fit(task.X - 1, task.y, task.table)
    np.testing.assert_allclose(shifted.floor_, (task.X - 1).min(axis=0), rtol=1e-6)
    assert shifted._embed_classes(task.A.astype(np.float32)).min() < 0


def test_a_large_penalty_draws_all_classes_to_one_place(task):
    model = DEM(**SMALL, penalty=1e3).fit(task.X, task.y, task.table)
    assert np.ptp(model.decision_function(task.X_unseen), axis=1).max() < 1e-2


def test_unseen_classes_are_recognised(task):
    model = DEM(**SMALL).fit(task.X, task.y, task.table)
    assert mean_class_accuracy(task.y_unseen, model.predict(task.X_unseen, classes=task.unseen)) > 0.8
