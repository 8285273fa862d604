"""`firstsight classes` and `add`: change a saved model's classes, or add labelled samples, without retraining."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firstsight._io.terminal import counted, say, write_out
from firstsight.cli.options import BatchSize, Device, Runtime
from firstsight.errors import BadInput

if TYPE_CHECKING:
    import pandas as pd

app = typer.Typer(no_args_is_help=True)
Model = Annotated[Path, typer.Argument(help="A model folder.")]


@app.command("list")
def list_classes(
    model: Model,
    json: Annotated[bool, typer.Option("--json", help="As JSON, with the descriptions.")] = False,
    csv: Annotated[
        Path | None,
        typer.Option(
            help="Write the classes with their descriptions here, as `learn --classes` and `classes add` read them."
        ),
    ] = None,
) -> None:
    """Show every class of a model and whether training had samples of it."""
    from firstsight._io.files import csv_of, write_atomically
    from firstsight.recognition import Recognizer

    recognizer = Recognizer.load(model)
    table = recognizer.classes
    if csv is not None:
        write_atomically(csv, csv_of(recognizer.descriptions, index=True))
        say(f"{counted(len(table), 'class')} with descriptions in {csv}.")
        return
    if json:
        import json as writer

        described = recognizer.descriptions
        rows = zip(table["class"], table["seen"], described.to_numpy().tolist(), strict=True)
        entries = [{"class": label, "seen": seen, "description": numbers} for label, seen, numbers in rows]
        names = [str(name) for name in getattr(recognizer.model, "attribute_names_in_", [])]
        text = writer.dumps({"attributes": names, "classes": entries}, ensure_ascii=False, indent=1) + "\n"
    else:
        text = csv_of(table.assign(seen=table["seen"].map({True: "yes", False: "no"})))
    write_out(text)


@app.command("add")
def add(
    model: Model,
    table: Annotated[
        Path | None,
        typer.Argument(
            help="One row per class: its name and its attributes (.csv or .parquet); of a model whose classes were "
            "described by words, its name, and `text` if you like."
        ),
    ] = None,
    name: Annotated[list[str] | None, typer.Option(help="A class by its name; may be given several times.")] = None,
    text: Annotated[str | None, typer.Option(help="A sentence that describes the class of --name.")] = None,
    text_encoder: Annotated[
        str | None,
        typer.Option(metavar="NAME_OR_PATH", help="Where the model's text encoder is, if not where it was."),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Change the description of classes that exist.")] = False,
) -> None:
    """Add classes to a model, or change them with --replace; the model is not retrained."""
    from firstsight.recognition import Recognizer

    given = _table_of(table, name or [], text)
    with Recognizer.changing(model) as changed:
        before = len(changed.classes)
        changed.add_classes(given, replace, text_encoder)
        described = len(set(given.index))
    new = len(changed.classes) - before
    also = f", {described - new} changed" if described > new else ""
    say(f"{counted(new, 'class')} added{also}; the model in {model} knows {len(changed.classes)}.")


def _table_of(path: Path | None, names: list[str], text: str | None) -> pd.DataFrame:
    """The classes of a file, or those that options name."""
    import pandas as pd

    from firstsight.data import read_descriptions
    from firstsight.encoders.descriptions import read_words

    if (path is None) == (not names):
        raise BadInput("Give the classes to add as a table or with --name; one of the two.")
    if path is not None:
        words = read_words(path)
        return read_descriptions(path) if words is None else words
    if text is not None and len(names) > 1:
        raise BadInput(f"--text describes one class, but {len(names)} names were given; add them one after the other.")
    return pd.DataFrame({} if text is None else {"text": [text]}, index=names)


@app.command("remove")
def remove(
    model: Model,
    names: Annotated[list[str], typer.Argument(help="The classes to remove, seen or unseen.")],
) -> None:
    """Remove classes from a model: it never answers with them again, until they are added back."""
    from firstsight.recognition import Recognizer

    with Recognizer.changing(model) as changed:
        before = len(changed.classes)
        changed.remove_classes(names)
    gone = before - len(changed.classes)
    say(f"{counted(gone, 'class')} removed; the model in {model} knows {len(changed.classes)}.")


def add_images(
    model: Model,
    images: Annotated[
        Path | None,
        typer.Argument(
            metavar="PICTURES_OR_FEATURES",
            help="A folder with one sub-folder per class (or a labels.csv), or a feature file with labels.",
        ),
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Take the last addition or correction back.")] = False,
    backbone: Annotated[
        str | None,
        typer.Option(metavar="NAME_OR_PATH", help="Where the model's backbone is, if not where its name says."),
    ] = None,
    batch_size: BatchSize = 32,
    runtime: Runtime = "auto",
    device: Device = "cpu",
) -> None:
    """Let a model learn from more labelled pictures in moments, without training it again; --undo takes it back."""
    from firstsight import embed
    from firstsight.encoders import survey_images
    from firstsight.persistence.added_samples import described_labels, require_incremental
    from firstsight.recognition import Recognizer
    from firstsight.recognition.inputs import is_feature_file

    if undo == (images is not None):
        raise BadInput("Give a folder of pictures (or a feature file) to add, or --undo, and not both.")
    if images is None:
        with Recognizer.changing(model) as changed:
            undone = changed.remove_images()
        say(f"Undone; samples per class: {undone}.")
        return
    samples: Any = images
    if not is_feature_file(images):  # encoded before the model is locked, which others may want to change meanwhile
        recognizer, survey = Recognizer.load(model, backbone), survey_images(images)
        require_incremental(recognizer.model)
        described_labels(recognizer.model, sorted(set(survey.classes or ())))
        encoding: dict[str, Any] = {"batch_size": batch_size, "runtime": runtime, "device": device}
        samples = embed(survey, backbone=recognizer.backbone.location, verbose=True, **encoding)
    with Recognizer.changing(model) as changed:
        added = changed.add_images(samples)
    say(f"Samples per class: {added}." if added.change else f"{str(added).capitalize()}.")
    if added.change:
        say(
            f"The model in {model} has learned {counted(sum(added.added.values()), 'sample')}. To undo: firstsight add "
            f"{quote(str(model))} --undo"
        )
