"""`firstsight export`: a saved model as a file for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    onnx: Annotated[Path, typer.Option(help="The .onnx file to write.")],
) -> None:
    """Write a model for ONNX Runtime: inputs `features` and `descriptions`, output `scores`, higher is better.

    Descriptions are an input, so new classes need no new export. The file's metadata hold the model's own classes
    and descriptions.
    """
    from firstsight.cli.embed import say
    from firstsight.models import load_saved
    from firstsight.models.onnx_export import export_onnx

    saved = load_saved(model)
    export_onnx(saved.model, onnx)
    say(f"{type(saved.model).__name__} with {len(saved.model.classes_)} classes written to {onnx}.")
