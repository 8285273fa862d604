"""Which classes a model is to choose from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from firstsight.data import read_descriptions
from firstsight.errors import BadInput
from firstsight.models.class_table import as_labels

if TYPE_CHECKING:
    from firstsight.methods import ZeroShotClassifier

Candidates = str | Path | Sequence[Any] | pd.DataFrame | None


def choose_classes(model: ZeroShotClassifier, wanted: Candidates) -> Any:
    """What `predict(classes=…)` takes: from "all", "seen" or "unseen", names, a table of classes, or its file."""
    if isinstance(wanted, str) and wanted in ("all", "seen", "unseen"):
        chosen = {"all": None, "seen": model.seen_classes_, "unseen": model.unseen_classes_}[wanted]
        if chosen is not None and len(chosen) == 0:
            raise BadInput(f"This model has no {wanted} classes; leave --classes out or name some.")
        return chosen
    if isinstance(wanted, (str, Path)):
        is_table = str(wanted).endswith((".csv", ".parquet"))
        wanted = read_descriptions(wanted) if is_table else [str(wanted)]
    if isinstance(wanted, pd.DataFrame):
        return wanted.set_axis(as_labels(model, wanted.index), axis="index")
    if wanted is None:
        return None
    names = list(wanted)
    numbered = model.classes_.dtype.kind in "iu" and all(str(name).isdecimal() for name in names)
    return [int(name) for name in names] if numbered else names
