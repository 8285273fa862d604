from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from firstsight.errors import BadInput, NotCalibrated, StaleCheckpoint
from firstsight.evaluation import fit_on
from firstsight.evaluation.calibration import calibrate
from firstsight.methods import ESZSL, SJE, DeepEmbedding, TransductiveDeepEmbedding, _scoring, all_methods
from firstsight.persistence.class_table import add_classes
from firstsight.persistence.model_folder import load, save
from firstsight.recognition import Recognizer

NAMES = ["fur", "horns", "legs", "wings", "tail", "size", "colour", "speed", "weight", "age"]


@pytest.fixture(scope="module")
def table(task) -> pd.DataFrame:
    return task.table.set_axis(NAMES, axis="columns")


@pytest.fixture(scope="module")
def named(task, table):
    return ESZSL(feature_penalty=0.002).fit(task.X, task.y, table)


# Names of attributes ----------------------------------------------------------------------------------------


def test_a_fit_keeps_the_names_of_its_attributes(named, task):
    assert named.attribute_names_in_.tolist() == NAMES
    assert not hasattr(ESZSL().fit(task.X, task.y, task.table), "attribute_names_in_")  # numbered columns
    codes = pd.Index(task.table.index).get_indexer(task.y)
    assert not hasattr(ESZSL().fit(task.X, codes, task.A), "attribute_names_in_")
    assert not hasattr(ESZSL().fit(task.X, task.y), "attribute_names_in_")


def test_a_refused_fit_keeps_the_names_and_an_unnamed_one_forgets_them(task, table):
    model = ESZSL().fit(task.X, task.y, table)
    with pytest.raises(BadInput):
        model.fit(task.X, task.y, task.table.iloc[:3])
    assert model.attribute_names_in_.tolist() == NAMES
    model.fit(task.X, task.y, task.table)
    assert not hasattr(model, "attribute_names_in_")
    model.predict(task.X, classes=table[NAMES[::-1]])  # without names to go by, places count, as in scikit-learn


@pytest.mark.parametrize("columns", [NAMES[::-1], sorted(NAMES)])
def test_whatever_the_order_of_columns_the_answers_are_the_same(named, task, table, columns, tmp_path):
    shuffled = table.loc[task.unseen, columns]
    expected = named.decision_function(task.X_unseen, classes=list(task.unseen))
    for model in (named, _saved_and_loaded(named, tmp_path)):
        np.testing.assert_array_equal(model.decision_function(task.X_unseen, classes=shuffled), expected)
        assert (model.predict(task.X_unseen, shuffled) == model.predict(task.X_unseen, list(task.unseen))).all()
        assert model.score(task.X_unseen, task.y_unseen, shuffled) > 0.6
        more = add_classes(model, shuffled.rename(index="new {}".format))
        np.testing.assert_array_equal(more.descriptions_[-5:], model.descriptions_[-5:])


def _saved_and_loaded(model, folder):
    save(model, folder / "model")
    loaded = load(folder / "model")
    assert isinstance(loaded.attribute_names_in_, np.ndarray)
    return loaded


def test_places_in_the_joint_space_go_by_name_too(task, table):
    model = DeepEmbedding(**{**DeepEmbedding.quick, "iterations": 1, "separation": 1e4}).fit(task.X, task.y, table)
    np.testing.assert_array_equal(model.embed_classes(table[NAMES[::-1]]), model.embed_classes())


def test_a_table_without_names_is_taken_by_position(named, task, table):
    expected = named.decision_function(task.X_unseen, classes=table)
    for columns in (range(10), [str(m) for m in range(10)]):
        unnamed = table.set_axis(columns, axis="columns")
        np.testing.assert_array_equal(named.decision_function(task.X_unseen, classes=unnamed), expected)


def test_numbers_as_names_are_names(task):
    names = [str(9 - m) for m in range(10)]
    table = task.table.set_axis(names, axis="columns")
    model = ESZSL().fit(task.X, task.y, table)
    expected = model.decision_function(task.X_unseen)
    np.testing.assert_array_equal(model.decision_function(task.X_unseen, classes=table[sorted(names)]), expected)


REFUSED = {
    r"10 attributes, but `classes` has 9 columns and lacks 'tail';": lambda t: t.drop(columns="tail"),
    r"lacks 'wings' and has 'wing', which the model does not know \(did you mean 'wings'\?\)": lambda t: t.rename(
        columns={"wings": "wing"}
    ),
    r"has 'zebra', which the model does not know;": lambda t: t.assign(zebra=1.0),
    r"lacks 'horns' and repeats 'fur'": lambda t: t.set_axis(["fur", "fur", *NAMES[2:]], axis="columns"),
}


@pytest.mark.parametrize("said", REFUSED)
def test_other_attributes_are_refused_with_the_nearest_name(named, task, table, said):
    other = REFUSED[said](table.loc[task.unseen])
    for ask in (named.predict, named.decision_function):
        with pytest.raises(BadInput, match=said) as caught:
            ask(task.X_unseen, classes=other)
        assert "\n" not in str(caught.value)
    with pytest.raises(BadInput, match=said):
        add_classes(named, other.rename(index="new {}".format))


# What a method tells of itself ------------------------------------------------------------------------------


@pytest.mark.parametrize("word", list(all_methods()))
def test_resolved_parameters_leave_nothing_to_a_preset_and_hold_no_seed(word):
    cls = all_methods()[word]
    resolved = cls().resolved_parameters()
    assert set(resolved) == set(cls._get_param_names()) - {*cls.non_result_params, "precision"}  # told if it is another
    if cls.presets:
        chosen = cls.presets[cls().preset]
        assert {name: resolved[name] for name in chosen if name in resolved} == {
            name: value for name, value in chosen.items() if name in resolved
        }
    else:
        assert resolved == {name: value for name, value in cls().get_params().items() if name in resolved}


def test_what_is_given_goes_before_the_preset():
    resolved = DeepEmbedding(preset="paper", penalty=7.0).resolved_parameters()
    assert (resolved["penalty"], resolved["separation"]) == (7.0, DeepEmbedding.presets["paper"]["separation"])


@pytest.mark.filterwarnings("ignore:The embedding has collapsed")
@pytest.mark.parametrize(("separation", "collapsed"), [(0.0, True), (300.0, False)])
def test_diagnostics_say_whether_an_embedding_collapsed_also_once_loaded(task, separation, collapsed, tmp_path):
    settings = {**DeepEmbedding.quick, "separation": separation, "stop_below": 0}
    model = DeepEmbedding(**settings, random_state=0)
    model.fit(task.X, task.y, task.table)
    save(model, tmp_path / "model")
    for told in (model.diagnostics_, load(tmp_path / "model").diagnostics_):
        assert told["collapsed"] is collapsed
        assert len(told["history"]) == DeepEmbedding.quick["iterations"]
        assert "rounds" not in told


def test_diagnostics_of_a_transductive_fit_tell_its_rounds(task):
    model = TransductiveDeepEmbedding(**TransductiveDeepEmbedding.quick, random_state=0)
    model.fit(task.X, task.y, task.table, X_unlabeled=task.pool)
    assert [told["round"] for told in model.diagnostics_["rounds"]] == [1, 2, 3]


def test_a_method_without_history_has_nothing_to_tell_but_that_it_has_not_collapsed(named):
    assert named.diagnostics_ == {"collapsed": False}
    with pytest.raises(ValueError, match="not fitted"):
        _ = ESZSL().diagnostics_


# Many classes -----------------------------------------------------------------------------------------------


def test_very_many_classes_are_ranked_in_blocks_with_the_answers_of_all_at_once(calibrated, small, monkeypatch):
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.uniform(size=(2500, 6)), columns=calibrated.attribute_names_in_)
    table.iloc[2400] = table.iloc[7]  # equal scores in two blocks
    table.index = [f"class {number}" for number in range(2500)]
    table = pd.concat([small.descriptions.iloc[:3], table])
    X = small.part("test_unseen")[0][:40]
    whole = calibrated.decision_function(X, classes=table)
    order = np.argsort(-whole, axis=1, kind="stable")[:, :4]
    sizes, scores_of = [], type(calibrated)._scores

    def measured(self, X, E, seen):
        sizes.append((len(X), len(seen)))
        return scores_of(self, X, E, seen)

    monkeypatch.setattr(type(calibrated), "_scores", measured)
    monkeypatch.setattr(_scoring, "CLASS_BYTES", 0)  # the least: 1024 candidates at a time
    names, scores = calibrated.top_k(X, 4, classes=table)
    assert {k for _, k in sizes} == {1024, 2503 - 2048}
    np.testing.assert_array_equal(names, table.index.to_numpy()[order])
    np.testing.assert_allclose(scores, np.take_along_axis(whole, order, axis=1), rtol=1e-6)
    np.testing.assert_array_equal(calibrated.predict(X, classes=table), names[:, 0])
    np.testing.assert_allclose(calibrated.decision_function(X, classes=table), whole, rtol=1e-6, atol=1e-6)
    answers = Recognizer(calibrated).predict(X, 4, classes=table, reject_share=0.05)
    np.testing.assert_array_equal(answers.classes, names)
    sure = calibrated.predict_proba(X, classes=table)
    novelty = calibrated.calibration_.novelty
    factor = novelty.confidence_factor(novelty.distance(X))[:, None]
    np.testing.assert_allclose(answers.confidence, np.take_along_axis(sure, order, axis=1) * factor, rtol=1e-5)


def test_no_more_classes_are_ranked_than_there_are(named, task):
    names, scores = named.top_k(task.X[:3], 10**6)
    assert names.shape == scores.shape == (3, len(named.classes_))
    with pytest.raises(BadInput, match="`k` must be at least 1, but is 0"):
        named.top_k(task.X, 0)


# Probabilities and scores -----------------------------------------------------------------------------------


def test_an_uncalibrated_model_has_no_probabilities_and_says_so(named, task):
    assert not hasattr(named, "predict_proba")  # what scikit-learn asks
    with pytest.raises(NotCalibrated, match=r"This ESZSL has not been calibrated.*decision_function") as caught:
        named.predict_proba(task.X)
    assert isinstance(caught.value, BadInput)


def test_probabilities_are_the_calibrations_confidence_in_any_candidates(small):
    model = fit_on(ESZSL(feature_penalty=0.02), small)
    model.calibration_ = calibrate(model, small)
    X = small.part("test_unseen")[0]
    for classes in (None, list(small.unseen_classes), small.descriptions.iloc[:5].rename(index="new {}".format)):
        found = model.predict_proba(X, classes=classes)
        scores, seen = model.decision_function(X, classes=classes), model.candidates(classes)[2] >= 0
        np.testing.assert_array_equal(found, model.calibration_.confidence(model, X, scores, seen))
        np.testing.assert_allclose(found.sum(axis=1), 1)
        np.testing.assert_array_equal(found.argmax(axis=1), scores.argmax(axis=1))
    fit_on(model, small)
    assert not hasattr(model, "predict_proba")  # a calibration belongs to the fit that it was measured on


def test_two_classes_without_descriptions_have_a_column_each():
    class Halves:
        def confidence(self, model, X, scores, seen):
            assert scores.shape == (len(X), 2)
            assert seen.all()
            return np.full(scores.shape, 0.5)

    model = ESZSL().fit([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
    model.calibration_ = Halves()
    assert model.predict_proba([[0.0, 1.0]]).tolist() == [[0.5, 0.5]]


def test_score_is_the_share_of_rows_named_right_among_the_candidates(named, task):
    for classes in (None, list(task.unseen)):
        right = named.predict(task.X_unseen, classes) == task.y_unseen
        assert named.score(task.X_unseen, task.y_unseen, classes) == right.mean()
    weights = np.arange(len(right))
    found = named.score(task.X_unseen, task.y_unseen, classes, sample_weight=weights)
    assert found == pytest.approx(np.average(right, weights=weights))


def test_a_checkpoint_of_another_fit_or_none_at_all_is_stale(task, tmp_path):
    quick = {**DeepEmbedding.quick, "iterations": 2, "separation": 1e4}
    path = tmp_path / "fit.safetensors"
    DeepEmbedding(**quick, checkpoint=path, random_state=0).fit(task.X, task.y, task.table)
    for spoil, said in ((lambda: None, "other data or parameters"), (lambda: path.write_text("?"), "not a readable")):
        spoil()
        with pytest.raises(StaleCheckpoint, match=said) as caught:
            DeepEmbedding(**quick, checkpoint=path, random_state=1).fit(task.X, task.y, task.table)
        assert caught.value.path == path


# Numbers that cannot be computed with -------------------------------------------------------------------------


def test_scores_that_are_not_finite_are_refused_and_the_model_stays(task):
    model = DeepEmbedding(iterations=5, random_state=0, separation=1e4).fit(task.X, task.y, task.table)
    before = model.decision_function(task.X)
    expected = r"DeepEmbedding cannot compute with these numbers, which reach 1e\+30: .* usual scale"
    for ask in (model.predict, model.decision_function):
        with pytest.raises(BadInput, match=expected):
            ask(np.full((2, task.X.shape[1]), 1e30))
    np.testing.assert_array_equal(model.decision_function(task.X), before)


def test_a_fit_that_is_not_finite_is_refused_and_the_estimator_stays_as_it_was(task):
    model = DeepEmbedding(iterations=1, feature_length=0, random_state=0)
    with pytest.raises(BadInput, match="no longer finite"):
        model.fit(task.X * 1e30, task.y, task.table)
    assert not hasattr(model, "classes_")


def test_a_bug_in_a_method_keeps_its_own_exception(task):
    class Broken(ESZSL):
        def _scores(self, X, E, seen):
            raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug") as caught:
        Broken().fit(task.X, task.y, task.table).predict(task.X)
    assert not isinstance(caught.value, BadInput)


@pytest.mark.parametrize(
    ("method", "parameters"),
    [(ESZSL, {"feature_penalty": 1e308}), (SJE, {"margin": 10**20}), (SJE, {"batch_size": 10**20, "epochs": 1})],
)
def test_a_parameter_too_large_to_compute_with_is_named(task, method, parameters):
    with pytest.raises(BadInput, match=f"cannot compute with {next(iter(parameters))}="):
        method(**parameters).fit(task.X, task.y, task.table)
