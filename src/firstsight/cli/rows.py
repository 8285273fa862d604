"""What a saved model is to name: the rows of a feature file, or pictures by way of the model's own backbone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from firstsight.errors import BadInput, FirstsightError

if TYPE_CHECKING:
    import numpy as np

    from firstsight.models import Saved

SKIPPED_SHOWN = 20


def is_feature_file(inputs: list[Path]) -> bool:
    """Whether what was given is one file of features, by its name; anything else is pictures."""
    from firstsight.encoders.folders import SUFFIXES

    (first, *more) = inputs
    return not more and not first.is_dir() and first.suffix.lower() not in SUFFIXES


def read_rows(saved: Saved, folder: Path, path: Path, backbone: str | None) -> tuple[np.ndarray, list]:
    """Features (n, d) of a file and the rows' names or numbers; refused if another source made them."""
    from firstsight.data import read_features

    if backbone is not None:
        raise BadInput(f"--backbone is for pictures, but {path} holds features; leave it out.")
    X, names = read_features(path)
    if X.shape[1] != saved.model.n_features_in_:
        raise BadInput(
            f"{path} has {X.shape[1]} features per row; the model in {folder} was fitted with "
            f"{saved.model.n_features_in_}: use features from the same source."
        )
    if path.suffix == ".npz" and _backbone(saved):
        from firstsight.data.feature_files import read_feature_file

        made_by = read_feature_file(path).backbone
        if made_by is not None:
            _check_backbone(saved, folder, f"The features in {path} are of", made_by)
    return X, names


def encode_pictures(saved: Saved, folder: Path, inputs: list[Path], backbone: str | None) -> tuple[np.ndarray, list]:
    """Features of pictures and their paths; what cannot be read is told on the screen and left out."""
    from firstsight.cli.embed import say
    from firstsight.encoders import PictureEncoder, find_pictures
    from firstsight.terminal import progress

    paths = [path for given in inputs for path in find_pictures(given)[0]]
    known = _backbone(saved)
    if not known:
        raise BadInput(
            f"The model in {folder} was fitted on {saved.model.n_features_in_} features per row from a source that it "
            "does not know, not on pictures; give a file with features from the same source."
        )
    try:
        encoder = PictureEncoder(backbone or _place(known))
        made_by = {"name": encoder.backbone, "fingerprint": encoder.fingerprint}
    except FirstsightError as error:
        if backbone is not None:
            raise
        raise BadInput(
            f"The model in {folder} needs its backbone {known['name']!r}: say where it is with --backbone FOLDER. "
            f"({error})"
        ) from error
    _check_backbone(saved, folder, "This is", made_by)
    with progress("Pictures", len(paths), True) as show:
        encoded = encoder.encode(paths, progress=lambda done, total: show(done, ""))
    for name, reason in encoded.skipped[:SKIPPED_SHOWN]:
        say(f"skipped {name}: {reason}.")
    if len(encoded.skipped) > SKIPPED_SHOWN:
        say(f"skipped {len(encoded.skipped) - SKIPPED_SHOWN} more.")
    if not encoded.files:
        name, reason = encoded.skipped[0]
        raise BadInput(f"None of the {len(paths)} pictures could be read (for {name}: {reason}); check them.")
    if encoded.skipped:
        say(f"{len(encoded.skipped)} of {len(paths)} pictures were skipped.")
    return encoded.features, encoded.files


def _backbone(saved: Saved) -> dict[str, Any]:
    known = saved.facts.get("backbone")
    return known if isinstance(known, dict) and known.get("name") else {}


def _place(known: dict[str, Any]) -> str:
    """Where the backbone was when the model was made, if the model says so and it is still there; else its name."""
    path = known.get("path")
    return path if isinstance(path, str) and Path(path).is_dir() else known["name"]


def _check_backbone(saved: Saved, folder: Path, what: str, made_by: dict[str, Any]) -> None:
    known = _backbone(saved)
    if made_by.get("fingerprint") != known.get("fingerprint"):
        here, there = (f"{one.get('name')} ({str(one.get('fingerprint'))[:8]})" for one in (made_by, known))
        raise BadInput(
            f"{what} the backbone {here}, but the model in {folder} was fitted with features of {there}; their numbers "
            "mean different things: use the same backbone."
        )
