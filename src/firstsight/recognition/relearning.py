"""Learn a model again: classes that were taught to the one before, and labelled images added to it, are kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from firstsight._io.terminal import counted, logger
from firstsight.errors import BadInput
from firstsight.methods import IncrementalClassifier, ZeroShotClassifier
from firstsight.persistence.added_samples import add_samples
from firstsight.persistence.class_table import with_classes
from firstsight.persistence.model_folder import FormerChanges, check_target, read_changes, replacing
from firstsight.recognition.recognizer import Recognizer
from firstsight.recognition.scoring import in_fit


def changes_to_keep(
    out: str | Path | None, descriptions: pd.DataFrame, overwrite: bool
) -> tuple[pd.DataFrame, FormerChanges | None]:
    """The table of classes to learn with, those that were taught among them, and what is to be kept of the old model.

    Images of a class that was taught may then be among the labelled ones.
    """
    changes = None if out is None or overwrite else read_changes(check_target(out), descriptions)
    return descriptions if changes is None else with_classes(descriptions, changes.taught), changes


def check_samples_can_be_kept(
    changes: FormerChanges | None,
    estimator: ZeroShotClassifier,
    descriptions: pd.DataFrame,
    backbone: Mapping[str, Any] | None,
    feature_names: list[str] | None = None,
) -> None:
    """Raise `BadInput`, before the long part, if labelled samples were added that the new model cannot learn from.

    `backbone` are the facts of the model that made the features to learn from.
    """
    if changes is None or not changes.samples:
        return
    added = f"{counted(changes.samples, 'labelled sample')} {'was' if changes.samples == 1 else 'were'} added to it"
    advice = "Put the images into the training folder and give --overwrite (overwrite=True), or choose another folder."
    if not isinstance(estimator, IncrementalClassifier):
        raise BadInput(
            f"The former model cannot be replaced: {added}, and {type(estimator).__name__} cannot learn from these "
            f"after its fit. {advice}"
        )
    known, new = changes.backbone, (backbone or {}).get("fingerprint")
    same_names = known is not None or changes.feature_names == feature_names
    if (known.fingerprint if known else None) != new or not same_names:
        name = known.name if known else "features of another source"
        raise BadInput(
            f"The former model cannot be replaced: {added} with {name}, and the new model has other features. {advice}"
        )
    described = set(map(str, descriptions.index))
    missing = [label for _, labels, _ in changes.calls for label in map(str, labels) if label not in described]
    if missing:
        raise BadInput(
            f"The former model cannot be replaced: {added}, some of them of the class {missing[0]!r}, which the table "
            "of classes does not describe. Add its description, or give --overwrite (overwrite=True) to forget them."
        )


def save_again(recognizer: Recognizer, out: str | Path, descriptions: pd.DataFrame) -> None:
    """Replace the model of a folder; what was taught to it, also while the new one was fitted, is taught to the new.

    `descriptions` is the table of classes without what was taught.
    """
    with replacing(out, descriptions, recognizer) as changes:
        if changes is not None and (kept := _keep(recognizer, changes, descriptions)):
            logger.warning(
                "kept from the former model: %s. To forget this, learn with --overwrite (overwrite=True).", kept
            )


def _keep(recognizer: Recognizer, changes: FormerChanges, descriptions: pd.DataFrame) -> str:
    """Change the model; returns what was kept, in words."""
    kept = changes.classes_as_text(descriptions)
    if len(changes.taught):
        taught = changes.taught.set_axis(_columns(recognizer.model, changes.taught), axis="columns")
        recognizer.add_classes(taught, replace=True)
    if changes.samples:
        added = sum(_add_call(recognizer, *call) for call in changes.calls)
        if added:
            kept.append(f"{counted(added, 'labelled sample')} added")
        if trained := changes.samples - added:
            kept.append(f"{counted(trained, 'added sample')} now among the training images")
    # Last: samples may have been added of them. A taught class may have been removed while the model was fitted.
    if removed := {*changes.removed, *changes.forgotten} & set(recognizer.model.classes_.tolist()):
        recognizer.remove_classes(sorted(removed))
    return "; ".join(kept)


def _columns(model: ZeroShotClassifier, taught: pd.DataFrame) -> Any:
    """The model's attributes where it has names; `taught` is in their order."""
    return getattr(model, "attribute_names_in_", range(taught.shape[1]))


def _add_call(recognizer: Recognizer, features: np.ndarray, labels: list[Any], prints: np.ndarray) -> int:
    """Add the samples of one call again, but not those that training had with a label; returns how many."""
    status = in_fit(recognizer.model, features, prints) or [None] * len(labels)
    rows = [row for row, part in enumerate(status) if part != "labelled"]
    if rows:
        chosen = [labels[row] for row in rows]
        recognizer.model, _ = add_samples(recognizer.model, features[rows], chosen, prints[rows])
    return len(rows)
