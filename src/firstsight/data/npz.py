"""A whole data set in one .npz file of plain arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from firstsight.data.dataset import ZeroShotDataset
from firstsight.data.raw import RawDataset
from firstsight.data.rules import checks
from firstsight.data.rules.checks import PARTS
from firstsight.errors import BadInput, UnreadableFile
from firstsight.files import write_atomically

_NEEDED = ("features", "labels", "class_names", "descriptions", *PARTS)
_BEFORE = "class_attributes"  # what descriptions were called in files of firstsight 0.1
_OPTIONAL = ("name", "attribute_names", "images", "sample_names")


def read_npz(path: str | Path) -> ZeroShotDataset:
    """Read what `write_npz` wrote, or any .npz file with the same keys; nothing in it is ever unpickled.

    Keys: features (N, d), labels (N,) whole numbers, class_names (C,) text, descriptions (C, a), and row
    numbers train, test_seen, test_unseen; optional: name, attribute_names (a,), images (N, h, w) uint8,
    sample_names (N,). All numbers count from 0.
    """
    return read_raw_npz(path).checked()


def read_raw_npz(path: str | Path) -> RawDataset:
    """As `read_npz`, unjudged."""
    path = Path(path)
    found = read_arrays(path, (*_NEEDED, *_OPTIONAL, _BEFORE))
    if _BEFORE in found:
        found.setdefault("descriptions", found.pop(_BEFORE))
    missing = [key for key in _NEEDED if key not in found]
    if missing:
        raise BadInput(f"{path} lacks {', '.join(missing)}; read_npz says which keys there must be.")
    names = {key: _names(path, found, key) for key in ("class_names", "attribute_names", "sample_names")}
    return RawDataset(
        name=str(found["name"]) if "name" in found else path.stem,
        class_names=names["class_names"] or (),
        description_matrix=checks.as_float32("descriptions", found["descriptions"]),
        parts={part: checks.as_integers(part, found[part]) for part in PARTS},
        labels=checks.as_integers("labels", found["labels"]),
        features=checks.as_float32("features", found.pop("features")),
        attribute_names=names["attribute_names"],
        images=found.get("images"),
        sample_names=names["sample_names"],
    )


def read_feature_arrays(path: Path) -> tuple[np.ndarray, list]:
    """Features (n, d) and names of the rows of an .npy matrix or an .npz file with the key `features`."""
    found = read_arrays(path, ("features", "sample_names"))
    if "features" not in found:
        raise BadInput(f"{path} lacks the key 'features'; save the rows to predict under it.")
    X = checks.as_float32("features", found["features"])
    names = _names(path, found, "sample_names")
    return X, list(range(len(X)) if names is None else names)


def read_arrays(path: Path, keys: tuple[str, ...]) -> dict[str, np.ndarray]:
    """The named arrays of an .npz file that are there; the one array of an .npy file is its `features`."""
    try:
        file = np.load(path, allow_pickle=False)
        if isinstance(file, np.ndarray):
            if path.suffix != ".npy":
                raise ValueError("a single array")
            return {"features": file}
        with file:
            return {key: file[key] for key in keys if key in file}
    except FileNotFoundError as error:
        raise UnreadableFile(f"{path} does not exist; check the path.") from error
    except Exception as error:  # zipfile, zlib and NumPy answer damage with many unrelated types
        raise UnreadableFile(
            f"{path} could not be read as an {path.suffix} file of plain arrays ({type(error).__name__}); it is "
            "damaged, foreign or pickled: save it with firstsight's write_npz or numpy.savez."
        ) from error


def _names(path: Path, found: dict[str, np.ndarray], key: str) -> tuple[str, ...] | None:
    if key not in found:
        return None
    if found[key].ndim != 1:
        raise BadInput(f"`{key}` in {path} must be a list of names, but has shape {found[key].shape}; flatten it.")
    return tuple(map(str, found[key]))


def write_npz(dataset: ZeroShotDataset, path: str | Path) -> Path:
    """Write a data set to one .npz file (uncompressed: features hardly shrink) that `read_npz` reads back."""
    path = Path(path)
    if path.suffix != ".npz":
        raise BadInput(f"The file must end in .npz, but is called {path.name!r}; rename it.")
    fields = {key: getattr(dataset, key) for key in (*_NEEDED, *_OPTIONAL) if key != "descriptions"}
    fields["descriptions"] = dataset.description_matrix
    arrays = {key: np.asarray(value) for key, value in fields.items() if value is not None}

    def save(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)

    write_atomically(path, save)
    return path
