"""The format of a data set in one .npz file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from firstsight._io.files import text_of_name
from firstsight.data.dataset import ZeroShotDataset
from firstsight.data.feature_files import read_arrays, read_names, write_arrays
from firstsight.data.rules import PARTS, as_float32
from firstsight.errors import BadInput

ACCEPTS = "an .npz file"
_NEEDED = ("features", "labels", "class_names", "descriptions", *PARTS)
_OPTIONAL = ("name", "attribute_names", "images", "sample_names", "feature_names")


def matches(path: Path) -> bool:
    return path.suffix == ".npz" and path.is_file()


def read_npz(path: str | Path) -> ZeroShotDataset:
    """Read what `write_npz` wrote, or any .npz file with the same keys; nothing in it is ever unpickled.

    Keys: features (N, d), labels (N,) whole numbers, class_names (C,) text, descriptions (C, a), and row
    numbers train, test_seen, test_unseen; optional: name, attribute_names (a,), images (N, h, w) uint8,
    sample_names (N,), feature_names (d,). All numbers count from 0.
    """
    return ZeroShotDataset(**read(Path(path)))


def read(path: Path, features: str | None = None) -> dict[str, Any]:
    """Read the arguments of the data set in a file."""
    arrays: dict[str, Any] = dict(read_arrays(path, (*_NEEDED, *_OPTIONAL)))
    missing = [key for key in _NEEDED if key not in arrays]
    if missing:
        raise BadInput(f"{path} lacks {', '.join(missing)}; read_npz says which keys there must be.")
    name = arrays.get("name", np.array(text_of_name(path.stem)))
    if name.shape != () or name.dtype.kind != "U":
        raise BadInput(f"`name` in {path} must be one text, but has shape {name.shape} and type {name.dtype}; fix it.")
    names = ("class_names", "attribute_names", "sample_names", "feature_names")
    return {
        **{key: array for key, array in arrays.items() if key != "descriptions"},
        **{key: read_names(path, arrays, key) for key in names},
        "name": str(name),
        "description_matrix": as_float32("descriptions", arrays["descriptions"]),
    }


def write_npz(dataset: ZeroShotDataset, path: str | Path) -> Path:
    """Write a data set to one .npz file (uncompressed: features hardly shrink) that `load_dataset` reads back.

    Parameters
    ----------
    dataset : ZeroShotDataset
        What to write.
    path : str or Path
        The file.

    Returns
    -------
    Path
        Where it is.
    """
    fields = {key: getattr(dataset, key) for key in (*_NEEDED, *_OPTIONAL) if key != "descriptions"}
    fields["descriptions"] = dataset.description_matrix
    return write_arrays(path, {key: np.asarray(value) for key, value in fields.items() if value is not None})
