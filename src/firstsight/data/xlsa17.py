"""The community's benchmark layout (Xian et al., "xlsa17"): `att_splits.mat` beside a file of features."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from firstsight.data import matfile
from firstsight.data.dataset import ZeroShotDataset
from firstsight.data.raw import RawDataset
from firstsight.data.rules import checks
from firstsight.errors import BadInput, UnknownName, UnreadableFile

SPLITS_FILE = "att_splits.mat"
_PREFERRED = "res101"
_PARTS = {"train": "trainval_loc", "test_seen": "test_seen_loc", "test_unseen": "test_unseen_loc"}
# Three public variants of these exist and one reaches into the test rows: only the audit ever reads them.
_UNTRUSTED = ("train_loc", "val_loc")


def read_xlsa17(folder: str | Path, features: str | None = None) -> ZeroShotDataset:
    """Read a folder with `att_splits.mat` and a feature file, MATLAB v5 or v7.3.

    `features` names the feature file ("res50" or "res50.mat"); left out, it is `res101.mat`, or the only one
    there is. `train_loc` and `val_loc` are not used: `ZeroShotDataset.validation_folds` makes its own.
    """
    return read_raw(folder, features).checked()


def read_raw(folder: str | Path, features: str | None = None) -> RawDataset:
    """As `read_xlsa17`, unjudged; features or labels that are not there are None."""
    folder = Path(folder)
    raw = _read_att_splits(folder)
    path = _feature_file(folder, features)
    if path is not None:
        matfile.variable_shapes(path)  # a damaged file is called so, before its labels are looked for elsewhere
    _add_labels(raw, [*([] if path is None else [path]), *_beside(folder)])
    if path is None:
        return raw
    if raw.labels is None:
        raw.absent = f"{path} has no variable 'labels'; add it, or put a labels.mat beside it."
    raw.features = matfile.read_matrix(path, "features")
    n_columns, n_rows = raw.features.shape
    if raw.labels is not None and n_columns != len(raw.labels) == n_rows:
        raise BadInput(
            f"'features' in {path} must have one column per sample, but is {n_rows} × {n_columns} with "
            f"{n_rows} labels; transpose it."
        )
    return raw


def read_splits(folder: str | Path) -> RawDataset:
    """Classes, descriptions and parts, with the labels if any file has them, but without features."""
    raw = _read_att_splits(Path(folder))
    _add_labels(raw, _beside(Path(folder)))
    return raw


def _read_att_splits(folder: Path) -> RawDataset:
    path = folder / SPLITS_FILE
    if not path.exists():
        raise UnreadableFile(f"{folder} has no {SPLITS_FILE}; give a folder in the xlsa17 layout.")
    needed = ("allclasses_names", "att", *_PARTS.values())
    found = matfile.read_variables(path, (*needed, "original_att", *_UNTRUSTED))
    missing = [name for name in needed if name not in found]
    if missing:
        raise BadInput(f"{path} lacks {', '.join(missing)}; take the file of the Proposed Splits.")
    names = found["allclasses_names"]
    if not isinstance(names, list):
        raise BadInput(f"'allclasses_names' in {path} must be a cell of names, but holds numbers; save it as one.")
    original = found.get("original_att")
    return RawDataset(
        name=folder.resolve().name,
        class_names=tuple(names),
        description_matrix=checks.as_float32("att", np.transpose(found["att"])),
        parts={part: _from_one(variable, found[variable]) for part, variable in _PARTS.items()},
        numbered_from=1,
        original_attributes=original.T if isinstance(original, np.ndarray) else None,
        untrusted={name: _from_one(name, found[name]) for name in _UNTRUSTED if name in found},
        absent=_no_features(folder),
    )


def _no_features(folder: Path) -> str:
    return (
        f"{folder} has no feature file (a .mat file with 'features' and 'labels', such as {_PREFERRED}.mat); "
        f"put one beside {SPLITS_FILE}."
    )


def _add_labels(raw: RawDataset, candidates: list[Path]) -> None:
    """Labels and sample names from the first file that has them."""
    path = next((path for path in candidates if _has(path, "labels")), None)
    if path is None:
        return
    found = matfile.read_variables(path, ("labels", "image_files"))
    raw.labels = _from_one("labels", found["labels"])
    files = found.get("image_files")
    # Names are a convenience: a file with too few of them still has good features.
    raw.sample_names = tuple(files) if isinstance(files, list) and len(files) == len(raw.labels) else None


def _from_one(what: str, values: object) -> np.ndarray:
    return checks.as_integers(what, values) - 1  # MATLAB counts from one


def _beside(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.mat") if path.name != SPLITS_FILE)


def _has(path: Path, variable: str) -> bool:
    try:
        return variable in matfile.variable_shapes(path)
    except UnreadableFile:
        return False


def _feature_file(folder: Path, features: str | None) -> Path | None:
    if features is not None:
        stem = features.removesuffix(".mat")
        known = {path.stem: path for path in _beside(folder)}
        if not known:
            raise BadInput(_no_features(folder))
        if stem not in known:
            raise UnknownName(f"feature file in {folder}", features, known)
        return known[stem]
    # A damaged file stays a candidate, so that the complaint is about the damage.
    candidates = [path for path in _beside(folder) if path.stem == _PREFERRED or _has(path, "features")]
    candidates = candidates or [path for path in _beside(folder) if not _has(path, "labels")]
    preferred = [path for path in candidates if path.stem == _PREFERRED]
    if len(candidates) > 1 and not preferred:
        raise BadInput(
            f"{folder} has several feature files ({', '.join(path.stem for path in candidates)}); "
            "name one with `features`."
        )
    return next(iter(preferred or candidates), None)
