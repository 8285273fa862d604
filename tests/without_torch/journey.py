"""What must work where torch is not installed; `test_without_torch.py` runs it in such a process.

Every function is a step, in order, and gets what the steps before it have kept. For each step a line of JSON is
printed: its name, and what went wrong, why it was skipped, or neither.
"""

from __future__ import annotations

import json
import re
import tempfile
import traceback
import warnings
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import firstsight
from firstsight.data.feature_files import FeatureFile

HOW_TO_INSTALL = re.escape("pip install 'firstsight[torch]'")


def torch_is_hidden(kept):
    with pytest.raises(ModuleNotFoundError):
        import torch  # noqa: F401


def evaluate(kept):
    random = np.random.default_rng(0)
    traits = (np.arange(1, 13)[:, None] >> np.arange(4) & 1).astype(np.float32)
    kept["table"] = pd.DataFrame(traits, [f"kind {c}" for c in "abcdefghijkl"], [f"trait {i}" for i in range(4)])
    labels = np.repeat(np.arange(12), 12)
    kept["X"] = (traits[labels] @ random.normal(size=(4, 8)) + 0.1 * random.normal(size=(144, 8))).astype(np.float32)
    kept["y"] = kept["table"].index[labels].tolist()
    kept["data"] = firstsight.make_dataset(kept["X"], kept["y"], kept["table"], unseen=["kind c", "kind f", "kind k"])
    assert firstsight.evaluate(firstsight.KernelPrototypes(search=False), kept["data"]).t1 > 0.5  # chance: 1/3


def every_method_fits_or_says_how_to_install_torch(kept):
    from firstsight.errors import MissingPackage

    data = kept["data"]
    for cls in firstsight.all_methods().values():
        table = data.descriptions
        if cls.shared_space:  # rows and descriptions of one length
            table = pd.DataFrame(np.tile(table, 2), table.index)
        pool = {"X_unlabeled": data.part("test_unseen")[0]} if cls.transductive else {}
        message = f"{cls.__name__} needs PyTorch.* {HOW_TO_INSTALL}"
        with pytest.raises(MissingPackage, match=message) if cls.needs_torch else nullcontext():
            cls(**cls.quick).fit(*data.part("train"), table, **pool)
    assert firstsight.DeepEmbedding.needs_torch


def learn_and_predict(kept):
    labelled = [i for i, label in enumerate(kept["y"]) if label not in ("kind c", "kind f", "kind k")]
    file = FeatureFile(kept["X"][labelled], [str(i) for i in labelled], [kept["y"][i] for i in labelled])
    kept["model"] = firstsight.learn(
        file, kept["table"], out=kept["folder"] / "model", method="kernel-prototypes", parameters={"search": False}
    )
    best = kept["model"].predict(kept["X"]).best
    assert np.mean(np.array(best) == kept["y"]) > 0.5  # chance: 1/12


def save_and_load(kept):
    again = firstsight.Recognizer.load(kept["folder"] / "model")
    assert again.predict(kept["X"]).best == kept["model"].predict(kept["X"]).best
    about = json.loads((kept["folder"] / "model" / "model.json").read_text())
    assert "torch" not in about["versions"]


def tune(kept):
    choice = firstsight.tune(
        "eszsl", kept["data"], grid={"feature_penalty": [0.01, 1.0]}, folds=1, processes=1, progress=False
    )
    assert choice.best.keys() == {"feature_penalty"}


def benchmark(kept):
    table = firstsight.benchmark(
        ["eszsl", "sae"], kept["data"], settings="zsl", processes=1, progress=False, out=kept["folder"] / "records"
    )
    assert sorted(table.method) == ["eszsl", "sae"]
    assert table.T1.notna().all()
    with pytest.raises(firstsight.BadInput, match=HOW_TO_INSTALL):
        firstsight.benchmark(["eszsl", "deep-embedding"], kept["data"], progress=False)


def all_methods_are_those_that_can_be_trained(kept):
    from firstsight.experiments.plan import choose_methods

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        chosen = choose_methods("all")
    methods = firstsight.all_methods()
    assert chosen == [word for word, cls in methods.items() if not cls.needs_torch]
    (message,) = (str(one.message) for one in caught)
    assert all(word in message for word in methods if word not in chosen)
    assert re.search(HOW_TO_INSTALL, message)


def contract(kept):
    from firstsight.contract import CHECKS, check_method

    assert set(check_method(firstsight.ESZSL)) <= set(CHECKS)


def list_methods(kept):
    import contextlib
    import io

    from firstsight.cli.methods import methods

    with contextlib.redirect_stdout(io.StringIO()) as shown:
        methods()
    lines = shown.getvalue().splitlines()
    for word, cls in firstsight.all_methods().items():
        line = next(line for line in lines if line.startswith(f"{word} "))
        assert line.startswith(f"{word} * ") == cls.needs_torch, line
    assert "* needs PyTorch, which is not installed; run pip install 'firstsight[torch]'." in lines


def serve(kept):
    for package in ("fastapi", "uvicorn", "prometheus_client", "python_multipart", "httptools", "httpx"):
        pytest.importorskip(package)
    from starlette.testclient import TestClient

    with TestClient(firstsight.create_app(kept["model"]), base_url="http://127.0.0.1") as client:
        answer = client.get("/api/model")
    assert answer.status_code == 200, answer.text
    assert answer.json()["method"] == "kernel-prototypes"


def export_to_onnx(kept):
    pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    from firstsight.persistence.onnx_export import export_onnx

    model = kept["model"].model
    export_onnx(model, kept["folder"] / "model.onnx")
    session = onnxruntime.InferenceSession(kept["folder"] / "model.onnx", providers=["CPUExecutionProvider"])
    inputs = {"features": kept["X"], "descriptions": model.descriptions_.astype(np.float32)}
    inputs["seen_code"] = model.seen_code_
    scores = session.run(["scores"], inputs)[0]
    np.testing.assert_allclose(scores, model.decision_function(kept["X"]), rtol=1e-3, atol=1e-3)


def encode_images_with_an_exported_backbone(kept):
    """The file that `export_backbone` would have written here is the mean of each colour over the image."""
    for package in ("transformers", "onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(package)
    from onnx import TensorProto, helper, save
    from PIL import Image
    from safetensors.numpy import save_file

    from firstsight.encoders.backbone import Backbone, _exported
    from firstsight.encoders.images import ImageEncoder

    folder = kept["folder"] / "backbone"
    folder.mkdir()
    save_file({"weight": np.zeros(1, np.float32)}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_type": "resnet"}))
    processor = {"image_processor_type": "ViTImageProcessor", "size": {"height": 8, "width": 8}}
    processor |= {"image_mean": [0.0] * 3, "image_std": [1.0] * 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    images = [Image.new("RGB", (20, 10), colour) for colour in ("red", "blue")]
    encoder = ImageEncoder(folder, cache=False)
    with pytest.raises(firstsight.BadInput, match=HOW_TO_INSTALL):
        encoder.encode(images)

    pixels = helper.make_tensor_value_info("pixel_values", TensorProto.FLOAT, ["n", 3, 8, 8])
    features = helper.make_tensor_value_info("features", TensorProto.FLOAT, ["n", 3])
    mean = helper.make_node("ReduceMean", ["pixel_values"], ["features"], axes=[2, 3], keepdims=0)
    graph = helper.make_graph([mean], "backbone", [pixels], [features])
    path = _exported(Backbone(folder), np.zeros((3, 8, 8)))
    path.parent.mkdir(parents=True)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    np.testing.assert_allclose(encoder.encode(images).features, [[1, 0, 0], [0, 0, 1]], atol=1e-6)


STEPS = [
    torch_is_hidden,
    evaluate,
    every_method_fits_or_says_how_to_install_torch,
    learn_and_predict,
    save_and_load,
    tune,
    benchmark,
    all_methods_are_those_that_can_be_trained,
    contract,
    list_methods,
    serve,
    export_to_onnx,
    encode_images_with_an_exported_backbone,
]


def main() -> None:
    """Run every step."""
    with tempfile.TemporaryDirectory() as folder:
        kept = {"folder": Path(folder)}
        for step in STEPS:
            problem, skipped = "", ""
            try:
                step(kept)
            except pytest.skip.Exception as reason:
                skipped = str(reason)
            except Exception:
                problem = traceback.format_exc()
            print(json.dumps({"step": step.__name__, "problem": problem, "skipped": skipped}), flush=True)


if __name__ == "__main__":
    main()
