"""A whole data set in one .npz file of plain arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from firstsight._io.files import text_of_name
from firstsight.data.array_files import read_arrays, read_names, write_arrays
from firstsight.data.dataset import ZeroShotDataset
from firstsight.data.rules import PARTS, as_float32, as_integers
from firstsight.data.unchecked import UncheckedDataset
from firstsight.errors import BadInput

ACCEPTS = "an .npz file"
_NEEDED = ("features", "labels", "class_names", "descriptions", *PARTS)
_BEFORE = "class_attributes"  # what descriptions were called in files of firstsight 0.1
_OPTIONAL = ("name", "attribute_names", "images", "sample_names", "feature_names")


def matches(path: Path) -> bool:
    return path.suffix == ".npz" and path.is_file()


def read_npz(path: str | Path) -> ZeroShotDataset:
    """Read what `write_npz` wrote, or any .npz file with the same keys; nothing in it is ever unpickled.

    Keys: features (N, d), labels (N,) whole numbers, class_names (C,) text, descriptions (C, a), and row
    numbers train, test_seen, test_unseen; optional: name, attribute_names (a,), images (N, h, w) uint8,
    sample_names (N,), feature_names (d,). All numbers count from 0.
    """
    return ZeroShotDataset.judged(read(Path(path)))


def read(path: Path, features: str | None = None) -> UncheckedDataset:
    """As `read_npz`, unjudged."""
    arrays = read_arrays(path, (*_NEEDED, *_OPTIONAL, _BEFORE))
    if _BEFORE in arrays:
        arrays.setdefault("descriptions", arrays.pop(_BEFORE))
    missing = [key for key in _NEEDED if key not in arrays]
    if missing:
        raise BadInput(f"{path} lacks {', '.join(missing)}; read_npz says which keys there must be.")
    name = arrays.get("name", np.array(text_of_name(path.stem)))
    if name.shape != () or name.dtype.kind != "U":
        raise BadInput(f"`name` in {path} must be one text, but has shape {name.shape} and type {name.dtype}; fix it.")
    return UncheckedDataset(
        name=str(name),
        class_names=read_names(path, arrays, "class_names") or (),
        description_matrix=as_float32("descriptions", arrays["descriptions"]),
        parts={part: as_integers(part, arrays[part]) for part in PARTS},
        labels=as_integers("labels", arrays["labels"]),
        features=as_float32("features", arrays.pop("features")),
        attribute_names=read_names(path, arrays, "attribute_names"),
        images=arrays.get("images"),
        sample_names=read_names(path, arrays, "sample_names"),
        feature_names=read_names(path, arrays, "feature_names"),
    )


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
