from __future__ import annotations

import numpy as np
import pytest

from firstsight.errors import BadInput, FirstsightWarning
from firstsight.evaluation import mean_class_accuracy
from firstsight.methods import DeepEmbedding
from firstsight.methods.deep_embedding import PRESETS

pytest.importorskip("torch")


QUICK = {"embedding_dim": 32, "learning_rate": 1e-2, "iterations": 10, "semantic_steps": 20, "random_state": 0}


@pytest.fixture(scope="module")
def fitted(task):
    return DeepEmbedding(**QUICK).fit(task.X, task.y, task.table)


def test_unseen_classes_are_recognised_far_above_chance(fitted, task):
    found = fitted.predict(task.X_unseen, classes=task.unseen)
    assert mean_class_accuracy(task.y_unseen, found) > 0.6  # chance is 0.2


@pytest.mark.parametrize("seed", range(3))
def test_ts_never_exceeds_t1(task, seed):
    model = DeepEmbedding(**{**QUICK, "iterations": 4, "random_state": seed}).fit(task.X, task.y, task.table)
    t1 = mean_class_accuracy(task.y_unseen, model.predict(task.X_unseen, classes=task.unseen))
    assert mean_class_accuracy(task.y_unseen, model.predict(task.X_unseen)) <= t1


def test_the_same_seed_gives_the_same_model_bit_for_bit(fitted, task):
    again = DeepEmbedding(**QUICK).fit(task.X, task.y, task.table)
    for name, weight in fitted.weights_.items():
        assert np.array_equal(weight, again.weights_[name])
    other = DeepEmbedding(**{**QUICK, "random_state": 1}).fit(task.X, task.y, task.table)
    assert not np.array_equal(fitted.weights_["visual.weight"], other.weights_["visual.weight"])


def test_renaming_classes_changes_nothing_but_the_names(fitted, task):
    rename = {name: f"z{hash(name) % 1000:03d}{i}" for i, name in enumerate(reversed(task.table.index))}
    table = task.table.rename(index=rename)
    model = DeepEmbedding(**QUICK).fit(task.X, [rename[name] for name in task.y], table)
    assert np.array_equal(model.predict(task.pool), [rename[name] for name in fitted.predict(task.pool)])
    assert np.array_equal(model.weights_["visual.weight"], fitted.weights_["visual.weight"])


def test_permuting_the_class_table_changes_nothing(fitted, task):
    model = DeepEmbedding(**QUICK).fit(task.X, task.y, task.table.sample(frac=1, random_state=3))
    assert np.array_equal(model.predict(task.pool), fitted.predict(task.pool))
    assert np.array_equal(model.weights_["visual.weight"], fitted.weights_["visual.weight"])


def test_unseen_descriptions_do_not_change_the_fit(fitted, task):
    table = task.table.copy()
    table.loc[task.unseen] = np.random.default_rng(9).uniform(size=(5, 10))
    model = DeepEmbedding(**QUICK).fit(task.X, task.y, table)
    for name, weight in fitted.weights_.items():
        assert np.array_equal(weight, model.weights_[name])


def test_a_class_described_only_at_prediction_gets_the_same_scores(fitted, task):
    without = DeepEmbedding(**QUICK).fit(task.X, task.y, task.table.loc[task.seen])
    new = without.decision_function(task.X_unseen, classes=task.table.loc[task.unseen])
    np.testing.assert_array_equal(new, fitted.decision_function(task.X_unseen, classes=task.unseen))


def test_scores_are_negative_squared_distances_in_the_joint_space(fitted, task):
    phi, psi = fitted.embed(task.X_unseen), fitted.embed_classes()
    expected = -((phi[:, None] - psi[None]) ** 2).sum(2)
    np.testing.assert_allclose(fitted.decision_function(task.X_unseen), expected, rtol=1e-3, atol=1e-3)


def test_without_separation_the_embedding_collapses_and_says_so(task):
    with pytest.warns(FirstsightWarning, match="collapsed"):
        DeepEmbedding(**{**QUICK, "separation": 0.0}).fit(task.X, task.y, task.table)


def test_the_history_has_every_iteration_and_its_losses_add_up(task):
    fitted = DeepEmbedding(**QUICK, stop_below=0).fit(task.X, task.y, task.table)
    assert [h["iteration"] for h in fitted.history_] == list(range(1, 11))
    for h in fitted.history_:
        expected = h["regression"] + fitted.settings_["separation"] * h["classification"]
        assert h["loss"] == pytest.approx(expected)
    assert fitted.history_[-1]["classification"] < 0.5 * fitted.history_[0]["classification"]


def test_training_ends_with_the_first_pass_below_the_threshold(task):
    settings = {**QUICK, "schedule": "constant"}
    whole = DeepEmbedding(**settings, stop_below=0).fit(task.X, task.y, task.table)
    losses = [h["classification"] for h in whole.history_]
    enough = next(i for i, loss in enumerate(losses) if loss < 0.5 * losses[0])
    stopped = DeepEmbedding(**settings, stop_below=0.5 * losses[0]).fit(task.X, task.y, task.table)
    assert [h["classification"] for h in stopped.history_] == losses[: enough + 1]
    assert enough + 1 < QUICK["iterations"]


@pytest.mark.filterwarnings("ignore:The embedding has collapsed, or has hardly been trained")
def test_a_given_value_wins_over_the_preset_and_none_takes_the_presets(task):
    few = task.X[:40], task.y[:40], task.table
    model = DeepEmbedding(preset="paper", embedding_dim=8, iterations=1, semantic_steps=1).fit(*few)
    assert model.settings_["embedding_dim"] == 8
    assert model.settings_["learning_rate"] == 1e-4


def test_the_papers_preset_has_the_papers_values():
    paper = PRESETS["paper"]
    stated = {"embedding_dim": 1024, "iterations": 50, "rounds": 10, "selection": 40, "learning_rate": 1e-4}
    assert {name: paper[name] for name in stated} == stated


def test_a_cosine_schedule_fades_the_learning_rate_to_nothing(task, monkeypatch):
    from firstsight.methods.deep_embedding.two_branch import TwoBranch

    rates = []
    original = TwoBranch.set_learning_rates
    monkeypatch.setattr(TwoBranch, "set_learning_rates", lambda net, *r: (rates.append(r), original(net, *r)))
    settings = {**QUICK, "schedule": "cosine", "stop_below": 0, "iterations": 4, "semantic_rate": 2}
    DeepEmbedding(**settings).fit(task.X, task.y, task.table)
    visual = 1e-2 * 0.5 * (1 + np.cos(np.pi * np.arange(4) / 4))
    np.testing.assert_allclose(rates, np.stack([visual, 2 * visual], axis=1))


def test_descriptions_scaled_by_a_constant_give_the_same_model(fitted, task):
    model = DeepEmbedding(**QUICK).fit(task.X, task.y, 100 * task.table)
    np.testing.assert_allclose(model.weights_["visual.weight"], fitted.weights_["visual.weight"], atol=1e-3)


@pytest.mark.parametrize("size", [1e-3, 1e4])
def test_the_size_of_features_does_not_matter(fitted, task, size):
    model = DeepEmbedding(**QUICK).fit(size * task.X, task.y, task.table)
    expected = fitted.decision_function(task.X_unseen)
    np.testing.assert_allclose(model.decision_function(size * task.X_unseen), expected, rtol=0.02)


def test_with_feature_length_0_rows_are_trained_on_as_they_are(task):
    same = np.sqrt(np.mean([row @ row for row in task.X]))
    as_they_are, given = (
        DeepEmbedding(**QUICK, feature_length=length).fit(task.X, task.y, task.table).decision_function(task.X_unseen)
        for length in (0, same)
    )
    np.testing.assert_allclose(as_they_are, given, rtol=0.02)
    other = DeepEmbedding(**QUICK, feature_length=3 * same).fit(task.X, task.y, task.table)
    assert not np.allclose(other.decision_function(task.X_unseen), given, rtol=0.1)


class Killed(Exception):
    pass


@pytest.mark.parametrize("die_at", [1, 4, -1])  # −1: after the pass that ends training
def test_a_fit_that_goes_on_from_its_checkpoint_ends_with_the_same_model(fitted, task, tmp_path, monkeypatch, die_at):
    from firstsight.methods.deep_embedding import alternating as checkpoint

    original, passes = checkpoint.Checkpoint.save, len(fitted.history_)

    def save_and_die(self, tensors, facts):
        original(self, tensors, facts)
        if facts["done"] == (die_at if die_at > 0 else passes):
            raise Killed

    monkeypatch.setattr(checkpoint.Checkpoint, "is_due", lambda self: True)
    monkeypatch.setattr(checkpoint.Checkpoint, "save", save_and_die)
    model = DeepEmbedding(**QUICK, checkpoint=tmp_path / "state")
    with pytest.raises(Killed):
        model.fit(task.X, task.y, task.table)
    monkeypatch.setattr(checkpoint.Checkpoint, "save", original)
    model.fit(task.X, task.y, task.table)
    for name, weight in fitted.weights_.items():
        assert np.array_equal(weight, model.weights_[name])
    assert len(model.history_) == passes < QUICK["iterations"]


def test_the_checkpoint_of_another_fit_is_refused_and_kept(task, tmp_path):
    path = tmp_path / "state"
    DeepEmbedding(**QUICK, checkpoint=path).fit(task.X, task.y, task.table)
    before = path.read_bytes()
    for change in ({"separation": 50.0}, {"random_state": 5}):
        with pytest.raises(BadInput, match="other data or parameters"):
            DeepEmbedding(**{**QUICK, **change}, checkpoint=path).fit(task.X, task.y, task.table)
    with pytest.raises(BadInput, match="other data or parameters"):
        DeepEmbedding(**QUICK, checkpoint=path).fit(task.X + 1, task.y, task.table)
    assert path.read_bytes() == before


def test_a_damaged_checkpoint_is_refused_in_one_sentence(task, tmp_path):
    path = tmp_path / "state"
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(BadInput, match="delete it to start this fit again"):
        DeepEmbedding(**QUICK, checkpoint=path).fit(task.X, task.y, task.table)
