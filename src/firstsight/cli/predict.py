"""`firstsight predict`: name pictures, or the rows of a feature file, with a saved model."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firstsight.cli.rows import encode_pictures, is_feature_file, read_rows
from firstsight.errors import BadInput

if TYPE_CHECKING:
    from firstsight.recognition import Answers


def predict(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    inputs: Annotated[
        list[Path],
        typer.Argument(
            metavar="PICTURES_OR_FEATURES",
            help="A folder of pictures, pictures, or a feature file: .npy, .npz (key: features), .csv or .parquet.",
        ),
    ],
    classes: Annotated[
        str,
        typer.Option(help="all, seen, unseen, names with commas between them, or a table of new classes (.csv)."),
    ] = "all",
    top: Annotated[int, typer.Option(min=1, help="How many classes to rank per row in the JSON file.")] = 1,
    csv: Annotated[
        Path | None, typer.Option(help="Write row (or file) and class here instead of to the screen.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write ranked classes with confidence and score here.")] = None,
    none_of_these: Annotated[
        bool, typer.Option("--none-of-these", help="Answer so where no candidate fits; needs a calibrated model.")
    ] = False,
    reject_share: Annotated[
        float,
        typer.Option(min=0, max=0.99, help="The share of rows of known classes that --none-of-these may lose."),
    ] = 0.05,
    shift_seen: Annotated[
        bool,
        typer.Option(
            "--shift-seen", help="Take the calibration's constant off seen classes; this changes answers, on purpose."
        ),
    ] = False,
    why: Annotated[
        bool, typer.Option("--why", help="Tell which attributes speak for and against each answer.")
    ] = False,
    backbone: Annotated[
        str | None,
        typer.Option(metavar="NAME_OR_PATH", help="Where the model's backbone is, if not where its name says."),
    ] = None,
) -> None:
    """Name every picture, or every row of a feature file: one line each, with its class and its confidence."""
    from firstsight.cli.embed import say
    from firstsight.cli.options import write_json
    from firstsight.files import write_atomically
    from firstsight.models import load_saved
    from firstsight.recognition import answer
    from firstsight.recognition.answers import NO_CALIBRATION
    from firstsight.terminal import progress

    saved = load_saved(model)
    candidates = choose_classes(saved.model, classes, saved.facts.get("attributes"))
    pictures = not is_feature_file(inputs)
    X, names = (
        encode_pictures(saved, model, inputs, backbone) if pictures else read_rows(saved, model, inputs[0], backbone)
    )
    with progress("Reasons", len(X), why) as show:
        answers = answer(
            saved,
            X,
            candidates,
            top,
            reject_share=reject_share if none_of_these else None,
            shift_seen=shift_seen,
            why=why,
            progress=lambda done, total: show(done, ""),
        )
    if json is not None:
        if saved.calibration is None:
            say(f"note: {NO_CALIBRATION}.")
        entries = answers.as_json(names)
        if not pictures:  # a row may be a number
            entries = [{"row": name, **entry} for name, entry in zip(names, entries, strict=True)]
        write_json(json, entries)
    text = _as_csv("file" if pictures else "row", names, answers)
    if csv is not None:
        write_atomically(csv, text)
    elif json is None:
        sys.stdout.write(text)


def choose_classes(model, words: str, attributes: list[str] | None = None):
    """What `predict(classes=…)` takes, from what a person wrote."""
    if words in ("all", "seen", "unseen"):
        chosen = {"all": None, "seen": model.seen_classes_, "unseen": model.unseen_classes_}[words]
        if chosen is not None and len(chosen) == 0:
            raise BadInput(f"This model has no {words} classes; leave --classes out or name some.")
        return chosen
    if words.endswith((".csv", ".parquet")):
        from firstsight.data import read_descriptions
        from firstsight.models.class_table import align_attributes, as_labels

        table = read_descriptions(words)
        if table.shape[1] == model.descriptions_.shape[1]:
            table = align_attributes(table, attributes)  # a wrong number of attributes has a sentence of its own
        return table.set_axis(as_labels(model, table.index), axis="index")
    names = [name.strip() for name in words.split(",")]
    return [int(n) for n in names] if model.classes_.dtype.kind in "iu" and all(n.isdigit() for n in names) else names


def _as_csv(key: str, names: list, answers: Answers) -> str:
    """One line per row: its name, its class, and what else is known."""
    columns = [key, "class"]
    columns += ["confidence"] * (answers.confidence is not None) + ["for", "against"] * (answers.why is not None)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for name, entry in zip(names, answers.as_json(names), strict=True):
        line = [name, entry["class"]]
        if answers.confidence is not None:
            line.append("" if entry["confidence"] is None else f"{entry['confidence']:.4f}")
        if answers.why is not None:
            line += ["; ".join(one["attribute"] for one in entry["why"][side]) for side in ("for", "against")]
        writer.writerow(line)
    return out.getvalue()
