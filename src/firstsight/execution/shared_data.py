"""A data set that several processes read without each holding a copy: its features as a mapped file."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from firstsight.data import ZeroShotDataset
from firstsight.files import remove_stale, write_atomically

_FEATURES = "features.npy"
_ARRAYS = ("labels", "description_matrix", "train", "test_seen", "test_unseen")
_NAMES = ("name", "class_names", "attribute_names")


def share(dataset: ZeroShotDataset, folder: Path, twin: Path | None = None) -> None:
    """Write what a fit needs of a data set; `twin` holds one with the same features, which need no second copy."""
    if twin is None or not _linked(twin / _FEATURES, folder / _FEATURES):
        write_atomically(folder / _FEATURES, lambda path: np.save(path, dataset.features))
    rest = rest_of(dataset)
    arrays = {name: rest.pop(name) for name in _ARRAYS}
    write_atomically(folder / "arrays.npz", lambda path: np.savez(path, **arrays))
    names = {"identity": identity_of_data(dataset), **rest}
    write_atomically(folder / "names.json", json.dumps(names, ensure_ascii=False))


def rest_of(dataset: ZeroShotDataset) -> dict[str, Any]:
    """What a fit needs besides the features."""
    return {name: getattr(dataset, name) for name in (*_ARRAYS, *_NAMES)}


def identity_of_data(dataset: ZeroShotDataset) -> str:
    """Changes when anything does that a fit is shown."""
    return f"{dataset.features_hash}-{dataset.split_hash}"


def unshare(folder: Path) -> None:
    """Remove what `share` has written, and what writes that were killed have left of it; nothing else."""
    for name in (_FEATURES, "arrays.npz", "names.json"):
        remove_stale(folder / name)
        with suppress(OSError):
            (folder / name).unlink()
    with suppress(OSError):  # not there, or not ours alone
        folder.rmdir()


def shared_identity(folder: Path) -> str | None:
    """Which data set a folder holds, or None if it holds none."""
    try:
        found: str = json.loads((folder / "names.json").read_text(encoding="utf-8"))["identity"]
    except OSError:
        return None
    return found


def open_shared(folder: Path) -> ZeroShotDataset:
    """The data set that `share` wrote; its features stay on the disk until they are read."""
    names = json.loads((folder / "names.json").read_text(encoding="utf-8"))
    del names["identity"]
    features = np.load(folder / _FEATURES, mmap_mode="r")
    with np.load(folder / "arrays.npz") as arrays:
        return ZeroShotDataset(features=features, **names, **{name: arrays[name] for name in _ARRAYS})


def _linked(there: Path, here: Path) -> bool:
    try:
        here.parent.mkdir(parents=True, exist_ok=True)
        here.unlink(missing_ok=True)
        here.hardlink_to(there)
    except OSError:  # a file system without such links
        return False
    return True
