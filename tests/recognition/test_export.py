from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from firstsight.encoders.backbone import Backbone
from firstsight.errors import BadInput
from firstsight.recognition import Recognizer, learn

onnxruntime = pytest.importorskip("onnxruntime")


def _session(path):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


@pytest.fixture(scope="module")
def colours(pictures, table, backbone, cache):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRSTSIGHT_CACHE", str(cache))
        return learn(pictures, table, backbone=backbone, unseen=["peach", "plum"], parameters={"search": False})


@pytest.mark.parametrize("confidence", [False, True])
def test_what_learn_makes_by_default_answers_alike_with_its_backbone_in_one_file(
    colours, pictures, backbone, tmp_path, confidence
):
    colours.export_onnx(tmp_path / "all.onnx", confidence=confidence, backbone=True)
    session = _session(tmp_path / "all.onnx")
    assert session.get_inputs()[0].name == "pixel_values"
    paths = sorted((pictures / "plum").iterdir())
    own = Backbone(backbone)
    pixels = np.stack([own.prepare(Image.open(path).convert("RGB")) for path in paths])
    model = colours.model
    given = {"pixel_values": pixels, "descriptions": model.descriptions_.astype(np.float32)}
    given["seen_code"] = model.seen_code_
    found = dict(zip([one.name for one in session.get_outputs()], session.run(None, given), strict=True))
    answers = colours.predict(paths, top=len(model.classes_))
    assert model.classes_[found["scores"].argmax(axis=1)].tolist() == answers.best
    if confidence:
        best = np.sort(found["confidence"], axis=1)[:, ::-1]
        # The root of an entry near zero and the whitening make more of what two runtimes of the backbone differ by.
        np.testing.assert_allclose(best, answers.confidence, atol=1e-2)
    about = session.get_modelmeta().custom_metadata_map
    assert json.loads(about["firstsight.classes"]) == model.classes_.tolist()
    assert json.loads(about["firstsight.backbone"])["name"] == "tiny"
    assert json.loads(about["firstsight.preprocessing"])["size"] == {"height": 32, "width": 32}


def test_without_the_backbone_features_go_in(calibrated, small, tmp_path):
    Recognizer(calibrated).export_onnx(tmp_path / "model.onnx")
    X = small.features[:9]
    (scores,) = _session(tmp_path / "model.onnx").run(None, {"features": X, "descriptions": small.description_matrix})
    assert calibrated.classes_[scores.argmax(axis=1)].tolist() == calibrated.predict(X).tolist()


def test_a_model_of_features_has_no_backbone_to_write(calibrated, tmp_path):
    with pytest.raises(BadInput, match="source that it does not know"):
        Recognizer(calibrated).export_onnx(tmp_path / "a.onnx", backbone=True)
    with pytest.raises(BadInput, match=r"must end in \.onnx"):
        Recognizer(calibrated).export_onnx(tmp_path / "a.txt", backbone=True)
    assert not list(tmp_path.iterdir())
