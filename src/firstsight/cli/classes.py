"""`firstsight classes`: which classes a saved model knows; add, change and remove them without retraining."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from firstsight._io.terminal import counted, say, write_out

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
    table: Annotated[Path, typer.Argument(help="One row per class: its name and its attributes (.csv or .parquet).")],
    replace: Annotated[bool, typer.Option("--replace", help="Change the description of classes that exist.")] = False,
) -> None:
    """Add classes to a model, or change them with --replace; the model is not retrained."""
    from firstsight.data import read_descriptions
    from firstsight.recognition import Recognizer

    described = read_descriptions(table)
    with Recognizer.changing(model) as changed:
        before = len(changed.classes)
        changed.add_classes(described, replace)
    new = len(changed.classes) - before
    also = f", {len(described) - new} changed" if len(described) > new else ""
    say(f"{counted(new, 'class')} added{also}; the model in {model} knows {len(changed.classes)}.")


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
