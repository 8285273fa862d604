"""`firstsight describe`: names, sentences or attributes of classes → a table of descriptions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from firstsight._io.terminal import counted, say
from firstsight.cli.embed import Device

DEFAULT_ENCODER = "sentence-transformers/all-MiniLM-L6-v2"


def describe(
    classes: Annotated[
        Path, typer.Argument(metavar="CLASSES.csv", help="A column `class`, and text, attributes or nothing beside it.")
    ],
    out: Annotated[Path, typer.Option(help="The .csv file to write.")],
    encoder: Annotated[
        str | None,
        typer.Option(
            metavar="NAME_OR_PATH",
            help="A sentence-transformers or CLIP model: its name, or a folder that holds it. "
            f"Left out: {DEFAULT_ENCODER}.",
        ),
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(help="What a bare name is put into, such as 'a photo of a {}, a kind of bird'.")
    ] = None,
    attributes: Annotated[
        str | None,
        typer.Option(help="Write an empty table of these attributes (separated by commas) to fill in by hand."),
    ] = None,
    scale: Annotated[bool, typer.Option("--scale", help="Bring every attribute to 0…1.")] = False,
    device: Device = "cpu",
) -> None:
    """Make the descriptions that unseen classes are recognised by; what CLASSES.csv holds decides how.

    Only names, or a column `text`: each becomes the vector that a text model gives it. Columns of attributes: numbers
    are taken as they are, 85% becomes 0.85, yes and no become 1 and 0, an empty cell takes its column's mean. With
    --attributes: an empty table to fill in, which a second `describe` then reads.
    """
    from firstsight.encoders.descriptions import describe

    names = None if attributes is None else attributes.split(",")
    made = describe(classes, encoder=encoder, prompt=prompt, attributes=names, scale=scale, out=out, device=device)
    say(f"{counted(len(made), 'class')}, {counted(made.shape[1], 'column')} each; saved to {out}.")
