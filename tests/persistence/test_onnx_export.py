from __future__ import annotations

import json
import sys

import numpy as np
import pandas as pd
import pytest

from firstsight.contract import Trial
from firstsight.errors import BadInput
from firstsight.evaluation import fit_on
from firstsight.evaluation.calibration import calibrate
from firstsight.methods import (
    CMT,
    ESZSL,
    GFZSL,
    SAE,
    SSE,
    Blend,
    KernelPrototypes,
    TransductiveKernelPrototypes,
    all_methods,
    find_method,
)
from firstsight.persistence.class_table import add_classes
from firstsight.persistence.model_folder import load, save
from firstsight.persistence.onnx_export import export_onnx, exportable

onnxruntime = pytest.importorskip("onnxruntime")


def _run(path, X, A, seen_code=None, output=0):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    given = {"features": np.float32(X), "descriptions": np.float32(A)}
    if "seen_code" in [one.name for one in session.get_inputs()]:
        given["seen_code"] = np.asarray(seen_code)
    return session.run(None, given)[output]


def _agree(model, path, X, table):
    expected = model.decision_function(X, classes=table)
    found = _run(path, X, table.to_numpy(), model.candidates(table)[2])
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * abs(expected).max())
    np.testing.assert_array_equal(found.argmax(axis=1), expected.argmax(axis=1))


@pytest.mark.parametrize("word", ["cosine", "blend", "kernel-prototypes"])
def test_added_samples_are_exported(word, tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(8, 12)), index=[f"class {c}" for c in range(8)])
    labels = np.repeat(table.index[:6], 5)
    X = (table.loc[labels].to_numpy() + 0.3 * rng.normal(size=(30, 12))).astype(np.float32)
    # A part that cannot learn from them is exported as well.
    model = (
        Blend(["cosine", "kernel-prototypes", "eszsl"], weights=[1, 1, 1]) if word == "blend" else find_method(word)()
    )
    model.fit(X, labels, table).add_samples(X[:3] + 1, ["class 6", "class 0", "class 6"])
    export_onnx(model, tmp_path / "model.onnx")
    _agree(model, tmp_path / "model.onnx", rng.normal(size=(9, 12)), table)


def test_parts_of_a_blend_are_exported_with_their_columns(small, tmp_path):
    parts = [
        ("some", KernelPrototypes(search=False), [3, 0, 1]),
        ("others", ESZSL(), slice(1, 6)),
    ]
    model = fit_on(Blend(parts, weights=[1, 1]), small)
    export_onnx(model, tmp_path / "model.onnx")
    _agree(model, tmp_path / "model.onnx", small.features[small.test_unseen], small.descriptions)


@pytest.mark.parametrize("scaling", ["default", "standard", "unit"])
@pytest.mark.parametrize("word", [word for word in exportable() if not all_methods()[word].shared_space])
def test_onnx_runtime_gives_the_same_scores_for_known_and_for_new_classes(word, scaling, small, tmp_path):
    cls = all_methods()[word]
    more = {} if scaling == "default" else {"feature_scaling": scaling, "attribute_scaling": scaling}
    if word == "sae" and scaling == "unit":
        more["direction"] = "visual"
    model = fit_on(cls(**{**cls.quick, **more}), small)
    export_onnx(model, tmp_path / "model.onnx")
    X = small.features[small.test_unseen]
    _agree(model, tmp_path / "model.onnx", X, small.descriptions)
    new = small.descriptions.iloc[:3] * 0.5 + 0.25  # classes that nobody has heard of, through the same file
    _agree(model, tmp_path / "model.onnx", X[:1], new.rename(index="new {}".format))


def test_a_hidden_layer_is_exported_and_saved(small, tmp_path):
    model = fit_on(KernelPrototypes(search=False, refinement=0, hidden=8), small)
    export_onnx(model, tmp_path / "model.onnx")
    X = small.features[small.test_unseen]
    _agree(model, tmp_path / "model.onnx", X, small.descriptions)
    save(model, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").decision_function(X), model.decision_function(X))


@pytest.mark.parametrize("hidden", [0, 8])
def test_a_model_that_doubts_its_pool_is_exported(hidden, small, tmp_path):
    X = small.features[small.test_unseen]
    pool = X[small.labels[small.test_unseen] == small.labels[small.test_unseen[0]]]
    model = TransductiveKernelPrototypes(search=False, refinement=0, hidden=hidden)
    model.fit(*small.part("train"), small.descriptions, X_unlabeled=pool)
    assert model.belief_ < 1
    export_onnx(model, tmp_path / "model.onnx")
    _agree(model, tmp_path / "model.onnx", X, small.descriptions)


def test_the_methods_that_write_their_score_can_be_exported():
    assert {"deep-embedding", "transductive-deep-embedding", "gfzsl", "eszsl", "ale", "rn"} <= set(exportable())
    assert "sse" not in exportable()


@pytest.fixture
def with_confidence(small):
    def make(model):
        fitted = fit_on(model, small)
        fitted.calibration_ = calibrate(fitted, small)
        return fitted

    return make


def _kinds_of_candidates(model, small):
    """Models and candidates: subsets, and classes that were added or described otherwise after the fit."""
    seen, unseen = list(small.seen_classes), list(small.unseen_classes)
    yield model, unseen
    yield model, seen
    yield model, list(small.class_names)
    yield model, [seen[3], unseen[2], unseen[0]]
    table = small.descriptions
    new = pd.DataFrame([table.loc[seen[0]], table.loc[unseen[0]] * 0.5 + 0.25], index=["twin", "new"])
    yield add_classes(model, new), ["new", "twin", seen[0], unseen[1]]  # a twin is described like a seen class
    yield add_classes(model, new), ["new", "twin"]
    changed = pd.DataFrame([table.loc[seen[1]] * 0.5, table.loc[seen[2]]], index=[seen[0], unseen[0]])
    yield add_classes(model, changed, replace=True), [seen[0], seen[2], unseen[0]]


@pytest.mark.parametrize("word", [word for word in exportable() if not all_methods()[word].shared_space])
def test_confidence_is_that_of_predict_proba_whichever_candidates(word, small, with_confidence, tmp_path):
    cls = all_methods()[word]
    model = with_confidence(cls(**cls.quick))
    X = small.features[np.concatenate([small.test_unseen, small.test_seen])]
    export_onnx(model, tmp_path / "model.onnx", confidence=True)
    widest = 0.0
    for changed, names in _kinds_of_candidates(model, small):
        A, codes = changed.candidates(names)[1:]
        found = _run(tmp_path / "model.onnx", X, A, codes, output=1)  # the same file: classes are its input
        expected = changed.predict_proba(X, classes=names)
        np.testing.assert_allclose(found, expected, atol=1e-4)
        np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)
        widest = max(widest, np.ptp(expected))
    assert widest > 0.1  # nothing to compare if all are guesses


def test_seen_classes_of_one_description_are_told_apart_by_their_codes(small, with_confidence, tmp_path):
    """In the package each has its own mean, whatever its description."""
    seen = small.seen_classes
    table = small.descriptions.copy()
    table.loc[seen[1]] = table.loc[seen[0]]
    model = KernelPrototypes(search=False, refinement=0).fit(*small.part("train"), table)
    export_onnx(model, tmp_path / "model.onnx")
    X = small.features[small.test_seen]
    expected = model.decision_function(X)
    found = _run(tmp_path / "model.onnx", X, model.descriptions_, model.seen_code_)
    np.testing.assert_allclose(found, expected, atol=1e-4 * abs(expected).max())
    places = [list(small.class_names).index(name) for name in seen[:2]]
    assert np.abs(np.subtract(*expected[:, places].T)).max() > 0.01 * abs(expected).max()


def test_confidence_without_a_calibration_is_refused_and_no_file_is_written(eszsl, tmp_path):
    with pytest.raises(BadInput, match="This ESZSL has not been calibrated"):
        export_onnx(eszsl, tmp_path / "model.onnx", confidence=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("word", [word for word in exportable() if all_methods()[word].shared_space])
def test_methods_of_one_space_give_the_same_scores_for_known_and_for_new_classes(word, tmp_path):
    trial = Trial(all_methods()[word])
    export_onnx(trial.fitted, tmp_path / "model.onnx")
    X, table = trial.task.X_test, trial.task.table
    _agree(trial.fitted, tmp_path / "model.onnx", X, table)
    new = table.loc[trial.task.unseen[:3]] * 0.5 + 0.1
    _agree(trial.fitted, tmp_path / "model.onnx", X[:1], new.rename(index="new {}".format))


def test_a_description_or_row_of_zeros_has_a_score_too(small, tmp_path):
    model = fit_on(SAE(feature_scaling="unit", attribute_scaling="unit"), small)
    export_onnx(model, tmp_path / "model.onnx")
    found = _run(tmp_path / "model.onnx", np.zeros((1, 16)), np.zeros((2, 6)))
    assert found.tolist() == [[0.0, 0.0]]


def test_the_file_knows_its_classes(eszsl, small, tmp_path):
    export_onnx(eszsl, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    about = session.get_modelmeta().custom_metadata_map
    assert about["firstsight.method"] == "ESZSL"
    assert json.loads(about["firstsight.classes"]) == list(small.class_names)
    assert json.loads(about["firstsight.attributes"]) == list(small.attribute_names)
    codes = np.array(json.loads(about["firstsight.seen_code"]))
    assert codes.tolist() == eszsl.seen_code_.tolist()
    assert np.array(small.class_names)[codes >= 0].tolist() == list(small.seen_classes)
    A = np.array(json.loads(about["firstsight.descriptions"]))
    found = _run(tmp_path / "model.onnx", small.features, A)
    np.testing.assert_allclose(found, eszsl.decision_function(small.features), atol=1e-5)


def test_a_method_that_cannot_be_exported_names_those_that_can(small, tmp_path):
    for model, said in (
        (SSE(**SSE.quick), "SSE cannot be exported, because its score is not a plain function"),
        (GFZSL(seen_gaussians="estimated"), 'because with seen_gaussians="estimated" it asks whether a class was seen'),
        (CMT(**CMT.quick, novelty="loop"), "because with novelty='loop' it asks"),
    ):
        with pytest.raises(BadInput, match=rf"{said}.*these can: ale, .*eszsl") as caught:
            export_onnx(fit_on(model, small), tmp_path / "model.onnx")
        assert "\n" not in str(caught.value)
        assert not list(tmp_path.iterdir())


def test_another_ending_or_a_missing_package_is_one_sentence(eszsl, tmp_path, monkeypatch):
    with pytest.raises(BadInput, match=r"must end in \.onnx, but is called 'model.pb'"):
        export_onnx(eszsl, tmp_path / "model.pb")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(BadInput, match=r"firstsight\[onnx\]"):
        export_onnx(ESZSL(), tmp_path / "model.onnx")
