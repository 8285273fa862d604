from __future__ import annotations

import numpy as np
import pytest

from firstsight.evaluation import mean_class_accuracy
from firstsight.methods import PSR
from firstsight.methods.psr import relation_loss

pytest.importorskip("torch")

import torch

SMALL = {"hidden": 64, "learning_rate": 1e-2, "random_state": 0}


def cosine(u, v):
    return u @ v / np.linalg.norm(u) / np.linalg.norm(v)


def objective_by_hand(model, weights, X, codes, S):
    """The docstring's formula, row by row and pair by pair, without λ."""

    def network(name, v):
        hidden = np.maximum(weights[f"{name}.0.weight"] @ v + weights[f"{name}.0.bias"], 0)
        return weights[f"{name}.1.weight"] @ hidden + weights[f"{name}.1.bias"]

    k, centre = len(S), X.mean(axis=0)
    means = [X[codes == c].mean(axis=0) for c in range(k)]
    placed = [network("encode", a) for a in S]
    relations = []
    for r in range(k):
        for s in range(k):
            delta = cosine(S[r] - S.mean(axis=0), S[s] - S.mean(axis=0))
            v = cosine(placed[r] - centre, means[s] - centre)
            relations.append(max(0, delta - v if delta >= model.similarity else v - delta))
    regression = sum((codes == c).mean() * np.sum((means[c] - placed[c]) ** 2) for c in range(k))
    back = np.mean([np.sum((S[c] - network("decode", placed[c])) ** 2) for c in range(k)])
    x2, a2 = np.mean([x @ x for x in X]), np.mean([a @ a for a in S])
    return regression + x2 * (model.relation * np.mean(relations) + model.reconstruction * back / a2)


def test_the_loss_is_the_docstrings_formula(monkeypatch):
    rng = np.random.default_rng(0)
    codes, S = np.repeat([0, 1, 2, 3], [2, 5, 3, 4]), rng.uniform(size=(4, 3)).astype(np.float32)
    X = rng.normal(size=(14, 5)).astype(np.float32)
    model = PSR(hidden=6, similarity=0.1, relation=0.7, reconstruction=0.3, random_state=0)
    seen = {}

    def first_loss(weights, loss, n_rows, **settings):
        seen["loss"] = loss(torch.arange(n_rows)).item()
        seen["weights"] = [w.numpy().astype(float) for w in weights]
        return []

    monkeypatch.setattr("firstsight.methods._gradient_training.train", first_loss)
    monkeypatch.setattr(torch.Tensor, "detach", lambda self: self)
    model.set_params(feature_scaling=None, attribute_scaling=None).fit(X, codes, S)
    names = [f"{net}.{i}.{part}" for net in ("encode", "decode") for i in (0, 1) for part in ("weight", "bias")]
    weights = dict(zip(names, seen["weights"], strict=True))
    by_hand = objective_by_hand(model, weights, X.astype(float), codes, S.astype(float))
    assert seen["loss"] == pytest.approx(by_hand, rel=1e-4)


def test_similar_pairs_pay_for_distance_and_dissimilar_ones_for_closeness():
    similar = torch.tensor([[0.8, 0.8, -0.3, -0.3]])
    cosines = torch.tensor([[0.9, 0.5, -0.5, 0.1]])
    assert relation_loss(cosines, similar, 0.2).item() == pytest.approx((0 + 0.3 + 0 + 0.4) / 4)


def test_a_large_weight_brings_visual_cosines_closer_to_those_of_descriptions(task):
    def excess(relation):
        model = PSR(**SMALL, relation=relation, reconstruction=0, penalty=0).fit(task.X, task.y, task.table)
        scaled = model._scale_features(task.X)
        means = np.stack([scaled[task.y == c].mean(axis=0) for c in task.seen])
        S = (task.A[:20] / np.linalg.norm(task.A[:20], axis=1, keepdims=True)).astype(np.float32)
        placed = model._embed_classes(S)
        A, centre = torch.from_numpy(S - S.mean(axis=0)), scaled.mean(axis=0)
        unit = torch.nn.functional.normalize
        cosines = unit(torch.from_numpy(placed - centre)) @ unit(torch.from_numpy(means - centre)).T
        return relation_loss(cosines, unit(A) @ unit(A).T, model.similarity).item()

    assert excess(100.0) < excess(0.0)


def test_the_decoder_is_not_kept(task):
    model = PSR(**SMALL, epochs=1).fit(task.X, task.y, task.table)
    assert all(name.startswith("encode") for name in model.weights_)


def test_unseen_classes_are_recognised(task):
    model = PSR(**SMALL).fit(task.X, task.y, task.table)
    assert mean_class_accuracy(task.y_unseen, model.predict(task.X_unseen, classes=task.unseen)) > 0.7  # chance is 0.2
