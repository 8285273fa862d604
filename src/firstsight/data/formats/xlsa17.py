"""The community's benchmark layout (Xian et al., "xlsa17"): `att_splits.mat` beside a file of features."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from firstsight._io.files import text_of_name
from firstsight.data import matfile
from firstsight.data.dataset import ZeroShotDataset
from firstsight.data.rules import as_float32, as_integers
from firstsight.data.unchecked import UncheckedDataset
from firstsight.errors import BadInput, UnknownName, UnreadableFile

ACCEPTS = "a folder with att_splits.mat and a feature file"
CHOOSES_FEATURES = True
SPLITS_FILE = "att_splits.mat"
_PREFERRED = "res101"
_PARTS = {"train": "trainval_loc", "test_seen": "test_seen_loc", "test_unseen": "test_unseen_loc"}
# Three public variants of these exist and one reaches into the test rows: only the audit ever reads them.
_UNTRUSTED = ("train_loc", "val_loc")


def matches(path: Path) -> bool:
    return (path / SPLITS_FILE).exists()


def read_xlsa17(folder: str | Path, features: str | None = None) -> ZeroShotDataset:
    """Read a folder with `att_splits.mat` and a feature file, MATLAB v5 or v7.3.

    `features` names the feature file ("res50" or "res50.mat"); left out, it is `res101.mat`, or the only one
    there is. `train_loc` and `val_loc` are not used: `ZeroShotDataset.validation_folds` makes its own.
    """
    return ZeroShotDataset.judged(read(folder, features))


def read(folder: str | Path, features: str | None = None) -> UncheckedDataset:
    """As `read_xlsa17`, unjudged; features or labels that are not there are None."""
    folder = Path(folder)
    data = _read_att_splits(folder)
    path = _feature_file(folder, features)
    if path is not None:
        matfile.variable_shapes(path)  # a damaged file is called so, before its labels are looked for elsewhere
    _add_labels(data, [*([] if path is None else [path]), *_beside(folder)])
    if path is None:
        return data
    if data.labels is None:
        data.absent = f"{path} has no variable 'labels'; add it, or put a labels.mat beside it."
    data.features = matfile.read_matrix(path, "features")
    n_columns, n_rows = data.features.shape
    if data.labels is not None and n_columns != len(data.labels) == n_rows:
        raise BadInput(
            f"'features' in {path} must have one column per sample, but is {n_rows} × {n_columns} with "
            f"{n_rows} labels; transpose it."
        )
    return data


def read_splits(folder: str | Path) -> UncheckedDataset:
    """Classes, descriptions and parts, with the labels if any file has them, but without features."""
    data = _read_att_splits(Path(folder))
    _add_labels(data, _beside(Path(folder)))
    return data


def _read_att_splits(folder: Path) -> UncheckedDataset:
    path = folder / SPLITS_FILE
    if not path.exists():
        raise UnreadableFile(f"{folder} has no {SPLITS_FILE}; give a folder in the xlsa17 layout.")
    needed = ("allclasses_names", "att", *_PARTS.values())
    variables = matfile.read_variables(path, (*needed, "original_att", *_UNTRUSTED))
    missing = [name for name in needed if name not in variables]
    if missing:
        raise BadInput(f"{path} lacks {', '.join(missing)}; take the file of the Proposed Splits.")
    names = variables["allclasses_names"]
    if not isinstance(names, list):
        raise BadInput(f"'allclasses_names' in {path} must be a cell of names, but holds numbers; save it as one.")
    original = np.transpose(variables.get("original_att", []))
    return UncheckedDataset(
        name=text_of_name(folder.resolve().name),
        class_names=tuple(names),
        description_matrix=as_float32("att", np.transpose(variables["att"])),
        parts={part: _from_one(variable, variables[variable]) for part, variable in _PARTS.items()},
        numbered_from=1,
        original_attributes=original if original.ndim == 2 else None,
        untrusted={name: _from_one(name, variables[name]) for name in _UNTRUSTED if name in variables},
        absent=_no_features(folder),
    )


def _no_features(folder: Path) -> str:
    return (
        f"{folder} has no feature file (a .mat file with 'features' and 'labels', such as {_PREFERRED}.mat); "
        f"put one beside {SPLITS_FILE}."
    )


def _add_labels(data: UncheckedDataset, candidates: list[Path]) -> None:
    """Labels and sample names from the first file that has them."""
    path = next((path for path in candidates if _has(path, "labels")), None)
    if path is None:
        return
    variables = matfile.read_variables(path, ("labels", "image_files"))
    data.labels = _from_one("labels", variables["labels"])
    files = variables.get("image_files")
    # Names are a convenience: a file with too few of them still has good features.
    data.sample_names = tuple(files) if isinstance(files, list) and len(files) == len(data.labels) else None


def _from_one(what: str, values: object) -> np.ndarray:
    return as_integers(what, values) - 1  # MATLAB counts from one


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
