from __future__ import annotations

import numpy as np
import pytest

from firstsight.evaluation import fit_on
from firstsight.methods import ESZSL, SSE
from firstsight.persistence.model_folder import save

onnxruntime = pytest.importorskip("onnxruntime")


def test_a_model_becomes_a_file_that_answers_alike(cli, small, tmp_path):
    model = fit_on(ESZSL(feature_penalty=0.02), small)
    save(model, tmp_path / "model")
    done = cli("export", tmp_path / "model", "--onnx", tmp_path / "model.onnx")
    assert (done.code, done.out) == (0, "")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    X = small.features[small.test_unseen]
    (scores,) = session.run(["scores"], {"features": X, "descriptions": small.description_matrix})
    np.testing.assert_array_equal(model.classes_[scores.argmax(axis=1)], model.predict(X))


def test_what_cannot_be_exported_is_one_sentence_and_no_file(cli, small, tmp_path):
    save(fit_on(SSE(epochs=1), small), tmp_path / "model")
    cli("export", tmp_path / "model", "--onnx", tmp_path / "a.onnx").is_refused_with("SSE", "these can", "eszsl")
    cli("export", tmp_path / "model", "--onnx", tmp_path / "a.txt").is_refused_with("must end in .onnx")
    cli("export", tmp_path / "none", "--onnx", tmp_path / "a.onnx").is_refused_with("is not a model folder")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    save(fit_on(ESZSL(), small), tmp_path / "model")
    (tmp_path / "file").write_text("")
    cli("export", tmp_path / "model", "--onnx", tmp_path / "file" / "a.onnx").is_refused_with("Could not write")
