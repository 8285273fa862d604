from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from firstsight.errors import BadInput
from firstsight.evaluation import fit_on
from firstsight.methods import ESZSL, SAE, Cosine, all_methods
from firstsight.serving.export import export_onnx, exportable

onnxruntime = pytest.importorskip("onnxruntime")


def _run(path, X, A):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {"features": np.float32(X), "descriptions": np.float32(A)})[0]


def _agree(model, path, X, table):
    expected = model.decision_function(X, classes=table)
    found = _run(path, X, table.to_numpy())
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * abs(expected).max())
    np.testing.assert_array_equal(found.argmax(axis=1), expected.argmax(axis=1))


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


def test_cosine_is_exported_for_rows_and_descriptions_of_one_space(tmp_path):
    A = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    model = Cosine().fit(A[:2], [0, 1], A)
    export_onnx(model, tmp_path / "model.onnx")
    np.testing.assert_allclose(_run(tmp_path / "model.onnx", A + 1, A), model.decision_function(A + 1), atol=1e-6)


def test_most_methods_can_be_exported_the_papers_own_among_them():
    assert {"deep-embedding", "transductive-deep-embedding", "eszsl", "sae", "ale", "latem"} <= set(exportable())
    assert len(exportable()) == 14


def test_a_description_or_row_of_zeros_has_a_score_too(small, tmp_path):
    model = fit_on(SAE(feature_scaling="unit", attribute_scaling="unit"), small)
    export_onnx(model, tmp_path / "model.onnx")
    found = _run(tmp_path / "model.onnx", np.zeros((1, 16)), np.zeros((2, 6)))
    assert found.tolist() == [[0.0, 0.0]]


def test_the_file_knows_its_classes(eszsl, small, tmp_path):
    export_onnx(eszsl, tmp_path / "model.onnx", list(small.attribute_names))
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    about = session.get_modelmeta().custom_metadata_map
    assert about["firstsight.method"] == "ESZSL"
    assert json.loads(about["firstsight.classes"]) == list(small.class_names)
    assert json.loads(about["firstsight.attributes"]) == list(small.attribute_names)
    seen = np.array(json.loads(about["firstsight.seen"]))
    assert np.array(small.class_names)[seen].tolist() == list(small.seen_classes)
    A = np.array(json.loads(about["firstsight.descriptions"]))
    found = _run(tmp_path / "model.onnx", small.features, A)
    np.testing.assert_allclose(found, eszsl.decision_function(small.features), atol=1e-5)


def test_a_method_that_cannot_be_exported_names_those_that_can(small, tmp_path):
    cls = all_methods()["gfzsl"]
    with pytest.raises(BadInput, match=r"GFZSL cannot be exported.*these can: ale, .*eszsl") as caught:
        export_onnx(fit_on(cls(**cls.quick), small), tmp_path / "model.onnx")
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_another_ending_or_a_missing_package_is_one_sentence(eszsl, tmp_path, monkeypatch):
    with pytest.raises(BadInput, match=r"must end in \.onnx, but is called 'model.pb'"):
        export_onnx(eszsl, tmp_path / "model.pb")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(BadInput, match=r"firstsight\[onnx\]"):
        export_onnx(ESZSL(), tmp_path / "model.onnx")
