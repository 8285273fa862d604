from __future__ import annotations

import math

import numpy as np
import pytest

from firstsight.evaluation import evaluate, harmonic_mean, mean_class_accuracy
from firstsight.methods import QFSL
from firstsight.methods._gradient_training import make_generator, train
from firstsight.methods.qfsl import unseen_loss

pytest.importorskip("torch")

import torch
from torch.nn.functional import cross_entropy

PLAIN = {"feature_scaling": None, "attribute_scaling": None, "random_state": 0}


def test_the_pool_term_is_the_log_of_the_unseen_probabilities():
    logits = torch.randn(7, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = 0.0
    for row in logits.tolist():
        p = [math.exp(value) / sum(math.exp(v) for v in row) for value in row]
        expected -= math.log(sum(p[3:])) / 7  # classes 3 and 4 are unseen
    assert unseen_loss(logits, 3).item() == pytest.approx(expected)


@pytest.mark.parametrize("weight", [0.0, 0.7])
def test_the_first_loss_is_that_of_even_odds(task, weight):
    # W starts at zero: every class has probability 1/25, the unseen ones 5/25 together.
    model = QFSL(pool_weight=weight, warm_up=0, epochs=1, batch_size=10_000, random_state=0)
    model.fit(task.X, task.y, task.table, X_unlabeled=task.X_unseen)
    assert model.history_ == pytest.approx([math.log(25) + weight * math.log(5)], rel=1e-5)


def test_the_warm_up_knows_seen_classes_and_labelled_rows_only(task):
    def warm(pool, **more):
        model = QFSL(warm_up=2, epochs=1, batch_size=10_000, random_state=0, **more)
        return model.fit(task.X, task.y, task.table, X_unlabeled=pool).history_

    first, second, with_pool = warm(task.X_unseen)
    assert first == pytest.approx(math.log(20), rel=1e-5)  # even odds among the 20 seen classes
    assert warm(task.X_unseen[::-1] * 3, pool_weight=5.0)[:2] == [first, second]
    assert with_pool > second  # five more classes, and the pool


def test_without_pool_weight_it_is_a_plain_softmax_over_all_classes(task):
    model = QFSL(pool_weight=0.0, warm_up=0, epochs=3, **PLAIN).fit(
        task.X, task.y, task.table, X_unlabeled=task.X_unseen
    )
    first_seen = list(dict.fromkeys(task.y))  # codes follow the first appearance in y
    A = torch.tensor(task.table.loc[[*first_seen, *task.unseen]].to_numpy(), dtype=torch.float32)
    X, y = torch.from_numpy(task.X), torch.tensor([first_seen.index(name) for name in task.y])
    W, b = torch.zeros(16, 10), torch.zeros(10)
    train(
        [W, b],
        lambda batch: cross_entropy((X[batch] @ W + b) @ A.T, y[batch]),
        len(X),
        epochs=3,
        batch_size=64,
        learning_rate=1e-3,
        generator=make_generator(0),
    )
    np.testing.assert_allclose(model.weights_["weight"], W.detach().numpy(), atol=1e-5)
    np.testing.assert_allclose(model.weights_["bias"], b.detach().numpy(), atol=1e-5)


def test_without_unseen_classes_it_is_an_ordinary_classifier(task):
    model = QFSL(learning_rate=0.1, random_state=0).fit(task.X, task.y)
    assert model.score(task.X_seen, task.y_seen) > 0.9


def test_rows_known_to_be_unseen_lift_h_above_the_inductive_start(task):
    def h(weight):
        model = QFSL(pool_weight=weight, learning_rate=0.1, random_state=0)
        model.fit(task.X, task.y, task.table, X_unlabeled=task.X_unseen)
        ts = mean_class_accuracy(task.y_unseen, model.predict(task.X_unseen))
        return harmonic_mean(ts, mean_class_accuracy(task.y_seen, model.predict(task.X_seen)))

    assert h(0.2) > h(0.0) + 0.2


def test_the_extra_supervision_is_declared():
    assert "known to belong to unseen classes" in QFSL.extra_supervision


def test_evaluation_gives_it_the_unseen_rows_in_both_settings(small):
    result = evaluate(QFSL(epochs=1, random_state=0), small)
    zsl, gzsl = result.models["zsl"], result.models["gzsl"]
    assert (zsl.setting, gzsl.setting) == ("zsl", "gzsl")
    np.testing.assert_array_equal(zsl.weights_["weight"], gzsl.weights_["weight"])
