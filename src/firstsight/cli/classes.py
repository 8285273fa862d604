"""`firstsight classes`: which classes a saved model knows; add, change and remove them without retraining."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True)
Model = Annotated[Path, typer.Argument(help="A model folder.")]


@app.command("list")
def list_classes(
    model: Model,
    json: Annotated[bool, typer.Option("--json", help="As JSON, with the descriptions.")] = False,
) -> None:
    """Show every class of a model and whether training had samples of it."""
    from firstsight.models import load_saved

    saved = load_saved(model)
    found, names = saved.model, saved.facts.get("attributes") or []
    seen = (found.seen_code_ >= 0).tolist()
    if json:
        import json as writer

        rows = zip(found.classes_.tolist(), seen, found.descriptions_.tolist(), strict=True)
        entries = [{"class": label, "seen": known, "description": numbers} for label, known, numbers in rows]
        text = writer.dumps({"attributes": names, "classes": entries}, ensure_ascii=False, indent=1) + "\n"
    else:
        import csv
        import io

        out = io.StringIO()
        writer_ = csv.writer(out, lineterminator="\n")
        writer_.writerow(["class", "seen"])
        writer_.writerows(zip(found.classes_.tolist(), ("yes" if s else "no" for s in seen), strict=True))
        text = out.getvalue()
    sys.stdout.write(text)


@app.command("add")
def add(
    model: Model,
    table: Annotated[Path, typer.Argument(help="One row per class: its name and its attributes (.csv or .parquet).")],
    replace: Annotated[bool, typer.Option("--replace", help="Change the description of classes that exist.")] = False,
) -> None:
    """Add classes to a model, or change them with --replace; the model is not retrained."""
    from firstsight.cli.embed import say
    from firstsight.data import read_descriptions
    from firstsight.models import add_classes, load_saved, save
    from firstsight.models.class_table import align_attributes

    saved = load_saved(model)
    descriptions = align_attributes(read_descriptions(table), saved.facts.get("attributes"))
    changed = add_classes(saved.model, descriptions, replace)
    save(changed, model, saved.facts, saved.calibration)
    new = len(changed.classes_) - len(saved.model.classes_)
    also = f", {len(descriptions) - new} changed" if len(descriptions) > new else ""
    say(f"{new} classes added{also}; the model in {model} knows {len(changed.classes_)}.")


@app.command("remove")
def remove(
    model: Model,
    names: Annotated[list[str], typer.Argument(help="The classes to remove, seen or unseen.")],
) -> None:
    """Remove classes from a model: it never answers with them again, until they are added back."""
    from firstsight.cli.embed import say
    from firstsight.models import load_saved, remove_classes, save
    from firstsight.models.class_table import as_labels

    saved = load_saved(model)
    changed = remove_classes(saved.model, as_labels(saved.model, names))
    save(changed, model, saved.facts, saved.calibration)
    gone = len(saved.model.classes_) - len(changed.classes_)
    say(f"{gone} classes removed; the model in {model} knows {len(changed.classes_)}.")
