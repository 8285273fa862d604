from __future__ import annotations

import math

import numpy as np
import pytest

from firstsight.errors import BadInput
from firstsight.evaluation import mean_class_accuracy
from firstsight.methods import DeepEmbedding, TransductiveDeepEmbedding
from firstsight.methods.deep_embedding import PRESETS
from firstsight.methods.deep_embedding.alternating import AlternatingTraining
from firstsight.methods.transductive_deep_embedding import select_nearest

QUICK = {"embedding_dim": 32, "learning_rate": 1e-2, "iterations": 10, "semantic_steps": 20, "random_state": 0}
ROUNDS = {**QUICK, "rounds": 4, "round_iterations": 3}


def fit(task, pool=None, table=None, **parameters):
    model = TransductiveDeepEmbedding(**{**ROUNDS, **parameters})
    return model.fit(
        task.X, task.y, task.table if table is None else table, X_unlabeled=task.pool if pool is None else pool
    )


@pytest.fixture(scope="module")
def fitted(task):
    return fit(task)


def test_the_first_round_is_the_inductive_method(task):
    inductive = DeepEmbedding(**QUICK).fit(task.X, task.y, task.table)
    one_round = fit(task, rounds=1)
    for name, weight in inductive.weights_.items():
        assert np.array_equal(weight, one_round.weights_[name])


@pytest.mark.parametrize("selection", [5, 0.25])
@pytest.mark.parametrize("setting", ["gzsl", "zsl"])
def test_selections_follow_algorithm_2_round_by_round(task, monkeypatch, selection, setting):
    """Before every round the weights are looked at and the selection is made again, in plain Python."""
    pool = task.pool if setting == "gzsl" else task.X_unseen
    model = TransductiveDeepEmbedding(**ROUNDS, selection=selection, setting=setting)
    expected, trained_on = [], []
    # In training, rows are of the length that the preset says; λ, η and the learning rate mean the same on any data.
    longer = PRESETS["validated"]["feature_length"] / np.sqrt(np.mean([row @ row for row in task.X]))
    original = AlternatingTraining.run

    def watch(training, rows, y, A, iterations):
        if training.round > 1:
            w = {k: v.detach().numpy() for k, v in training.net.weights.items()}
            phi = np.maximum(longer * pool @ w["visual.weight"].T + w["visual.bias"], 0)
            hidden = np.maximum(A.numpy() @ w["semantic.0.weight"].T + w["semantic.0.bias"], 0)
            psi = np.maximum(hidden @ w["semantic.1.weight"].T + w["semantic.1.bias"], 0)
            chosen = {}
            nearest = []
            for i, p in enumerate(phi):
                allowed = range(20, 25) if setting == "zsl" else range(25)
                distances = {c: float(((p - psi[c]) ** 2).sum()) for c in allowed}
                best = min(distances, key=distances.get)
                nearest.append((best, distances[best], i))
            unseen = [best for best, _, _ in nearest if best >= 20]
            for c in range(20, 25):
                mine = sorted((gap, i) for best, gap, i in nearest if best == c)
                finished = training.round - 1
                m = selection * finished if selection >= 1 else math.ceil(selection * finished * len(unseen) / 5)
                chosen |= {i: c for _, i in mine[:m]}
            expected.append(chosen)
            trained_on.append((len(task.X), y.tolist()))
        original(training, rows, y, A, iterations)

    monkeypatch.setattr(AlternatingTraining, "run", watch)
    model.fit(task.X, task.y, task.table, X_unlabeled=pool)
    assert len(expected) == 3
    assert not model.selected_[0].any()
    for r, (chosen, (n, targets)) in enumerate(zip(expected, trained_on, strict=True), start=1):
        assert np.flatnonzero(model.selected_[r]).tolist() == sorted(chosen)
        assert targets[n:] == [chosen[i] for i in sorted(chosen)]  # never accumulated: only this round's
        assert model.rounds_[r] == {
            "round": r + 1,
            "selected": len(chosen),
            "classes": len(set(chosen.values())),
        }
    assert sum(map(len, expected)) > 30


def test_m_grows_with_the_round_and_stops_at_what_was_predicted():
    labels = np.array([0, 1, 1, 1, 1, 2, 0, 1])
    gaps = np.array([0.0, 5.0, 1.0, 3.0, 2.0, 9.0, 0.0, 1.0])
    assert np.flatnonzero(select_nearest(labels, gaps, 1, 3, 2, 1)).tolist() == [2, 5, 7]
    assert np.flatnonzero(select_nearest(labels, gaps, 1, 3, 2, 2)).tolist() == [2, 3, 4, 5, 7]
    assert np.flatnonzero(select_nearest(labels, gaps, 1, 3, 40, 1)).tolist() == [1, 2, 3, 4, 5, 7]


def test_a_fraction_is_one_of_the_mean_class_so_that_no_class_teaches_itself_to_grow():
    labels = np.array([1] * 9 + [2] * 3)  # classes 1 and 2 are unseen; the mean is 6 rows
    gaps = np.arange(12.0)
    for finished, m in ((1, 2), (2, 3), (3, 5), (9, 14)):  # ⌈0.25 · finished · 6⌉
        taken = np.flatnonzero(select_nearest(labels, gaps, 1, 3, 0.25, finished)).tolist()
        assert taken == [*range(min(m, 9)), *range(9, 9 + min(m, 3))]


def test_the_pool_helps_unseen_classes_among_all_classes(task, fitted):
    inductive = DeepEmbedding(**QUICK).fit(task.X, task.y, task.table)
    before = mean_class_accuracy(task.y_unseen, inductive.predict(task.X_unseen))
    assert mean_class_accuracy(task.y_unseen, fitted.predict(task.X_unseen)) > before + 0.1


def test_nothing_tells_which_pool_rows_are_unseen(task, fitted):
    """The only things that reach the fit are the pool's features; their order plays no part."""
    order = np.random.default_rng(0).permutation(len(task.pool))
    shuffled = fit(task, pool=task.pool[order])
    assert np.array_equal(shuffled.selected_[1], fitted.selected_[1][order])
    assert np.array_equal(shuffled.pool_predictions_[0], fitted.pool_predictions_[0][order])


def test_pool_predictions_name_the_classes_that_predict_names(task, fitted):
    last = fitted.classes_[fitted.pool_predictions_[-1]]
    assert np.array_equal(last, fitted.predict(task.pool))
    conventional = fit(task, pool=task.X_unseen, setting="zsl")
    last = conventional.classes_[conventional.pool_predictions_[-1]]
    assert np.array_equal(last, conventional.predict(task.X_unseen, classes=task.unseen))


def test_renaming_and_permuting_classes_changes_nothing_but_the_names(task, fitted):
    rename = {name: f"n{i}" for i, name in enumerate(reversed(task.table.index))}
    table = task.table.rename(index=rename).sample(frac=1, random_state=1)
    model = TransductiveDeepEmbedding(**ROUNDS)
    model.fit(task.X, [rename[n] for n in task.y], table, X_unlabeled=task.pool)
    assert np.array_equal(model.predict(task.pool), [rename[n] for n in fitted.predict(task.pool)])
    assert np.array_equal(model.weights_["visual.weight"], fitted.weights_["visual.weight"])


def test_descriptions_without_a_pool_and_a_pool_without_unseen_classes_are_refused(task):
    with pytest.raises(BadInput, match="X_unlabeled"):
        TransductiveDeepEmbedding(**ROUNDS).fit(task.X, task.y, task.table)
    with pytest.raises(BadInput, match="at least one class without"):
        fit(task, table=task.table.loc[task.seen])


class Killed(Exception):
    pass


@pytest.mark.parametrize("die_at", [-3, 0, 1, 3, 9])  # iterations after the pass that ends the first round
def test_a_fit_that_goes_on_from_its_checkpoint_ends_with_the_same_model(task, fitted, tmp_path, monkeypatch, die_at):
    from firstsight.methods.deep_embedding import alternating as checkpoint

    original, first = checkpoint.Checkpoint.save, sum(h["round"] == 1 for h in fitted.history_)
    assert first < ROUNDS["iterations"]

    def save_and_die(self, tensors, facts):
        original(self, tensors, facts)
        if facts["done"] == first + die_at:
            raise Killed

    monkeypatch.setattr(checkpoint.Checkpoint, "is_due", lambda self: True)
    monkeypatch.setattr(checkpoint.Checkpoint, "save", save_and_die)
    with pytest.raises(Killed):
        fit(task, checkpoint=str(tmp_path / "state"))
    monkeypatch.setattr(checkpoint.Checkpoint, "save", original)
    model = fit(task, checkpoint=str(tmp_path / "state"))
    for name, weight in fitted.weights_.items():
        assert np.array_equal(weight, model.weights_[name])
    assert np.array_equal(fitted.selected_, model.selected_)
    assert np.array_equal(fitted.pool_predictions_, model.pool_predictions_)
    assert [h["loss"] for h in fitted.history_] == [h["loss"] for h in model.history_]


def test_recorded_parameters_leave_out_what_does_not_change_results():
    made = TransductiveDeepEmbedding(rounds=3, random_state=3, checkpoint="here", setting="zsl")
    recorded = made.resolved_parameters()
    assert recorded["rounds"] == 3
    assert not {"verbose", "checkpoint", "random_state", "setting"} & set(recorded)
