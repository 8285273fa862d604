from __future__ import annotations

import numpy as np
import pytest

from firstsight.evaluation import mean_class_accuracy
from firstsight.methods import RN, rn

pytest.importorskip("torch")

import torch

SMALL = {"attribute_hidden": 16, "embedding_dim": 16, "relation_hidden": 32, "learning_rate": 1e-2, "random_state": 0}
PLAIN = {"feature_scaling": None, "attribute_scaling": None}


def logit_by_hand(model, x, a):
    """g before its sigmoid for one pair, on the concatenated [f; x]."""
    w = model.weights_
    hidden = np.maximum(w["attribute.0.weight"] @ (model.gain_ * a) + w["attribute.0.bias"], 0)
    f = np.maximum(w["attribute.1.weight"] @ hidden + w["attribute.1.bias"], 0)
    joint = np.concatenate([w["relation.description"], w["relation.feature"]], axis=1)
    hidden = np.maximum(joint @ np.concatenate([f, x]) + w["relation.bias"], 0)
    return w["output.weight"][0] @ hidden + w["output.bias"][0]


def test_the_split_layer_equals_the_one_on_the_concatenated_input(task):
    model = RN(**SMALL, **PLAIN, epochs=2).fit(task.X, task.y, task.table)
    scores = model.decision_function(task.X_unseen[:5])
    expected = [[logit_by_hand(model, x, a) for a in task.A] for x in task.X_unseen[:5]]
    np.testing.assert_allclose(scores, expected, rtol=1e-3, atol=1e-4)


def test_the_loss_is_the_weighted_squared_error_of_all_pairs(monkeypatch):
    rng = np.random.default_rng(0)
    codes, S = np.array([0, 0, 1, 2, 3, 3]), rng.uniform(size=(4, 3)).astype(np.float32)
    X = rng.normal(size=(6, 5)).astype(np.float32)
    seen = {}

    def first_loss(weights, loss, n_rows, **settings):
        seen["loss"] = loss(torch.tensor([0, 1, 2, 5])).item()  # class 2 does not occur in this batch
        return []

    monkeypatch.setattr("firstsight.methods._gradient_training.train", first_loss)
    model = RN(**SMALL, **PLAIN, balance=0.5).fit(X, codes, S)
    total = 0.0
    for i in (0, 1, 2, 5):
        for c in (0, 1, 3):
            relation = 1 / (1 + np.exp(-logit_by_hand(model, X[i], S[c])))
            own = c == codes[i]
            total += ((3 - 1) ** 0.5 if own else 1) * (relation - own) ** 2
    assert seen["loss"] == pytest.approx(total / 12, rel=1e-4)


def test_scores_do_not_depend_on_how_pairs_are_cut_into_pieces(task, monkeypatch):
    model = RN(**SMALL, epochs=1).fit(task.X, task.y, task.table)
    whole = model.decision_function(task.X_unseen)
    for values in (1, 7 * 32, 100 * 32):
        monkeypatch.setattr(rn, "PAIR_VALUES", values)
        np.testing.assert_allclose(model.decision_function(task.X_unseen), whole, rtol=1e-4, atol=1e-5)


def test_a_piece_of_pairs_is_bounded_whatever_the_number_of_classes(task, monkeypatch):
    model = RN(**SMALL, epochs=1).fit(task.X, task.y, task.table)
    largest, logits = [], rn.relation_logits

    def watched(weights, of_row, of_class):
        largest.append(len(of_row) * len(of_class) * of_class.shape[1])
        return logits(weights, of_row, of_class)

    monkeypatch.setattr(rn, "relation_logits", watched)
    weights, embedded = model._embed_classes(task.A.astype(np.float32))
    classes = weights, embedded.tile(2000, 1)  # 50,000 of them
    model._scores(model._scale_features(task.X_unseen[:3]), classes, np.full(len(classes), -1))
    assert max(largest) <= rn.PAIR_VALUES


def test_both_halves_of_the_joint_layer_start_with_its_spread(monkeypatch):
    monkeypatch.setattr("firstsight.methods._gradient_training.train", lambda *args, **settings: [])
    model = RN(embedding_dim=60, relation_hidden=500, random_state=0).fit(np.eye(20), [0, 1] * 10)
    for name in ("relation.description", "relation.feature"):
        assert np.abs(model.weights_[name]).max() == pytest.approx(80**-0.5, rel=0.01)


def test_training_starts_at_the_best_constant_answer(task, monkeypatch):
    """With g constant, the share 1/m of pairs that belong together asks for g = 1/m, and for 1/2 once balanced."""
    monkeypatch.setattr("firstsight.methods._gradient_training.train", lambda *args, **settings: [])
    for balance, constant in ((0, 1 / 20), (1, 1 / 2)):
        model = RN(**SMALL, balance=balance).fit(task.X, task.y, task.table)  # 20 seen classes, batches of 32
        assert 1 / (1 + np.exp(-model.weights_["output.bias"][0])) == pytest.approx(constant)


def test_the_scale_of_descriptions_does_not_matter(task):
    scores = [
        RN(**SMALL, attribute_scaling=None, epochs=2)
        .fit(task.X, task.y, scale * task.table)
        .decision_function(task.X_unseen)
        for scale in (1, 8)
    ]
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-3, atol=1e-3)


def test_unseen_classes_are_recognised(task):
    model = RN(**SMALL, epochs=30).fit(task.X, task.y, task.table)
    assert mean_class_accuracy(task.y_unseen, model.predict(task.X_unseen, classes=task.unseen)) > 0.6
