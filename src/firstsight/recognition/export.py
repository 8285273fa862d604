"""A recognizer as one .onnx file: features in, or, with the backbone in front, pictures in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firstsight._io.files import scratch_folder, write_atomically
from firstsight.errors import BadInput
from firstsight.persistence.onnx_export import export_onnx

if TYPE_CHECKING:
    from firstsight.recognition.recognizer import Recognizer


def export_recognizer(
    recognizer: Recognizer, path: str | Path, *, confidence: bool = False, backbone: bool = False
) -> None:
    """Write the model; `features` is its input, or `pixel_values (n, 3, h, w)` with the backbone in the same file.

    Pictures go in as the backbone's processor prepares them; the metadata `firstsight.preprocessing` say how.
    """
    if not backbone:
        export_onnx(recognizer.model, path, confidence=confidence)
        return
    if Path(path).suffix != ".onnx":
        raise BadInput(f"The file must end in .onnx, but is called {Path(path).name!r}; rename it.")
    from firstsight.encoders.backbone import Backbone
    from firstsight.encoders.runtimes import export_backbone

    facts = recognizer.backbone.encoder.facts  # checked: it is the model's own
    own = Backbone(recognizer.backbone.place)
    front = export_backbone(own)
    with scratch_folder() as scratch:
        model = scratch / "model.onnx"
        export_onnx(recognizer.model, model, confidence=confidence)
        made = _joined(front, model)
    processor = own.folder / "preprocessor_config.json"
    if processor.is_file():
        made.metadata_props.add(key="firstsight.preprocessing", value=processor.read_text(encoding="utf-8"))
    made.metadata_props.add(key="firstsight.backbone", value=json.dumps(facts))
    write_atomically(path, made.SerializeToString())


def _joined(front: Path, model: Path) -> Any:
    """The backbone's graph, then the model's, which starts where the former ends; the newer set of operators serves."""
    import onnx
    from onnx import compose, version_converter

    pair = [onnx.load(front), onnx.load(model)]
    newest = max(_opset(one) for one in pair)
    pair = [one if _opset(one) == newest else version_converter.convert_version(one, newest) for one in pair]
    kept = [(prop.key, prop.value) for prop in onnx.load(model).metadata_props]
    for one in pair:
        one.ir_version = max(two.ir_version for two in pair)
        del one.metadata_props[:]
    first, second = pair
    # Inner names of both graphs may be the same; what goes in and comes out keeps its name.
    first = compose.add_prefix(first, "backbone/", rename_inputs=False, rename_outputs=False)
    made = compose.merge_models(first, second, io_map=[("features", "features")])
    for key, value in kept:
        made.metadata_props.add(key=key, value=value)
    made.producer_name = "firstsight"
    return made


def _opset(model: Any) -> int:
    return int(next(one.version for one in model.opset_import if one.domain in ("", "ai.onnx")))
