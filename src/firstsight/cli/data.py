"""`firstsight data …`, `embed` and `describe`: data sets, and the features and descriptions they are made of."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from firstsight._io.terminal import counted, say
from firstsight.cli.options import DEFAULT_BACKBONE, BackboneOption, BatchSize, Data, Device, Features, Runtime, Seed
from firstsight.errors import BadInput

app = typer.Typer(no_args_is_help=True)


@app.callback()
def data() -> None:
    """Look at data sets, and make your own."""


@app.command()
def check(path: Data, features: Features = None) -> None:
    """Print a data set's sizes and audit it: leaks between splits, missing descriptions, NaN, constant columns.

    The exit code is 1 if there is an error.
    """
    from rich.markup import escape

    from firstsight._io.terminal import in_one_line, screen
    from firstsight.data import audit

    report = audit(path, features)
    console = screen(markup=True)
    console.print(f"[bold]{escape(in_one_line(report.name))}[/]")
    width = max(map(len, report.sizes))
    for what, number in report.sizes.items():
        console.print(f"  {escape(what):{width}}  {number:,}")
    style = {"error": "bold red", "warning": "yellow", "note": "dim"}
    for finding in report.findings:
        console.print(f"[{style[finding.severity]}]{finding.severity}:[/] {escape(finding.message)}")
    counts = {s: sum(f.severity == s for f in report.findings) for s in style}
    console.print(", ".join(f"{n} {word}{'' if n == 1 else 's'}" for word, n in counts.items()))
    if not report.ok:
        raise typer.Exit(1)


@app.command()
def make(
    samples: Annotated[
        Path, typer.Argument(metavar="FEATURES", help="What `firstsight embed` wrote, or a .csv with a column class.")
    ],
    classes: Annotated[Path, typer.Option(help="A table that `firstsight describe` wrote: a row per class.")],
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    unseen: Annotated[
        str, typer.Option(help="The unseen classes: names separated by commas, or a share to draw.")
    ] = "0.25",
    held_out: Annotated[float, typer.Option(help="The share of each seen class's rows to test on.")] = 0.2,
    features: Annotated[
        str | None,
        typer.Option(
            help="The feature file's name; other people's code may insist on res101. Left out: the backbone's."
        ),
    ] = None,
    seed: Seed = 0,
) -> None:
    """Write features and descriptions as a folder in the xlsa17 layout with proposed splits.

    Anybody's zero-shot code reads att_splits.mat and the feature file; so do `firstsight fit` and `evaluate`.
    """
    from firstsight._io.terminal import say
    from firstsight.data import read_descriptions
    from firstsight.data.feature_files import read_feature_file
    from firstsight.data.proposed_splits import propose_splits, write_xlsa17

    file = read_feature_file(samples)
    if file.labels is None:
        raise BadInput(f"{samples} says nothing about classes; embed a folder with one sub-folder per class.")
    try:
        chosen: list[str] | float = float(unseen)
    except ValueError:
        chosen = [name.strip() for name in unseen.split(",") if name.strip()]
    proposal = propose_splits(
        out.name, file.features, file.labels, read_descriptions(classes), chosen, held_out, file.names, seed
    )
    write_xlsa17(out, proposal, features or (file.backbone or {}).get("name") or "features")
    data = proposal.dataset
    if proposal.without_rows:
        say(f"Left out {len(proposal.without_rows)} classes without samples, for example {proposal.without_rows[0]!r}.")
    say(
        f"{len(data.seen_classes)} seen and {len(data.unseen_classes)} unseen classes; {len(data.train)} rows to train "
        f"on, {len(data.test_seen)} and {len(data.test_unseen)} to test; saved to {out}."
    )


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
            help="A sentence-transformers, CLIP or SigLIP model: its name, or a folder that holds it. "
            f"Left out: {DEFAULT_ENCODER}.",
        ),
    ] = None,
    prompt: Annotated[
        list[str] | None,
        typer.Option(
            help="What a bare name is put into, such as 'a photo of a {}, a kind of bird.'; may be given several times."
        ),
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
