"""`firstsight export`: a saved model as a file for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from firstsight._io.terminal import counted, say


def export(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    onnx: Annotated[Path, typer.Option(help="The .onnx file to write.")],
    confidence: Annotated[
        bool, typer.Option("--confidence", help="A second output, `confidence`; needs a calibrated model.")
    ] = False,
    with_backbone: Annotated[
        bool, typer.Option("--with-backbone", help="The backbone in front, in the same file: pictures in, scores out.")
    ] = False,
    backbone: Annotated[
        str | None,
        typer.Option(metavar="NAME_OR_PATH", help="Where the model's backbone is, if not where its name says."),
    ] = None,
) -> None:
    """Write a model for ONNX Runtime: inputs `features` and `descriptions`, output `scores`, higher is better.

    Descriptions are an input, so new classes need no new export. The file's metadata hold the model's own classes
    and descriptions.
    """
    from firstsight.recognition import Recognizer

    loaded = Recognizer.load(model, backbone)
    loaded.export_onnx(onnx, confidence=confidence, backbone=with_backbone)
    classes = counted(len(loaded.model.classes_), "class")
    say(f"{type(loaded.model).__name__} with {classes} written to {onnx}.")
