"""The format of the community's benchmarks (xlsa17): `att_splits.mat` and a file of features."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from firstsight._io.files import text_of_name
from firstsight.data import matfile
from firstsight.data.dataset import ZeroShotDataset
from firstsight.data.rules import Finding, RawDataset, as_float32, as_integers, classes_of_parts, in_range
from firstsight.errors import BadInput, UnknownName, UnreadableFile

ACCEPTS = "a folder with att_splits.mat and a feature file"
CHOOSES_FEATURES = True
SPLITS_FILE = "att_splits.mat"
_PREFERRED = "res101"
_PARTS = {"train": "trainval_loc", "test_seen": "test_seen_loc", "test_unseen": "test_unseen_loc"}
# Three public variants of these exist and one reaches into the test rows: only the audit ever reads them.
_UNTRUSTED = ("train_loc", "val_loc")


class NoFeatureFile(BadInput):
    """The folder has splits, but no file of features."""


def matches(path: Path) -> bool:
    return (path / SPLITS_FILE).exists()


def read_xlsa17(folder: str | Path, features: str | None = None) -> ZeroShotDataset:
    """Read a folder with `att_splits.mat` and a feature file, MATLAB v5 or v7.3.

    `features` names the feature file ("res50" or "res50.mat"); left out, it is `res101.mat`, or the only one
    there is. `train_loc` and `val_loc` are not used: `ZeroShotDataset.validation_folds` makes its own.
    """
    return ZeroShotDataset(**read(folder, features))


def read(folder: str | Path, features: str | None = None) -> dict[str, Any]:
    """Read the arguments of the data set in a folder."""
    folder = Path(folder)
    splits = _read_att_splits(folder)
    path = _feature_file(folder, features)
    if path is None:
        raise _no_features(folder)
    matfile.variable_shapes(path)  # a damaged file is called so, before its labels are looked for elsewhere
    labels = _read_labels([path, *_other_files(folder)])
    if labels["labels"] is None:
        raise BadInput(f"{path} has no variable 'labels'; add it, or put a labels.mat next to it.")
    matrix = matfile.read_matrix(path, "features")
    n_columns, n_rows = matrix.shape
    if n_columns != len(labels["labels"]) == n_rows:
        raise BadInput(
            f"'features' in {path} must have one column per sample, but is {n_rows} × {n_columns} with "
            f"{n_rows} labels; transpose it."
        )
    return {**splits, **labels, "features": matrix}


def read_splits(folder: str | Path) -> RawDataset:
    """Read classes, descriptions and parts, with the labels if any file has them, but without features."""
    folder = Path(folder)
    return RawDataset(**_read_att_splits(folder), **_read_labels(_other_files(folder)), features=None)


def find_in_unused_variables(folder: Path, data: RawDataset) -> Iterator[Finding]:
    """Look at variables of `att_splits.mat` that are never used here, for people who use them elsewhere."""
    variables = matfile.read_variables(folder / SPLITS_FILE, ("original_att", *_UNTRUSTED))
    original = np.transpose(variables.get("original_att", []))
    if original.ndim == 2 and (marked := original == -1).any():
        yield Finding(
            "note",
            f"`original_att` marks {marked.sum()} values as missing (−1), in {marked.any(axis=1).sum()} of "
            f"{len(marked)} classes; `att` carries them on as small negative numbers.",
        )
    for name in (name for name in _UNTRUSTED if name in variables):
        rows = _from_one(name, variables[name])
        for part in ("test_seen", "test_unseen"):
            reached = np.intersect1d(rows, data.parts[part]).size
            if reached:
                yield Finding("warning", f"`{name}` contains {reached} rows of `{part}` (firstsight never uses it).")
        if data.labels is not None:
            labels = np.unique(data.labels[in_range(rows, len(data.labels))])
            reached = np.intersect1d(labels, classes_of_parts(data)["test_unseen"]).size
            if reached:
                yield Finding("warning", f"`{name}` contains {reached} unseen classes (firstsight never uses it).")


def _read_att_splits(folder: Path) -> dict[str, Any]:
    path = folder / SPLITS_FILE
    if not path.exists():
        raise UnreadableFile(f"{folder} has no {SPLITS_FILE}; give a folder in the xlsa17 layout.")
    needed = ("allclasses_names", "att", *_PARTS.values())
    variables = matfile.read_variables(path, needed)
    missing = [name for name in needed if name not in variables]
    if missing:
        raise BadInput(f"{path} lacks {', '.join(missing)}; take the file of the Proposed Splits.")
    names = variables["allclasses_names"]
    if not isinstance(names, list):
        raise BadInput(f"'allclasses_names' in {path} must be a cell of names, but holds numbers; save it as one.")
    return {
        "name": text_of_name(folder.resolve().name),
        "class_names": names,
        "description_matrix": as_float32("att", np.transpose(variables["att"])),
        **{part: _from_one(variable, variables[variable]) for part, variable in _PARTS.items()},
        "numbered_from": 1,
    }


def _no_features(folder: Path) -> NoFeatureFile:
    return NoFeatureFile(
        f"{folder} has no feature file (a .mat file with 'features' and 'labels', such as {_PREFERRED}.mat); "
        f"put one next to {SPLITS_FILE}."
    )


def _read_labels(candidates: list[Path]) -> dict[str, Any]:
    """Read labels and sample names from the first file that has them."""
    path = next((path for path in candidates if _has(path, "labels")), None)
    if path is None:
        return {"labels": None}
    variables = matfile.read_variables(path, ("labels", "image_files"))
    labels, files = _from_one("labels", variables["labels"]), variables.get("image_files")
    # Names are a convenience: a file with too few of them still has good features.
    return {"labels": labels, "sample_names": files if isinstance(files, list) and len(files) == len(labels) else None}


def _from_one(what: str, values: object) -> np.ndarray:
    return as_integers(what, values) - 1  # MATLAB counts from one


def _other_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.mat") if path.name != SPLITS_FILE)


def _has(path: Path, variable: str) -> bool:
    try:
        return variable in matfile.variable_shapes(path)
    except UnreadableFile:
        return False


def _feature_file(folder: Path, features: str | None) -> Path | None:
    if features is not None:
        stem = features.removesuffix(".mat")
        known = {path.stem: path for path in _other_files(folder)}
        if not known:
            raise _no_features(folder)
        if stem not in known:
            raise UnknownName(f"feature file in {folder}", features, known)
        return known[stem]
    # A damaged file stays a candidate, so that the complaint is about the damage.
    candidates = [path for path in _other_files(folder) if path.stem == _PREFERRED or _has(path, "features")]
    candidates = candidates or [path for path in _other_files(folder) if not _has(path, "labels")]
    preferred = [path for path in candidates if path.stem == _PREFERRED]
    if len(candidates) > 1 and not preferred:
        raise BadInput(
            f"{folder} has several feature files ({', '.join(path.stem for path in candidates)}); "
            "name one with `features`."
        )
    return next(iter(preferred or candidates), None)
