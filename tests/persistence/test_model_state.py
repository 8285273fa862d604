from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, MinMaxScaler, Normalizer, StandardScaler

import firstsight
from firstsight.contract import Trial
from firstsight.errors import BadInput, UnreadableFile
from firstsight.evaluation import fit_on, scores_of
from firstsight.methods import ESZSL, all_methods
from firstsight.persistence.model_folder import load, load_pipeline, load_saved, save
from firstsight.persistence.model_state import ArraysDoNotMatch, restore_model, split_model


@pytest.fixture(scope="module")
def pipeline(small):
    steps = (MaxAbsScaler(), MinMaxScaler(), StandardScaler(), PCA(8, random_state=0), Normalizer())
    return fit_on(make_pipeline(*steps, ESZSL()), small)


def test_a_saved_pipeline_gives_bitwise_the_same_scores(pipeline, small, tmp_path):
    save(pipeline, tmp_path / "model")
    back = load_pipeline(tmp_path / "model")
    assert [name for name, _ in back.steps] == [name for name, _ in pipeline.steps]
    X, table = small.features[small.test_unseen], small.descriptions.loc[small.unseen_classes]
    for classes in (small.class_names, small.unseen_classes, table[table.columns[::-1]]):
        np.testing.assert_array_equal(scores_of(back, X, classes), scores_of(pipeline, X, classes))
        np.testing.assert_array_equal(back.predict(X, classes=classes), pipeline.predict(X, classes=classes))
    assert firstsight.load_pipeline is load_pipeline


def test_the_method_of_a_pipeline_is_not_read_alone(pipeline, tmp_path):
    save(pipeline, tmp_path / "model")
    for read in (load, load_saved, firstsight.Recognizer.load):
        with pytest.raises(BadInput, match="holds a pipeline that ends in ESZSL; read it with load_pipeline"):
            read(tmp_path / "model")


def test_a_method_alone_is_no_pipeline(small, tmp_path):
    save(fit_on(ESZSL(), small), tmp_path / "model")
    with pytest.raises(BadInput, match=r"no pipeline; read it with firstsight\.load"):
        load_pipeline(tmp_path / "model")


def test_a_step_that_holds_code_is_refused_and_nothing_written(small, tmp_path):
    model = fit_on(make_pipeline(FunctionTransformer(np.tanh), ESZSL()), small)
    with pytest.raises(BadInput, match="'functiontransformer' is a FunctionTransformer, which cannot be saved"):
        save(model, tmp_path / "model")
    with pytest.raises(BadInput, match="must end in a method"):
        save(make_pipeline(StandardScaler()), tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("change", [{"transformer": "Popen"}, {"values": {"__class__": 1}}, {"parameters": {"x": 1}}])
def test_a_folder_cannot_name_other_code(pipeline, tmp_path, change):
    from firstsight.persistence.model_schema import digest_of

    save(pipeline, tmp_path / "model")
    file = tmp_path / "model" / "model.json"
    about = json.loads(file.read_text())
    about["pipeline"]["before"][0] |= change
    file.write_text(json.dumps({**about, "digest": digest_of(about)}))
    with pytest.raises(UnreadableFile, match="cannot be read as a pipeline"):
        load_pipeline(tmp_path / "model")


@pytest.mark.parametrize("method", [method for method in all_methods().values() if method.fitted_arrays])
def test_arrays_are_held_to_the_shapes_that_a_method_declares(method):
    trial = Trial(method)
    arrays, values = split_model(trial.fitted)

    def restored(changed):
        return restore_model(method, trial.fitted.get_params(), values, changed, getattr(trial.fitted, "parts_", None))

    np.testing.assert_array_equal(restored(arrays).decision_function(trial.task.X_test), trial.scores)
    for key, shape in method.fitted_arrays.items():
        name, optional, _ = key.partition("?")
        if name not in arrays:
            assert optional
            continue
        if not optional:
            with pytest.raises(ArraysDoNotMatch, match=f"{name} is missing"):
                restored({other: array for other, array in arrays.items() if other != name})
        with pytest.raises(ArraysDoNotMatch, match=f"{name} is of"):
            restored({**arrays, name: arrays[name][None]})
        for axis, letter in enumerate(shape.split()):
            if letter in "da":
                with pytest.raises(ArraysDoNotMatch, match=f"{name} has shape"):
                    restored({**arrays, name: np.delete(arrays[name], 0, axis=axis)})
        with pytest.raises(ValueError, match=f"{name} holds NaN"):
            restored({**arrays, name: np.full_like(arrays[name], np.nan)})


def test_a_code_beyond_the_seen_classes_is_found():
    trial = Trial(all_methods()["gfzsl"])
    arrays, values = split_model(trial.fitted)
    with pytest.raises(ArraysDoNotMatch, match="seen_code_ reaches 25; expected less than 24"):
        restore_model(type(trial.fitted), {}, values, {**arrays, "seen_code_": arrays["seen_code_"] + 2})


def test_a_code_of_a_removed_class_beyond_the_seen_ones_is_found():
    trial = Trial(all_methods()["gfzsl"])
    arrays, values = split_model(trial.fitted)
    for codes, error in (
        ([1, 99, -1], ArraysDoNotMatch),
        ([1, 10**30, -1], ValueError),
        ([1, -1, 99], ArraysDoNotMatch),
    ):
        with pytest.raises(error):
            restore_model(type(trial.fitted), {}, {**values, "removed_classes_": [["b", *codes]]}, arrays)
