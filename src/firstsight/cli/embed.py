"""`firstsight embed`: a folder of pictures → a file of features."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from firstsight._io.terminal import counted, say

DEFAULT_BACKBONE = "microsoft/resnet-101"

BackboneOption = Annotated[
    str,
    typer.Option(metavar="NAME_OR_PATH", help="A vision model of transformers: its name, or a folder that holds it."),
]
BatchSize = Annotated[int, typer.Option(min=1, help="Pictures that go through the model at once.")]
Runtime = Annotated[
    str,
    typer.Option(help="torch, onnx, or auto: onnx where the backbone was exported before or the pictures are many."),
]
Device = Annotated[str, typer.Option(help="Where the model runs: cpu, cuda, mps, …, or auto: a GPU if there is one.")]


def embed(
    folder: Annotated[Path, typer.Argument(help="Pictures, directly or in one sub-folder per class.")],
    out: Annotated[Path, typer.Option(help="The .npz file to write; or .npy, and a table beside it (docs/scale.md).")],
    backbone: BackboneOption = DEFAULT_BACKBONE,
    batch_size: BatchSize = 32,
    runtime: Runtime = "auto",
    device: Device = "cpu",
    precision: Annotated[str, typer.Option(help="Of the backbone's matrix products: float32 or bfloat16.")] = "float32",
) -> None:
    """Turn pictures into features, one row per picture; sub-folder names are their classes.

    A run that is killed goes on where it was, and pictures that this backbone has looked at before take no
    time: features are kept by the content of the picture, in $FIRSTSIGHT_CACHE or the user's cache folder.
    """
    from firstsight.encoders.embedding import embed

    made = embed(
        folder,
        backbone=backbone,
        out=out,
        batch_size=batch_size,
        runtime=runtime,
        device=device,
        precision=precision,
        verbose=True,
    )
    rows, dim = made.features.shape
    classes = "no labels" if made.labels is None else counted(len(set(made.labels)), "class")
    skipped = f"{len(made.skipped)} skipped" if made.skipped else "none skipped"
    say(f"{counted(rows, 'picture')}, {counted(dim, 'feature')} each, {classes}; {skipped}; saved to {out}.")
