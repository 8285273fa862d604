"""`firstsight predict`: name the rows of a feature file with a saved model."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import Annotated

import typer

from firstsight.errors import BadInput


def predict(
    model: Annotated[Path, typer.Argument(help="A folder that `firstsight fit` wrote.")],
    features: Annotated[Path, typer.Argument(help=".npy, .npz (key: features), .csv or .parquet; one row per sample.")],
    classes: Annotated[
        str,
        typer.Option(help="all, seen, unseen, names with commas between them, or a table of new classes (.csv)."),
    ] = "all",
    top: Annotated[int, typer.Option(min=1, help="How many classes to rank per row in the JSON file.")] = 1,
    csv: Annotated[Path | None, typer.Option(help="Write row and class here instead of to the screen.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write ranked classes with their scores here.")] = None,
) -> None:
    """Name every row of a feature file: one line per row, its number (or name) and its class."""
    from firstsight.cli.options import write_json
    from firstsight.data import read_features
    from firstsight.files import write_atomically
    from firstsight.serving import load

    loaded = load(model)
    X, names = read_features(features)
    if X.shape[1] != loaded.n_features_in_:
        raise BadInput(
            f"{features} has {X.shape[1]} features per row; the model in {model} was fitted with "
            f"{loaded.n_features_in_}: use features from the same source."
        )
    candidates = choose_classes(loaded, classes)
    found = loaded.predict(X, classes=candidates)
    if json is not None:
        write_json(json, _ranked(loaded, X, names, candidates, top))
    text = _as_csv(zip(names, found.tolist(), strict=True))
    if csv is not None:
        write_atomically(csv, text)
    elif json is None:
        sys.stdout.write(text)


def choose_classes(model, words: str):
    """What `predict(classes=…)` takes, from what a person wrote."""
    if words in ("all", "seen", "unseen"):
        chosen = {"all": None, "seen": model.seen_classes_, "unseen": model.unseen_classes_}[words]
        if chosen is not None and len(chosen) == 0:
            raise BadInput(f"This model has no {words} classes; leave --classes out or name some.")
        return chosen
    if words.endswith((".csv", ".parquet")):
        from firstsight.data import read_descriptions

        return read_descriptions(words)
    names = [name.strip() for name in words.split(",")]
    return [int(n) for n in names] if model.classes_.dtype.kind in "iu" and all(n.isdigit() for n in names) else names


def _ranked(model, X, names, candidates, top: int) -> list[dict]:
    labels = model.classes_ if candidates is None else getattr(candidates, "index", candidates)
    labels = [c.item() if hasattr(c, "item") else c for c in labels]
    scores = model.decision_function(X, classes=list(labels) if candidates is None else candidates)
    best = (-scores).argsort(axis=1, kind="stable")[:, :top]
    return [
        {
            "row": name,
            "class": labels[order[0]],
            "top": [{"class": labels[j], "score": float(row[j])} for j in order],
        }
        for name, row, order in zip(names, scores, best, strict=True)
    ]


def _as_csv(rows) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["row", "class"])
    writer.writerows(rows)
    return out.getvalue()
