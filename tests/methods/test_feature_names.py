"""Features are matched by name wherever both sides have names; by position, with a check of the width, elsewhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from firstsight.errors import BadInput
from firstsight.evaluation.calibration import calibrate
from firstsight.evaluation.scorers import t1_scorer
from firstsight.methods import ESZSL, QFSL, KernelPrototypes
from firstsight.persistence.model_folder import load, save
from firstsight.recognition import Recognizer, fit


def named(X):
    return pd.DataFrame(X, columns=[f"f{n}" for n in range(X.shape[1])])


def shuffled(table):
    return table[table.columns[np.random.default_rng(1).permutation(table.shape[1])]]


@pytest.fixture(scope="module")
def model(task):
    return ESZSL().fit(named(task.X), task.y, task.table)


def test_a_fit_on_a_table_stores_its_columns_as_scikit_learn_does(task, model):
    assert model.n_features_in_ == task.X.shape[1]
    assert model.feature_names_in_.dtype == object
    assert model.feature_names_in_.tolist() == [f"f{n}" for n in range(task.X.shape[1])]
    with pytest.raises(BadInput, match="two columns 'f1'; give every feature its own name"):
        ESZSL().fit(named(task.X).rename(columns={"f0": "f1"}), task.y, task.table)
    again = ESZSL().fit(named(task.X), task.y, task.table).fit(task.X, task.y, task.table)
    assert not hasattr(again, "feature_names_in_")


def test_columns_in_any_order_give_the_same_answers(task, model):
    table, other = named(task.X_unseen), shuffled(named(task.X_unseen))
    expected = model.decision_function(task.X_unseen)
    assert not np.array_equal(model.decision_function(other.to_numpy()), expected)  # the order matters to an array
    for X in (table, other):
        np.testing.assert_array_equal(model.decision_function(X), expected)
        np.testing.assert_array_equal(model.predict(X), model.predict(task.X_unseen))
        np.testing.assert_array_equal(model.top_k(X, 3)[0], model.top_k(task.X_unseen, 3)[0])
        assert t1_scorer(model, X, task.y_unseen) == t1_scorer(model, task.X_unseen, task.y_unseen)


def test_confidence_embeddings_and_the_recognizer_match_names_too(small):
    names = tuple(f"f{n}" for n in range(small.features.shape[1]))
    data = replace(small, feature_names=names)
    model = fit(KernelPrototypes(**KernelPrototypes.quick), data).model
    assert model.feature_names_in_.tolist() == list(names)
    rows = small.features[small.test_unseen]
    turned = data.features[:, ::-1]
    expected = calibrate(model, data, 2)
    model.calibration_ = calibrate(model, replace(data, features=turned, feature_names=names[::-1]), 2)
    assert model.calibration_.spread == pytest.approx(expected.spread)
    other = shuffled(named(rows))
    np.testing.assert_array_equal(model.predict_proba(other), model.predict_proba(rows))
    np.testing.assert_array_equal(model.embed(other), model.embed(rows))
    recognise = Recognizer(model)
    for asked, known in (
        (recognise.predict(other), recognise.predict(rows)),
        (recognise.predict(other, why=True), recognise.predict(rows, why=True)),
    ):
        assert asked.best == known.best
        np.testing.assert_array_equal(asked.distance, known.distance)  # to the training samples
        assert asked.why == known.why


def test_the_unlabelled_samples_of_a_fit_are_matched_too(task):
    def scores(pool):
        model = QFSL(**{**QFSL.quick, "random_state": 0})
        return model.fit(named(task.X), task.y, task.table, X_unlabeled=pool).decision_function(task.X_unseen)

    pool = named(task.X_unseen)
    np.testing.assert_array_equal(scores(shuffled(pool)), scores(pool))


def test_names_survive_the_model_folder(task, model, tmp_path):
    save(model, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.feature_names_in_.dtype == object
    other = shuffled(named(task.X_unseen))
    np.testing.assert_array_equal(loaded.predict(other), model.predict(task.X_unseen))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda X: X.rename(columns={"f3": "F_3"}), ["lacks 'f3'", "has 'F_3'", "did you mean 'f3'?"]),
        (lambda X: X.drop(columns="f0"), ["lacks 'f0'", "one column per feature"]),
        (lambda X: X.drop(columns="f0").assign(id=range(len(X))), ["lacks 'f0'", "has 'id'"]),
        (lambda X: X.assign(id=range(len(X))), ["has 'id'", "remove it", "`sample`"]),
        (lambda X: X.assign(id="a text"), ["has 'id'", "remove it"]),
        (lambda X: X.set_axis(["f1", *X.columns[1:]], axis=1), ["lacks 'f0'", "repeats 'f1'"]),
    ],
)
def test_other_columns_are_an_error_that_names_them(task, model, change, words):
    X = change(named(task.X_unseen))
    for ask in (model.predict, model.decision_function, Recognizer(model).predict):
        with pytest.raises(BadInput) as error:
            ask(X)
        assert all(word in str(error.value) for word in words), error.value


def test_without_names_columns_are_taken_by_position_and_counted(task, model):
    expected = model.predict(task.X_unseen)
    # pandas calls the columns of an array 0, 1, 2, …, and a file has these as text: they are positions, not names.
    for columns in (range(task.X.shape[1]), map(str, range(task.X.shape[1]))):
        np.testing.assert_array_equal(model.predict(pd.DataFrame(task.X_unseen, columns=list(columns))), expected)
    for ask in (model.predict, Recognizer(model).predict):
        with pytest.raises(BadInput, match=f"{task.X.shape[1]}"):
            ask(task.X_unseen[:, 1:])


def test_a_model_without_names_says_that_it_cannot_match(task):
    model = ESZSL().fit(task.X, task.y, task.table)
    with pytest.warns(UserWarning, match="was fitted without feature names"):
        np.testing.assert_array_equal(model.predict(named(task.X_unseen)), model.predict(task.X_unseen))
