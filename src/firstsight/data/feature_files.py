"""Features of a folder of pictures in one .npz file: what `firstsight embed` writes and later commands read."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from firstsight.data import npz, tables
from firstsight.data.rules import checks
from firstsight.errors import BadInput, UnreadableFile
from firstsight.files import write_atomically


@dataclass(frozen=True, eq=False)
class FeatureFile:
    """Features (n, d) float32 of n named samples, their classes where known, and what made them.

    `backbone` holds name, fingerprint and dim of the model that looked at the pictures; None for features from
    elsewhere. `skipped` are the pictures that could not be read, with the reason.
    """

    features: np.ndarray
    names: list[str]
    labels: list[str] | None = None
    backbone: dict[str, Any] | None = None
    skipped: list[tuple[str, str]] = field(default_factory=list)


def write_feature_file(path: str | Path, content: FeatureFile) -> None:
    """Write an .npz file of plain arrays: features, sample_names, labels, backbone (JSON) and skipped (n, 2)."""
    path = Path(path)
    if path.suffix != ".npz":
        raise BadInput(f"The file must end in .npz, but is called {path.name!r}; rename it.")
    arrays = {"features": content.features, "sample_names": np.array(content.names, dtype=np.str_)}
    if content.labels is not None:
        arrays["labels"] = np.array(content.labels, dtype=np.str_)
    if content.backbone is not None:
        arrays["backbone"] = np.array(json.dumps(content.backbone, ensure_ascii=False))
    if content.skipped:
        arrays["skipped"] = np.array(content.skipped, dtype=np.str_)

    def save(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)

    write_atomically(path, save)


def read_feature_file(path: str | Path) -> FeatureFile:
    """Read what `write_feature_file` wrote, or a table (.csv, .parquet) with the columns class and sample.

    Everything but the features may be missing; samples without names are called by their numbers.
    """
    path = Path(path)
    features, names = tables.read_features(path)
    names = [str(name) for name in names]
    if path.suffix != ".npz":
        return FeatureFile(features, names, tables.read_classes_of_samples(path))
    found = npz.read_arrays(path, ("labels", "backbone", "skipped"))
    labels = found.get("labels")
    if labels is not None and labels.dtype.kind in "iu":
        labels = None  # the codes of a whole data set, whose features will do as well
    if labels is not None and (labels.shape != (len(features),) or labels.dtype.kind != "U"):
        raise BadInput(f"`labels` in {path} must be one class name per row of features; write the file again.")
    try:
        backbone = json.loads(str(found["backbone"])) if "backbone" in found else None
    except ValueError as error:
        raise UnreadableFile(f"`backbone` in {path} is not JSON ({error}); write the file again.") from error
    skipped = [(str(name), str(reason)) for name, reason in found.get("skipped", ())]
    checks.check_length("sample_names", len(names), len(features), "rows")
    return FeatureFile(features, names, None if labels is None else labels.tolist(), backbone, skipped)
